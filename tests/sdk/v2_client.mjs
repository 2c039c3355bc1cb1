// The whole lifecycle of version 2, driven by the official SDK:
//
//     node v2_client.mjs PID_FILE COMMAND …
//
// COMMAND is `rekindle run` with an agent that writes its process id to PID_FILE, and has the
// actions of the example agent. All processes are killed twice, and the
// agent alone once. Any fault ends the script with an error.

import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk/experimental/v2/unstable";
import { Connection, CWD, text } from "./connection.mjs";
import { schemas } from "./message_validator.mjs";

const [pidFile, ...command] = process.argv.slice(2);
const { agent } = acp.methods;
const FIRST = "Please think, plan, read and edit";
const QUESTION = "What did I say first? How many prompts were there?";
const CURSORS = ["_rekindle_message", "_rekindle_turns", "_rekindle_seq"];

const PROTOCOL = {
  acp,
  zod: await schemas("v2"),
  results: {
    initialize: "zInitializeResponse",
    "session/new": "zNewSessionResponse",
    "session/list": "zListSessionsResponse",
    "session/resume": "zResumeSessionResponse",
    "session/fork": "zForkSessionResponse",
    "session/close": "zCloseSessionResponse",
    "session/delete": "zDeleteSessionResponse",
    "session/set_config_option": "zSetSessionConfigOptionResponse",
    "session/prompt": "zPromptResponse",
  },
  notifications: {
    "session/update": "zUpdateSessionNotification",
    "$/cancel_request": "zCancelRequestNotification",
  },
  requests: { "session/request_permission": "zRequestPermissionRequest" },
};

async function connect() {
  const connection = new Connection(PROTOCOL, pidFile, command);
  const answer = await connection.request(agent.initialize, {
    protocolVersion: 2,
    info: { name: "rekindle-tests", version: "1" },
    capabilities: {},
  });
  assert.equal(answer.protocolVersion, 2);
  for (const name of ["delete", "fork"]) {
    assert(answer.capabilities.session[name], `${name} is not offered`);
  }
  const told = JSON.stringify(answer.capabilities);
  for (const cursor of CURSORS) assert(told.includes(cursor), `${cursor} is not announced`);
  return connection;
}

const isState = (state) => (it) => it.sessionUpdate === "state_update" && it.state === state;

/** Start a turn: it is accepted, with a message id and a state. */
async function begin(connection, sessionId, words) {
  const from = connection.updates.length;
  const params = { sessionId, prompt: [text(words)] };
  const { messageId } = await connection.request(agent.session.prompt, params);
  const isIt = (it) => it.sessionUpdate === "user_message" && it.messageId === messageId;
  await connection.until(sessionId, isIt, "the user's message", from);
  await connection.until(sessionId, isState("running"), "the state running", from);
  return { from, messageId };
}

async function ended(connection, sessionId, turn) {
  const idle = await connection.until(sessionId, isState("idle"), "the state idle", turn.from);
  const updates = connection.of(sessionId, turn.from);
  return { ...turn, updates, stopReason: idle.stopReason };
}

async function prompt(connection, sessionId, words) {
  return ended(connection, sessionId, await begin(connection, sessionId, words));
}

async function resume(connection, sessionId, replayFrom) {
  const from = connection.updates.length;
  const params = { sessionId, cwd: CWD, ...(replayFrom && { replayFrom }) };
  const answer = await connection.request(agent.session.resume, params);
  return { answer, updates: connection.of(sessionId, from) };
}

async function listed(connection) {
  return (await connection.request(agent.session.list, { cwd: CWD })).sessions;
}

const modeOf = (options) => options.find((it) => it.category === "mode");
const joined = (content) => content.map((it) => it.text).join("");

/** Return the conversation: the final messages, tool calls and plans. */
function shown(updates) {
  const items = new Map();
  const item = (is, id) => {
    const key = `${is} ${id}`;
    if (!items.has(key)) items.set(key, { is, id });
    return items.get(key);
  };
  for (const { sessionUpdate: kind, _meta, ...fields } of updates) {
    if (/^(user|agent)_(message|thought)_chunk$/.test(kind)) {
      const message = item(kind.replace("_chunk", ""), fields.messageId);
      message.text = (message.text ?? "") + fields.content.text;
    } else if (/^(user|agent)_(message|thought)$/.test(kind)) {
      const message = item(kind, fields.messageId);
      if (fields.content !== undefined) message.text = joined(fields.content ?? []);
    } else if (kind === "tool_call_update") {
      Object.assign(item("tool_call", fields.toolCallId), fields);
    } else if (kind === "tool_call_content_chunk") {
      const call = item("tool_call", fields.toolCallId);
      call.content = [...(call.content ?? []), fields.content];
    } else if (kind === "plan_update") {
      Object.assign(item("plan", fields.plan.planId), fields.plan);
    }
  }
  return [...items.values()];
}

const said = (updates) =>
  shown(updates)
    .filter((it) => it.is === "agent_message")
    .map((it) => it.text)
    .join("");

const states = (updates) =>
  updates.filter((it) => it.sessionUpdate === "state_update").map((it) => it.state);

/** Check that the agent knows the first prompt and the number of prompts. */
async function remembers(connection, sessionId, number) {
  const { stopReason, updates } = await prompt(connection, sessionId, QUESTION);
  assert.equal(stopReason, "end_turn");
  for (const words of [FIRST, `You sent ${number} prompts before`]) {
    assert(said(updates).includes(words), `it does not remember: ${said(updates)}`);
  }
}

/** Start a turn that does not end by itself. */
async function beSlow(connection, sessionId) {
  const turn = await begin(connection, sessionId, "Be slow");
  await connection.until(sessionId, (it) => said([it]).includes("cancel"), "words", turn.from);
  return turn;
}

