// The whole lifecycle of version 1, driven by the official SDK:
//
//     node v1_client.mjs PID_FILE COMMAND …
//
// COMMAND is `rekindle run` with an agent that writes its process id to PID_FILE, and has the
// actions of the example agent. All processes are killed twice, and the
// agent alone once. Any fault ends the script with an error.

import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk/unstable";
import { Connection, CWD, text } from "./connection.mjs";
import { schemas } from "./message_validator.mjs";

const [pidFile, ...command] = process.argv.slice(2);
const { agent } = acp.methods;
const OPEN = { cwd: CWD, mcpServers: [] };
const FIRST = "Please think, plan, read and edit";
const QUESTION = "What did I say first? How many prompts were there?";
const MARKS = new Set(["available_commands_update", "session_info_update", "current_mode_update"]);

const PROTOCOL = {
  acp,
  zod: await schemas("v1"),
  results: {
    initialize: "zInitializeResponse",
    "session/new": "zNewSessionResponse",
    "session/load": "zLoadSessionResponse",
    "session/list": "zListSessionsResponse",
    "session/resume": "zResumeSessionResponse",
    "session/fork": "zForkSessionResponse",
    "session/close": "zCloseSessionResponse",
    "session/delete": "zDeleteSessionResponse",
    "session/set_mode": "zSetSessionModeResponse",
    "session/prompt": "zPromptResponse",
  },
  notifications: {
    "session/update": "zSessionNotification",
    "$/cancel_request": "zCancelRequestNotification",
  },
  requests: { "session/request_permission": "zRequestPermissionRequest" },
};

async function connect() {
  const connection = new Connection(PROTOCOL, pidFile, command);
  const answer = await connection.request(agent.initialize, {
    protocolVersion: 1,
    clientCapabilities: {},
    clientInfo: { name: "rekindle-tests", version: "1" },
  });
  assert.equal(answer.protocolVersion, 1);
  assert.equal(answer.agentCapabilities.loadSession, true);
  for (const name of ["list", "resume", "close", "delete", "fork"]) {
    assert(answer.agentCapabilities.sessionCapabilities[name], `${name} is not offered`);
  }
  return connection;
}

async function prompt(connection, sessionId, words) {
  const from = connection.updates.length;
  const params = { sessionId, prompt: [text(words)] };
  const answer = await connection.request(agent.session.prompt, params);
  return { stopReason: answer.stopReason, updates: connection.of(sessionId, from) };
}

async function load(connection, sessionId) {
  const from = connection.updates.length;
  const answer = await connection.request(agent.session.load, { sessionId, ...OPEN });
  return { answer, updates: connection.of(sessionId, from) };
}

async function listed(connection) {
  return (await connection.request(agent.session.list, { cwd: CWD })).sessions;
}

/** Return the conversation: joined texts, and the final tool calls and plans. */
function shown(updates) {
  const items = [];
  for (const update of updates) {
    const kind = update.sessionUpdate;
    const last = items.at(-1);
    if (MARKS.has(kind)) continue;
    if (kind.endsWith("_chunk")) {
      if (last?.is === kind) last.text += update.content.text;
      else items.push({ is: kind, text: update.content.text });
    } else if (kind.startsWith("tool_call")) {
      const known = items.find((it) => it.toolCallId === update.toolCallId);
      const { sessionUpdate, _meta, ...fields } = update;
      if (known) Object.assign(known, fields);
      else items.push({ is: "tool_call", ...fields });
    } else if (kind === "plan") {
      const known = items.find((it) => it.is === kind);
      if (known) known.entries = update.entries;
      else items.push({ is: kind, entries: update.entries });
    }
  }
  return items;
}

const said = (updates) =>
  shown(updates)
    .filter((it) => it.is === "agent_message_chunk")
    .map((it) => it.text)
    .join("");

/** Check that the agent knows the first prompt and the number of prompts. */
async function remembers(connection, sessionId, number) {
  const { stopReason, updates } = await prompt(connection, sessionId, QUESTION);
  assert.equal(stopReason, "end_turn");
  for (const words of [FIRST, `You sent ${number} prompts before`]) {
    assert(said(updates).includes(words), `it does not remember: ${said(updates)}`);
  }
}

