// A turn of an agent: updates are saved and sent.

import { randomUUID } from "node:crypto";

export class Turn {
  #abort = new AbortController();

  /**
   * `dialect` has the forms of a protocol version: `{ newCall, plan, question }`.
   * `send` and `ask` reach the client, and `keep` the memory.
   */
  constructor(kept, dialect, { send, ask, keep }) {
    Object.assign(this, { kept, dialect, send, asked: ask, keep });
    this.prompts = kept.prompts;
    this.words = kept.prompts.at(-1).at(-1).text;
  }

  async tell(update) {
    this.kept.updates.push(update);
    this.keep();
    await this.send(update);
  }

  /** Send a message or thought word by word. */
  async say(what, words) {
    const messageId = randomUUID();
    for (const piece of words.match(/\S+\s*/g)) {
      const content = { type: "text", text: piece };
      await this.tell({ sessionUpdate: `${what}_chunk`, messageId, content });
    }
  }

  plan(entries) {
    return this.tell(this.dialect.plan(entries));
  }

  async call(fields) {
    const call = { toolCallId: randomUUID(), ...fields };
    await this.tell({ sessionUpdate: this.dialect.newCall, ...call });
    return call;
  }

  change({ toolCallId }, fields) {
    return this.tell({ sessionUpdate: "tool_call_update", toolCallId, ...fields });
  }

  /** Request a permission, and return the chosen option, if any. */
  async ask(call, options) {
    const { outcome } = await this.asked(this.dialect.question(call, options), this.#abort.signal);
    return outcome.optionId;
  }

  cancel() {
    this.#abort.abort();
  }

  get isCancelled() {
    return this.#abort.signal.aborted;
  }

  get cancelled() {
    const { signal } = this.#abort;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", resolve);
    });
  }
}