// A new session, a turn with a permission request, a mode, and a cancelled turn.
let connection = await connect();
const created = await connection.request(agent.session.new, { cwd: CWD });
const { sessionId } = created;
const mode = modeOf(created.configOptions);
assert.equal(mode.currentValue, "ask");

const questions = [];
connection.permit = async (question) => {
  questions.push(question);
  await connection.until(sessionId, isState("requires_action"), "the state requires_action");
  return { outcome: "selected", optionId: question.options[0].optionId };
};
const turn = await prompt(connection, sessionId, FIRST);
assert.equal(turn.stopReason, "end_turn");
assert.deepEqual(states(turn.updates), ["running", "requires_action", "running", "idle"]);
assert.equal(questions.length, 1);
assert.equal(questions[0].sessionId, sessionId);
assert.equal(questions[0].subject.type, "tool_call");
const kinds = new Set(shown(turn.updates).map((it) => it.is));
for (const kind of ["user_message", "agent_thought", "plan", "tool_call", "agent_message"]) {
  assert(kinds.has(kind), `no ${kind} came`);
}
await connection.until(sessionId, (it) => it.sessionUpdate === "session_info_update", "a title");

const value = { configId: mode.configId, type: "id", value: "code" };
const set = await connection.request(agent.session.setConfigOption, { sessionId, ...value });
assert.equal(modeOf(set.configOptions).currentValue, "code");

const slow = await beSlow(connection, sessionId);
await connection.notify(agent.session.cancel, { sessionId });
const cancelled = await ended(connection, sessionId, slow);
assert.equal(cancelled.stopReason, "cancelled");

// Cancelled during a permission request.
connection.permit = async () => {
  await connection.notify(agent.session.cancel, { sessionId });
  return { outcome: "cancelled" };
};
const unanswered = await prompt(connection, sessionId, "Please edit");
assert.equal(unanswered.stopReason, "cancelled");

// Methods that only version 1 has.
await connection.refused("session/load", { sessionId, cwd: CWD, mcpServers: [] }, -32601);
await connection.refused("session/set_mode", { sessionId, modeId: "ask" }, -32601);

const live = [turn, cancelled, unanswered].flatMap(({ updates }) => shown(updates));
await connection.kill();

// The whole conversation is replayed from the start.
connection = await connect();
const [info] = await listed(connection);
assert.equal(info.sessionId, sessionId);
assert.equal(info.cwd, CWD);
assert.equal(info.title, FIRST);
assert(!Number.isNaN(Date.parse(info.updatedAt)));

const whole = await resume(connection, sessionId, { type: "start" });
assert.deepEqual(shown(whole.updates), live);
assert.deepEqual(states(whole.updates), ["idle"]);
assert.equal(whole.updates.at(-1).sessionUpdate, "state_update");
assert.equal(modeOf(whole.answer.configOptions).currentValue, "code");

// Or from where a cursor of ours says; it is included.
const last = await resume(connection, sessionId, { type: "_rekindle_turns", last: 1 });
assert.deepEqual(shown(last.updates), shown(unanswered.updates));
const two = await resume(connection, sessionId, { type: "_rekindle_turns", last: 2 });
assert.deepEqual(shown(two.updates), [cancelled, unanswered].flatMap((it) => shown(it.updates)));
const { messageId } = cancelled;
const since = await resume(connection, sessionId, { type: "_rekindle_message", messageId });
assert.deepEqual(shown(since.updates), shown(two.updates));
const all = await resume(connection, sessionId, { type: "_rekindle_seq", seq: 1 });
assert.deepEqual(shown(all.updates), live);
for (const cursor of [
  { type: "_nobody" },
  { type: "end" },
  { type: "_rekindle_turns", last: "one" },
  { type: "_rekindle_message", messageId: "nobody" },
  { type: "_rekindle_seq" },
]) {
  const params = { sessionId, cwd: CWD, replayFrom: cursor };
  await connection.refused(agent.session.resume, params, -32602);
}
await remembers(connection, sessionId, 3);

// A fork is independent.
const fork = await connection.request(agent.session.fork, { sessionId, cwd: CWD });
assert.notEqual(fork.sessionId, sessionId);
await remembers(connection, fork.sessionId, 4);
const again = await resume(connection, sessionId, { type: "start" });
assert.equal(shown(again.updates).filter((it) => it.is === "user_message").length, 4);
assert.equal((await listed(connection)).length, 2);
await connection.kill();

// Resumed without a replay.
connection = await connect();
const resumed = await resume(connection, sessionId);
assert.deepEqual(shown(resumed.updates), []);
assert.equal(modeOf(resumed.answer.configOptions).currentValue, "code");
await remembers(connection, sessionId, 4);

// The agent alone is killed in a turn. The turn fails, and the next agent knows it.
const failing = await beSlow(connection, sessionId);
connection.killAgent();
const failed = await ended(connection, sessionId, failing);
assert.equal(failed.stopReason, "error");
await remembers(connection, sessionId, 6);

// Closed: no prompts, until it is resumed.
await connection.request(agent.session.close, { sessionId });
const late = { sessionId, prompt: [text("Hello?")] };
await connection.refused(agent.session.prompt, late, -32002);
await resume(connection, sessionId);
await remembers(connection, sessionId, 7);

// Deleted: it is gone, and a second delete succeeds.
await connection.request(agent.session.delete, { sessionId });
await connection.request(agent.session.delete, { sessionId });
await connection.refused(agent.session.resume, { sessionId, cwd: CWD }, -32002);
const left = await listed(connection);
assert.deepEqual(left.map((it) => it.sessionId), [fork.sessionId]);
await connection.leave();
