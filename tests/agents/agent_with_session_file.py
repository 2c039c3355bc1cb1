"""An agent with the name of a real tool, whose session exists as long as a file does.

usage: agent_with_session_file.py NAME OFFERS FILE HEARD

OFFERS are methods, separated by commas; with "late", the replay of a load follows the response. The
agent appends its input to HEARD.
"""

import json
import sys
from pathlib import Path
from typing import Any

NAME, OFFERS, FILE, HEARD = sys.argv[1:]
OFFERED = set(OFFERS.split(","))
MEMORY = (("user_message_chunk", "My name is Ada."), ("agent_message_chunk", "Hello, Ada."))
LOST = {"error": {"code": -32002, "message": "Resource not found"}}


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(session_id: str, kind: str, words: str) -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
    say(method="session/update", params={"sessionId": session_id, "update": update})


def initialize() -> dict[str, Any]:
    means = {name: {} for name in ("resume", "fork", "close", "delete", "list")}
    capabilities = {
        "loadSession": "load" in OFFERED,
        "sessionCapabilities": {it: means[it] for it in means if it in OFFERED},
    }
    info = {"name": NAME, "version": "1"}
    return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    session_id = params.get("sessionId", "")
    match method.removeprefix("session/"):
        case "initialize":
            return {"result": initialize()}
        case "new" | "fork":
            return {"result": {"sessionId": f"of-{NAME}"}}
        case "resume" | "load" if not Path(FILE).exists():
            return LOST
        case "load" if "late" not in OFFERED:
            for kind, words in MEMORY:
                tell(session_id, kind, words)
        case "list":
            listed = [{"sessionId": "only-there", "cwd": "/home/user/project"}]
            return {"result": {"sessions": listed}}
        case "prompt":
            tell(session_id, "agent_message_chunk", "Live.")
            return {"result": {"stopReason": "end_turn"}}
    return {"result": {}}


with Path(HEARD).open("a", encoding="utf-8") as heard:
    for line in sys.stdin:
        heard.write(line)
        heard.flush()
        message = json.loads(line)
        if "id" in message:
            params = message.get("params", {})
            say(id=message["id"], **answer(message["method"], params))
            if message["method"] == "session/load" and "late" in OFFERED and Path(FILE).exists():
                for kind, words in MEMORY:
                    tell(params["sessionId"], kind, words)
