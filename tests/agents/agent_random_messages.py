"""An agent that sends random messages from a seed, built by the grammar of `tests/fuzz`."""

import random
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from fuzz.grammar import MessageGenerator  # noqa: E402 - needs sys.path
from rekindle.acp.jsonrpc import UNSET, read_envelope  # noqa: E402
from rekindle.jsonvalue import encode  # noqa: E402
from rekindle.model import Side  # noqa: E402


def main(seed: int, protocol: int) -> None:
    """Send random messages, and mostly a valid response to each request."""
    generator = MessageGenerator(random.Random(seed), 0.2)  # noqa: S311 - not for security
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = read_envelope(line)
        if message is None or message.method is UNSET or message.id is UNSET:
            continue
        said = [generator.transcript_line(Side.AGENT) for _ in range(3)]
        said.append(generator.encode({"method": "session/update", "params": {
            "sessionId": "s1", "update": generator.update()}}))  # fmt: skip
        if message.method == "initialize":
            said.append(encode({"id": message.id, "result": {"protocolVersion": protocol}}))
        elif message.method == "session/new":
            said.append(encode({"id": message.id, "result": {"sessionId": "s1"}}))
        else:
            said.append(generator.encode(generator.response(message.id)))
        out.write(b"\n".join(said) + b"\n")
        out.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
