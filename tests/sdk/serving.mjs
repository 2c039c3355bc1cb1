// An agent's SDK on stdin and stdout, which must like every message that comes.
//
// What it thinks of each goes to a file, a line each: `[method, what is wrong or null]`.

import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { Judge, schemas, tap } from "./judging.mjs";

/** Serve `app`. `protocol` is a version of the SDK, `acp`, and what a judge of it has to know. */
export function serve(app, protocol, verdicts) {
  const write = (method, wrong) =>
    appendFileSync(verdicts, `${JSON.stringify([method ?? null, wrong ?? null])}\n`);
  console.error = (...words) => write(null, words.map((it) => JSON.stringify(it)).join(" "));

  const judge = new Judge(protocol);
  const { stdin, stdout } = process;
  const wire = protocol.acp.ndJsonStream(Writable.toWeb(stdout), Readable.toWeb(stdin));
  const sent = tap((message) => judge.note(message));
  sent.readable.pipeTo(wire.writable);
  const readable = wire.readable.pipeThrough(
    tap(async (message) => {
      const { method, wrong } = (await judgeOf(message, judge, protocol)).judge(message);
      write(method, wrong && `${wrong} in ${JSON.stringify(message)}`);
    }),
  );
  app.connect({ writable: sent.writable, readable });
}

/** Return who may judge a message. A greeting is in the version that it asks for. */
async function judgeOf({ method, params }, judge, protocol) {
  const version = params?.protocolVersion;
  if (method !== "initialize" || version === protocol.acp.PROTOCOL_VERSION) return judge;
  return new Judge({ ...protocol, zod: await schemas(`v${version}`) });
}
