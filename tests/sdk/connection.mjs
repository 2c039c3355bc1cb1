// A connection to an agent through the official SDK. Every message is validated.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { Validator, tap } from "./message_validator.mjs";

const PATIENCE = 20_000;

export const CWD = "/home/user/project";
export const text = (words) => ({ type: "text", text: words });

// The SDK reports invalid notifications only on the console.
const complaints = [];
console.error = (...words) => complaints.push(words.map((it) => JSON.stringify(it)).join(" "));

export class Connection {
  /** `protocol` is a version of the SDK, `acp`, and the tables of its validator. */
  constructor(protocol, pidFile, command) {
    this.acp = protocol.acp;
    this.validator = new Validator(protocol);
    this.pidFile = pidFile;
    this.updates = [];
    this.handled = 0;
    this.permit = undefined;
    this.waiting = new Set();
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.sdk = this.app().connect(this.stream());
  }

  app() {
    const { client, methods } = this.acp;
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
    const { ndJsonStream } = this.acp;
    const wire = ndJsonStream(Writable.toWeb(stdin), Readable.toWeb(stdout));
    const sent = tap((message) => this.validator.note(message));
    sent.readable.pipeTo(wire.writable).catch(() => {}); // the process may be killed
    return {
      writable: sent.writable,
      readable: wire.readable.pipeThrough(tap((message) => this.hear(message))),
    };
  }

  hear(message) {
    const { wrong } = this.validator.validate(message);
    if (wrong) complaints.push(`${wrong} in ${JSON.stringify(message)}`);
    if (message.method === "session/update") this.updates.push(message.params);
    for (const wake of this.waiting) wake();
  }

  request(method, params) {
    return soon(this.sdk.agent.request(method, params), method);
  }

  notify(method, params) {
    return soon(this.sdk.agent.notify(method, params), method);
  }

  /** Check that a request is refused. */
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

  /** Disconnect as an editor does. */
  async leave() {
    this.process.stdin.end();
    const [code] = await soon(once(this.process, "exit"), "the end");
    assert.equal(code, 0);
    this.check();
  }

  /** Kill the agent alone. */
  killAgent() {
    process.kill(Number(readFileSync(this.pidFile, "utf8")), "SIGKILL");
  }

  /** Kill Rekindle and the agent. */
  async kill() {
    const gone = once(this.process, "exit");
    this.process.kill("SIGKILL");
    this.killAgent();
    await soon(gone, "the kill");
    this.check();
  }

  check() {
    this.sdk.close();
    assert.deepEqual(complaints, []);
    assert.equal(this.handled, this.updates.length, "the SDK dropped updates");
  }
}

async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} takes too long`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
