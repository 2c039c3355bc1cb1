"""An agent that ends a turn with the stop reason in the prompt, and sends escape sequences.

It accepts every session id, and sends the same text each time. The prompt `ignore` never ends. The
prompt `fail` ends with an error.
"""

import json
import sys
import time
from typing import Any

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J"
OPTIONS = [
    {"optionId": "yes", "name": f"Sure{HOSTILE}", "kind": "allow_once"},
    {"optionId": "no", "name": "Never", "kind": "reject_once"},
]
CAPABILITIES = {"sessionCapabilities": {"resume": {}}}
RESULTS: dict[str, Any] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": CAPABILITIES},
    "session/new": {"sessionId": "stopping"},
    "session/resume": {},
}
lines = iter(sys.stdin.readline, "")


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(session_id: str, kind: str, /, **fields: object) -> None:
    update = {"sessionUpdate": kind, **fields}
    send(method="session/update", params={"sessionId": session_id, "update": update})


def answer(request: dict[str, Any]) -> None:
    params = request["params"]
    session_id, reason = params["sessionId"], params["prompt"][-1]["text"]
    said = {"type": "text", "text": f"I said{HOSTILE} it."}
    call = {"toolCallId": "t", "title": f"Do{HOSTILE} it", "kind": "execute"}
    tell(session_id, "agent_message_chunk", content=said)
    tell(session_id, "tool_call", **call)
    asked = {"sessionId": session_id, "toolCall": call, "options": OPTIONS}
    send(id="q", method="session/request_permission", params=asked)
    chosen = json.loads(next(lines)).get("result", {}).get("outcome", {}).get("optionId")
    done = {"type": "text", "text": f"{chosen}!"}
    tell(session_id, "agent_message_chunk", content=done)
    while reason == "ignore":
        time.sleep(60)
    if reason == "fail":
        send(id=request["id"], error={"code": -32603, "message": f"broken{HOSTILE}"})
    else:
        send(id=request["id"], result={"stopReason": reason})


for line in lines:
    heard = json.loads(line)
    if heard.get("method") == "session/prompt":
        answer(heard)
    elif "id" in heard:
        send(id=heard["id"], result=RESULTS.get(heard["method"], {}))
