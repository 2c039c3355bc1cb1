// The actions of an agent in a turn, selected by words in the prompt as in the example agent.

const PLAN = ["Look at the question", "Find an answer"];
const PERMISSIONS = [
  { optionId: "allow", name: "Allow", kind: "allow_once" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
];

const ACTIONS = [
  [/\bthink\b/i, (turn) => turn.say("agent_thought", "I think that this is a thought.")],
  [/\bplan\b/i, plan],
  [/\bread\b/i, read],
  [/\bedit\b/i, edit],
  [/\bslow\b/i, slow],
  [/\bwhat did i say first\b/i, recallFirst],
  [/\bhow many prompts\b/i, recallNumber],
];

/** Run a turn, and return the stop reason. */
export async function play(turn) {
  for (const [phrase, action] of ACTIONS) {
    if (phrase.test(turn.words)) await action(turn);
    if (turn.isCancelled) return "cancelled";
  }
  await turn.say("agent_message", "That is all.");
  return "end_turn";
}

async function plan(turn) {
  for (const done of PLAN.keys()) {
    const status = (step) => (step < done ? "completed" : "pending");
    const entry = (content, step) => ({ content, priority: "medium", status: status(step) });
    await turn.plan(PLAN.map(entry));
  }
}

async function read(turn) {
  const call = await turn.call({ title: "Read notes.txt", kind: "read", status: "in_progress" });
  const found = { type: "content", content: { type: "text", text: "Remember the milk." } };
  await turn.change(call, { status: "completed", content: [found] });
}

async function edit(turn) {
  const call = await turn.call({ title: "Edit notes.txt", kind: "edit", status: "pending" });
  const chosen = await turn.ask(call, PERMISSIONS);
  await turn.change(call, { status: chosen === "allow" ? "completed" : "failed" });
}

async function slow(turn) {
  await turn.say("agent_message", "I am waiting until you cancel.");
  await turn.cancelled;
}

async function recallFirst(turn) {
  await turn.say("agent_message", `You said first: ${remembered(turn)[0]}\n`);
}

async function recallNumber(turn) {
  const { length } = remembered(turn);
  await turn.say("agent_message", `You sent ${length} prompts before this one.\n`);
}

/** Return the earlier prompts that a model would know. */
function remembered(turn) {
  const handedOver = turn.prompts[0].slice(0, -1).flatMap((it) => it.text.split("\n"));
  return [
    ...handedOver.filter((it) => it.startsWith("User: ")).map((it) => it.slice("User: ".length)),
    ...turn.prompts.slice(0, -1).map((blocks) => blocks.at(-1).text),
  ];
}
