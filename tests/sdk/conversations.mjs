// The memory of an agent: conversations, each in a file if a folder is given.

import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export class Conversations {
  #folder;
  #notFound;
  #all = new Map();
  #open = new Set();

  /** `notFound` returns the error for an unknown session. */
  constructor(folder, notFound) {
    this.#folder = folder;
    this.#notFound = notFound;
    if (!folder) return;
    mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(folder).filter((it) => it.endsWith(".json"))) {
      const kept = JSON.parse(readFileSync(join(folder, name), "utf8"));
      this.#all.set(kept.sessionId, kept);
    }
  }

  /** Create a conversation, or an independent copy of one. */
  begin(cwd, from = { mode: "ask", prompts: [], updates: [] }) {
    const kept = { ...structuredClone(from), sessionId: randomUUID(), cwd };
    this.#open.add(kept.sessionId);
    this.keep(kept);
    return kept;
  }

  /** Open a saved conversation. */
  reopen({ sessionId }) {
    if (!this.#all.has(sessionId)) throw this.#notFound(sessionId);
    this.#open.add(sessionId);
    return this.#all.get(sessionId);
  }

  /** Return an open conversation. */
  opened({ sessionId }) {
    if (!this.#open.has(sessionId)) throw this.#notFound(sessionId);
    return this.#all.get(sessionId);
  }

  close({ sessionId }) {
    this.#open.delete(sessionId);
  }

  forget({ sessionId }) {
    this.close({ sessionId });
    this.#all.delete(sessionId);
    if (this.#folder) rmSync(this.#path(sessionId), { force: true });
  }

  /** Save a conversation, so that a kill does not lose it. */
  keep(kept) {
    kept.updatedAt = new Date().toISOString();
    this.#all.set(kept.sessionId, kept);
    if (!this.#folder) return;
    const unfinished = `${this.#path(kept.sessionId)}.new`;
    writeFileSync(unfinished, JSON.stringify(kept));
    renameSync(unfinished, this.#path(kept.sessionId));
  }

  listed(cwd) {
    return [...this.#all.values()]
      .filter((it) => !cwd || it.cwd === cwd)
      .map((it) => ({ sessionId: it.sessionId, cwd: it.cwd, updatedAt: it.updatedAt }));
  }

  #path(sessionId) {
    return join(this.#folder, `${sessionId}.json`);
  }
}
