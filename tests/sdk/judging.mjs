// The official SDK as a judge: what comes is held to its own schemas.
//
// The SDK checks what it hands on, and mends or drops much without a word. So all that comes
// is held to its schemas before: nothing may be wrong, mended or unknown.

export class Judge {
  /** `zod` are the schemas; `requests`, `notifications` and `results` their names by method. */
  constructor({ zod, requests, notifications, results }) {
    this.zod = zod;
    this.requests = requests;
    this.notifications = notifications;
    this.results = results;
    this.asked = new Map();
  }

  /** Take note of what is sent, to know what is answered. */
  note(message) {
    if (message.method && "id" in message) this.asked.set(message.id, message.method);
  }

  /** Return which method a message that came is about, and what is wrong with it, if anything. */
  judge(message) {
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

/** Return a stream that looks at what it passes on. */
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
