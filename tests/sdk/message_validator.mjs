// Validate received messages with the schemas of the official SDK.
//
// The SDK itself repairs some fields, and drops others silently. So each message is validated
// before it: no field may be wrong, repaired or unknown.

export class Validator {
  /** `zod` are the schemas; `requests`, `notifications` and `results` their names by method. */
  constructor({ zod, requests, notifications, results }) {
    this.zod = zod;
    this.requests = requests;
    this.notifications = notifications;
    this.results = results;
    this.asked = new Map();
  }

  /** Note a sent request, to know the method of its response. */
  note(message) {
    if (message.method && "id" in message) this.asked.set(message.id, message.method);
  }

  /** Return the method of a received message, and its fault if any. */
  validate(message) {
    if (message.method) {
      const names = "id" in message ? this.requests : this.notifications;
      return this.#verdict(message.method, names[message.method], message.params);
    }
    const method = this.asked.get(message.id);
    this.asked.delete(message.id);
    return "result" in message
      ? this.#verdict(method, this.results[method], message.result)
      : this.#verdict(method, "zError", message.error);
  }

  #verdict(method, name, value) {
    const parsed = this.zod[name]?.safeParse(value);
    const wrong = parsed?.success
      ? lost(value, parsed.data)
      : (parsed?.error.message ?? "nothing that is known");
    return { method, wrong };
  }
}

/** Return a stream that passes each message to a function, and on. */
export function tap(look) {
  return new TransformStream({
    async transform(message, controller) {
      await look(message);
      controller.enqueue(message);
    },
  });
}

/** Return the schemas of the SDK, which it does not export. */
export function schemas(version) {
  const folder = "./node_modules/@agentclientprotocol/sdk/dist";
  return import(`${folder}/${version}/unstable/schema/zod.gen.js`);
}

/** Return a field that a schema has dropped or repaired, if any. Added defaults are allowed. */
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
