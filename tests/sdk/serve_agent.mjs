// Serve an agent of the official SDK on stdin and stdout, and validate every message that comes.
//
// The result for each message goes to a file, one line each: `[method, fault or null]`.

import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { Validator, schemas, tap } from "./message_validator.mjs";

/** Serve `app`. `protocol` is a version of the SDK, `acp`, and the tables of its validator. */
export function serve(app, protocol, verdicts) {
  const write = (method, wrong) =>
    appendFileSync(verdicts, `${JSON.stringify([method ?? null, wrong ?? null])}\n`);
  console.error = (...words) => write(null, words.map((it) => JSON.stringify(it)).join(" "));

  const validator = new Validator(protocol);
  const { stdin, stdout } = process;
  const wire = protocol.acp.ndJsonStream(Writable.toWeb(stdout), Readable.toWeb(stdin));
  const sent = tap((message) => validator.note(message));
  sent.readable.pipeTo(wire.writable);
  const readable = wire.readable.pipeThrough(
    tap(async (message) => {
      const { method, wrong } = (await validatorOf(message, validator, protocol)).validate(message);
      write(method, wrong && `${wrong} in ${JSON.stringify(message)}`);
    }),
  );
  app.connect({ writable: sent.writable, readable });
}

/** Return the validator of a message. An `initialize` is in the version that it asks for. */
async function validatorOf({ method, params }, validator, protocol) {
  const version = params?.protocolVersion;
  if (method !== "initialize" || version === protocol.acp.PROTOCOL_VERSION) return validator;
  return new Validator({ ...protocol, zod: await schemas(`v${version}`) });
}