/** Start a turn that does not end by itself; return its `end`. */
async function beSlow(connection, sessionId) {
  const from = connection.updates.length;
  const end = prompt(connection, sessionId, "Be slow");
  await connection.until(sessionId, (it) => it.content?.text.includes("cancel"), "words", from);
  return { end };
}

// A new session, a turn with a permission request, a mode, and a cancelled turn.
let connection = await connect();
const created = await connection.request(agent.session.new, OPEN);
const { sessionId } = created;
assert.equal(created.modes.currentModeId, "ask");

const questions = [];
connection.permit = async (question) => {
  questions.push(question);
  return { outcome: "selected", optionId: question.options[0].optionId };
};
const turn = await prompt(connection, sessionId, FIRST);
assert.equal(turn.stopReason, "end_turn");
assert.equal(questions.length, 1);
assert.equal(questions[0].sessionId, sessionId);
const kinds = new Set(turn.updates.map((it) => it.sessionUpdate));
for (const kind of ["agent_thought_chunk", "plan", "tool_call", "tool_call_update"]) {
  assert(kinds.has(kind), `no ${kind} came`);
}
await connection.until(sessionId, (it) => it.sessionUpdate === "session_info_update", "a title");

await connection.request(agent.session.setMode, { sessionId, modeId: "code" });

const slow = await beSlow(connection, sessionId);
await connection.notify(agent.session.cancel, { sessionId });
const cancelled = await slow.end;
assert.equal(cancelled.stopReason, "cancelled");

// Cancelled during a permission request.
connection.permit = async () => {
  await connection.notify(agent.session.cancel, { sessionId });
  return { outcome: "cancelled" };
};
const unanswered = await prompt(connection, sessionId, "Please edit");
assert.equal(unanswered.stopReason, "cancelled");

const isUser = (it) => it.is === "user_message_chunk";
const user = (words) => ({ is: "user_message_chunk", text: words });
const turns = [
  [FIRST, turn],
  ["Be slow", cancelled],
  ["Please edit", unanswered],
];
const live = turns.flatMap(([words, { updates }]) => [
  user(words),
  ...shown(updates).filter((it) => !isUser(it)),
]);
await connection.kill();

// The whole conversation is replayed.
connection = await connect();
const [info] = await listed(connection);
assert.equal(info.sessionId, sessionId);
assert.equal(info.cwd, CWD);
assert.equal(info.title, FIRST);
assert(!Number.isNaN(Date.parse(info.updatedAt)));

const loaded = await load(connection, sessionId);
assert.deepEqual(shown(loaded.updates), live);
assert.equal(loaded.answer.modes.currentModeId, "code");
await remembers(connection, sessionId, 3);

// A fork is independent.
const fork = await connection.request(agent.session.fork, { sessionId, ...OPEN });
assert.notEqual(fork.sessionId, sessionId);
await remembers(connection, fork.sessionId, 4);
const again = await load(connection, sessionId);
assert.equal(shown(again.updates).filter(isUser).length, turns.length + 1);
assert.equal((await listed(connection)).length, 2);
await connection.kill();

// Resumed without a replay.
connection = await connect();
const from = connection.updates.length;
const resumed = await connection.request(agent.session.resume, { sessionId, ...OPEN });
assert.equal(resumed.modes.currentModeId, "code");
assert.deepEqual(shown(connection.of(sessionId, from)), []);
await remembers(connection, sessionId, 4);

// The agent alone is killed in a turn. The turn fails, and the next agent knows it.
const { end } = await beSlow(connection, sessionId);
connection.killAgent();
await assert.rejects(end, { code: -32603 });
await remembers(connection, sessionId, 6);

// Closed: prompts are refused until it is loaded again.
await connection.request(agent.session.close, { sessionId });
const late = { sessionId, prompt: [text("Hello?")] };
await connection.refused(agent.session.prompt, late, -32002);
await load(connection, sessionId);
await remembers(connection, sessionId, 7);

// Deleted: it is gone, and a second delete succeeds.
await connection.request(agent.session.delete, { sessionId });
await connection.request(agent.session.delete, { sessionId });
await connection.refused(agent.session.load, { sessionId, ...OPEN }, -32002);
const left = await listed(connection);
assert.deepEqual(left.map((it) => it.sessionId), [fork.sessionId]);
await connection.leave();
