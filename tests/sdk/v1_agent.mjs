// An agent of version 1, written with the official SDK:
//
//     node v1_agent.mjs VERDICTS [MEMORY OFFER,…]
//
// It offers the given lifecycle methods, and saves sessions in MEMORY; without it, none.

import * as acp from "@agentclientprotocol/sdk/unstable";
import { Conversations } from "./conversations.mjs";
import { schemas } from "./message_validator.mjs";
import { play } from "./actions.mjs";
import { serve } from "./serve_agent.mjs";
import { Turn } from "./turn.mjs";

const [verdicts, memory, offered = ""] = process.argv.slice(2);
const { agent: asked, client: asks } = acp.methods;
const conversations = new Conversations(memory, acp.RequestError.sessionNotFound);
const turns = new Map();

const PROTOCOL = {
  acp,
  zod: await schemas("v1"),
  requests: {
    initialize: "zInitializeRequest",
    "session/new": "zNewSessionRequest",
    "session/load": "zLoadSessionRequest",
    "session/list": "zListSessionsRequest",
    "session/resume": "zResumeSessionRequest",
    "session/fork": "zForkSessionRequest",
    "session/close": "zCloseSessionRequest",
    "session/delete": "zDeleteSessionRequest",
    "session/set_mode": "zSetSessionModeRequest",
    "session/prompt": "zPromptRequest",
  },
  notifications: {
    "session/cancel": "zCancelNotification",
    "$/cancel_request": "zCancelRequestNotification",
  },
  results: { "session/request_permission": "zRequestPermissionResponse" },
};

const DIALECT = {
  newCall: "tool_call",
  plan: (entries) => ({ sessionUpdate: "plan", entries }),
  question: (toolCall, options) => ({ toolCall, options }),
};

const MODES = ["ask", "code"].map((id) => ({ id, name: id }));
const modes = ({ mode }) => ({ modes: { currentModeId: mode, availableModes: MODES } });

async function tell(client, { sessionId }, update) {
  await client.notify(asks.session.update, { sessionId, update });
}

async function prompt({ params, client }) {
  const kept = conversations.opened(params);
  const { sessionId } = kept;
  kept.prompts.push(params.prompt);
  for (const content of params.prompt) {
    kept.updates.push({ sessionUpdate: "user_message_chunk", content });
  }
  const turn = new Turn(kept, DIALECT, {
    send: (update) => tell(client, kept, update),
    ask: (question) => client.request(asks.session.requestPermission, { sessionId, ...question }),
    keep: () => conversations.keep(kept),
  });
  turns.set(sessionId, turn);
  return { stopReason: await play(turn) };
}

async function setMode({ params, client }) {
  const kept = conversations.opened(params);
  kept.mode = params.modeId;
  conversations.keep(kept);
  await tell(client, kept, { sessionUpdate: "current_mode_update", currentModeId: kept.mode });
  return {};
}

const LIFECYCLE = {
  async load({ params, client }) {
    const kept = conversations.reopen(params);
    for (const update of kept.updates) await tell(client, kept, update);
    return modes(kept);
  },
  resume: ({ params }) => modes(conversations.reopen(params)),
  list: ({ params }) => ({ sessions: conversations.listed(params.cwd) }),
  fork({ params }) {
    const kept = conversations.begin(params.cwd, conversations.reopen(params));
    return { sessionId: kept.sessionId, ...modes(kept) };
  },
  close({ params }) {
    conversations.close(params);
    return {};
  },
  delete({ params }) {
    conversations.forget(params);
    return {};
  },
};

const offers = offered.split(",").filter(Boolean);
const app = acp
  .agent({ name: "sdk-agent" })
  .onRequest(asked.initialize, () => ({
    protocolVersion: 1,
    agentInfo: { name: "sdk-agent", version: "1" },
    agentCapabilities: {
      loadSession: offers.includes("load"),
      sessionCapabilities: Object.fromEntries(
        offers.filter((it) => it !== "load").map((it) => [it, {}]),
      ),
    },
  }))
  .onRequest(asked.session.new, ({ params }) => {
    const kept = conversations.begin(params.cwd);
    return { sessionId: kept.sessionId, ...modes(kept) };
  })
  .onRequest(asked.session.setMode, setMode)
  .onRequest(asked.session.prompt, prompt)
  .onNotification(asked.session.cancel, ({ params }) => turns.get(params.sessionId)?.cancel());
for (const name of offers) app.onRequest(asked.session[name], LIFECYCLE[name]);
serve(app, PROTOCOL, verdicts);
