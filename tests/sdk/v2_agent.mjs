// An agent of version 2 alone, written with the official SDK:
//
//     node v2_agent.mjs VERDICTS [MEMORY OFFER,…]
//
// It saves sessions in MEMORY; without it, none. Of the lifecycle, only delete and fork are
// optional.

import { randomUUID } from "node:crypto";
import * as acp from "@agentclientprotocol/sdk/experimental/v2/unstable";
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
  zod: await schemas("v2"),
  requests: {
    initialize: "zInitializeRequest",
    "session/new": "zNewSessionRequest",
    "session/list": "zListSessionsRequest",
    "session/resume": "zResumeSessionRequest",
    "session/fork": "zForkSessionRequest",
    "session/close": "zCloseSessionRequest",
    "session/delete": "zDeleteSessionRequest",
    "session/set_config_option": "zSetSessionConfigOptionRequest",
    "session/prompt": "zPromptRequest",
  },
  notifications: {
    "session/cancel": "zCancelSessionNotification",
    "$/cancel_request": "zCancelRequestNotification",
  },
  results: { "session/request_permission": "zRequestPermissionResponse" },
};

const DIALECT = {
  newCall: "tool_call_update",
  plan: (entries) => ({
    sessionUpdate: "plan_update",
    plan: { type: "items", planId: "main", entries },
  }),
  question: (toolCall, options) => ({
    title: `Allow: ${toolCall.title}`,
    subject: { type: "tool_call", toolCall },
    options,
  }),
};

const MODES = ["ask", "code"].map((value) => ({ value, name: value }));
const config = ({ mode: currentValue }) => ({
  configOptions: [
    {
      configId: "mode",
      name: "Mode",
      category: "mode",
      type: "select",
      currentValue,
      options: MODES,
    },
  ],
});

async function tell(client, { sessionId }, update) {
  await client.notify(asks.session.update, { sessionId, update });
}

const state = (name, details) => ({ sessionUpdate: "state_update", state: name, ...details });

function prompt({ params, client }) {
  const kept = conversations.opened(params);
  const messageId = randomUUID();
  kept.prompts.push(params.prompt);
  run(kept, messageId, client);
  return { messageId };
}

async function run(kept, messageId, client) {
  const { sessionId } = kept;
  const send = (update) => tell(client, kept, update);
  const turn = new Turn(kept, DIALECT, {
    send,
    ask: async (question, cancellationSignal) => {
      await send(state("requires_action"));
      const params = { sessionId, ...question };
      const options = { cancellationSignal, stopWaitingOnCancel: true };
      const answer = await client
        .request(asks.session.requestPermission, params, options)
        .catch(() => ({ outcome: { outcome: "cancelled" } }));
      await send(state("running"));
      return answer;
    },
    keep: () => conversations.keep(kept),
  });
  turns.set(sessionId, turn);
  await turn.tell({ sessionUpdate: "user_message", messageId, content: kept.prompts.at(-1) });
  await send(state("running"));
  await send(state("idle", { stopReason: await play(turn) }));
}

async function resume({ params, client }) {
  const kept = conversations.reopen(params);
  const again = params.replayFrom ? kept.updates : [];
  for (const update of [...again, state("idle")]) await tell(client, kept, update);
  return config(kept);
}

const LIFECYCLE = {
  fork({ params }) {
    const kept = conversations.begin(params.cwd, conversations.reopen(params));
    return { sessionId: kept.sessionId, ...config(kept) };
  },
  delete({ params }) {
    conversations.forget(params);
    return {};
  },
};

const offers = offered.split(",").filter((it) => it in LIFECYCLE);
const app = acp
  .agent({ name: "sdk-agent" })
  .onRequest(asked.initialize, () => ({
    protocolVersion: 2,
    info: { name: "sdk-agent", version: "1" },
    capabilities: { session: Object.fromEntries(offers.map((it) => [it, {}])) },
    authMethods: [],
  }))
  .onRequest(asked.session.new, ({ params }) => {
    const kept = conversations.begin(params.cwd);
    return { sessionId: kept.sessionId, ...config(kept) };
  })
  .onRequest(asked.session.list, ({ params }) => ({ sessions: conversations.listed(params.cwd) }))
  .onRequest(asked.session.resume, resume)
  .onRequest(asked.session.close, ({ params }) => {
    conversations.close(params);
    return {};
  })
  .onRequest(asked.session.setConfigOption, ({ params }) => {
    const kept = conversations.opened(params);
    kept.mode = params.value;
    conversations.keep(kept);
    return config(kept);
  })
  .onRequest(asked.session.prompt, prompt)
  .onNotification(asked.session.cancel, ({ params }) => turns.get(params.sessionId)?.cancel());
for (const name of offers) app.onRequest(asked.session[name], LIFECYCLE[name]);
serve(app, PROTOCOL, verdicts);
