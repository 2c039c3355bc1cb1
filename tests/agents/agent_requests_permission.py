"""An agent that requests permission for the tool call that is the JSON of the prompt."""

import json
import sys
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Sure", "kind": "allow_once"},
    {"optionId": "no", "name": "Never", "kind": "reject_once"},
]
CAPABILITIES = {"sessionCapabilities": {"resume": {}}}
RESULTS: dict[str, Any] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": CAPABILITIES},
    "session/new": {"sessionId": "asking"},
}
lines = iter(sys.stdin.readline, "")


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in lines:
    heard = json.loads(line)
    if heard.get("method") == "session/prompt":
        call = json.loads(heard["params"]["prompt"][-1]["text"])
        params = {"sessionId": "asking", "options": OPTIONS, "toolCall": call}
        send(id="q", method="session/request_permission", params=params)
        next(lines)
        send(id=heard["id"], result={"stopReason": "end_turn"})
    elif "id" in heard:
        send(id=heard["id"], result=RESULTS.get(heard["method"], {}))
