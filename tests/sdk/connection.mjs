// A connection to an agent through the official SDK, which must like every message of it.
//
// The SDK checks what it hands on, and mends or drops much without a word. So all that comes
// is also held to the SDK's own schemas before: nothing may be wrong, mended or unknown.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const PATIENCE = 20_000;

export const CWD = "/home/user/project";
export const text = (words) => ({ type: "text", text: words });

// What nobody but the console is told of notifications that the SDK does not like.
const complaints = [];
console.error = (...words) => complaints.push(words.map((it) => JSON.stringify(it)).join(" "));

export class Connection {
  /**
   * `protocol` is `{ acp, zod, results, notifications, requests }`: a version of the SDK, its
   * schemas, and their names by method.
   */
  constructor(protocol, command) {
    this.protocol = protocol;
    this.updates = [];
    this.handled = 0;
    this.permit = undefined;
    this.asked = new Map();
    this.waiting = new Set();
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.sdk = this.app().connect(this.stream());
  }

  app() {
    const { client, methods } = this.protocol.acp;
    return client({ name: "rekindle-tests" })
      .onRequest(methods.client.session.requestPermission, async ({ params }) => {
        assert(this.permit, "permission was asked for unexpectedly");
        return { outcome: await this.permit(params) };
      })
      .onNotification(methods.client.session.update, () => {
        this.handled += 1;
      });
  }

  stream() {
    const { stdin, stdout } = this.process;
    const { ndJsonStream } = this.protocol.acp;
    const wire = ndJsonStream(Writable.toWeb(stdin), Readable.toWeb(stdout));
    const sent = tap((message) => this.note(message));
    sent.readable.pipeTo(wire.writable).catch(() => {}); // it is killed at times
    return {
      writable: sent.writable,
      readable: wire.readable.pipeThrough(tap((message) => this.judge(message))),
    };
  }

  note(message) {
    if (message.method && "id" in message) this.asked.set(message.id, message.method);
  }

  judge(message) {
    const { results, notifications, requests } = this.protocol;
    if (message.method) {
      const names = "id" in message ? requests : notifications;
      this.hold(message, names[message.method], message.params);
    } else {
      const method = this.asked.get(message.id);
      this.asked.delete(message.id);
      if ("result" in message) this.hold(message, results[method], message.result);
    }
    if (message.method === "session/update") this.updates.push(message.params);
    for (const wake of this.waiting) wake();
  }

  hold(message, name, value) {
    const parsed = this.protocol.zod[name]?.safeParse(value);
    const wrong = parsed?.success
      ? lost(value, parsed.data)
      : (parsed?.error.message ?? "nothing that is known");
    if (wrong) complaints.push(`${wrong} in ${JSON.stringify(message)}`);
  }

  request(method, params) {
    return soon(this.sdk.agent.request(method, params), method);
  }

  notify(method, params) {
    return soon(this.sdk.agent.notify(method, params), method);
  }

  /** See a request refused. */
  async refused(method, params, code) {
    const error = await this.request(method, params).then(
      () => assert.fail(`${method} should be refused`),
      (error) => error,
    );
    assert.equal(error.code, code, `${method}: ${error.message}`);
  }

  /** Return the updates of a session since `from`, or all. */
  of(sessionId, from = 0) {
    const own = this.updates.slice(from).filter((it) => it.sessionId === sessionId);
    return own.map((it) => it.update);
  }

  /** Wait until an update of a session `isIt`, among those since `from`. */
  async until(sessionId, isIt, what, from = 0) {
    let wake;
    const found = new Promise((resolve) => {
      wake = () => this.of(sessionId, from).some(isIt) && resolve();
    });
    this.waiting.add(wake);
    wake();
    await soon(found, what);
    this.waiting.delete(wake);
    return this.of(sessionId, from).find(isIt);
  }

  /** Leave as an editor does. */
  async leave() {
    this.process.stdin.end();
    const [code] = await soon(once(this.process, "exit"), "the end");
    assert.equal(code, 0);
    this.check();
  }

  /** Kill Rekindle and the agent. */
  async kill(pidFile) {
    const gone = once(this.process, "exit");
    this.process.kill("SIGKILL");
    process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
    await soon(gone, "the kill");
    this.check();
  }

  check() {
    this.sdk.close();
    assert.deepEqual(complaints, []);
    assert.equal(this.handled, this.updates.length, "the SDK dropped updates");
  }
}

function tap(look) {
  return new TransformStream({
    transform(message, controller) {
      look(message);
      controller.enqueue(message);
    },
  });
}

/** Tell what a schema has dropped or mended. What it adds are defaults. */
function lost(value, parsed, path = "") {
  if (value === null || typeof value !== "object") {
    return value === parsed ? undefined : `${path} was mended`;
  }
  if (parsed === null || typeof parsed !== "object") return `${path} was dropped`;
  if (Array.isArray(value) && value.length !== parsed.length) return `${path} was cut`;
  for (const [key, inner] of Object.entries(value)) {
    const wrong = lost(inner, parsed[key], `${path}/${key}`);
    if (wrong) return wrong;
  }
  return undefined;
}

async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} takes too long`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Return the schemas of the SDK, which it does not export. */
export function schemas(version) {
  const folder = "./node_modules/@agentclientprotocol/sdk/dist";
  return import(`${folder}/${version}/unstable/schema/zod.gen.js`);
}
