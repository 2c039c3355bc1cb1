"""A version 1 agent that calls a model over HTTP: a stand-in for the agents of `make interop`.

`python model_agent.py URL FOLDER TRAIT…` keeps its sessions in the folder. A trait is a method that
it offers (`list`, `load`, `resume`, `fork`, `close`, `delete`), or one of these:
- `forgets`: the model does not receive the history of a session that was loaded or resumed.
- `late`: it saves its sessions only when its input ends.
- `dies`: it exits at the first request.
"""

import json
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

URL, FOLDER, TRAITS = urlsplit(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:])
READ = {
    "type": "function",
    "function": {
        "name": "read",
        "parameters": {"properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
sessions: dict[str, list[Json]] = {}


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_update(session_id: str, kind: str, **more: object) -> None:
    update = {"sessionUpdate": kind, **more}
    send(method="session/update", params={"sessionId": session_id, "update": update})


def send_chunk(session_id: str, role: str, words: str) -> None:
    kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
    send_update(session_id, kind, content={"type": "text", "text": words})


def complete(session_id: str) -> str:
    """Return the text of the model, and send each piece to the client as it arrives."""
    connection = HTTPConnection(URL.hostname or "", URL.port or 0)
    body = {"messages": sessions[session_id], "tools": [READ], "stream": True, "model": "fake"}
    connection.request("POST", f"{URL.path}/chat/completions", json.dumps(body))
    words, called = "", ""
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        delta = json.loads(line[6:])["choices"][0]["delta"]
        for call in delta.get("tool_calls") or ():
            called += call["function"].get("arguments") or ""
        if delta.get("content"):
            words += delta["content"]
            send_chunk(session_id, "assistant", delta["content"])
    if called:
        send_update(session_id, "tool_call", toolCallId="t1", title="Read", status="completed")
        brought = Path(json.loads(called)["path"]).read_text(encoding="utf-8")
        sessions[session_id].append({"role": "tool", "tool_call_id": "t1", "content": brought})
        return complete(session_id)
    return words


def prompt(session_id: str, blocks: list[Json]) -> Json:
    words = "\n".join(block["text"] for block in blocks)
    sessions[session_id].append({"role": "user", "content": words})
    sessions[session_id].append({"role": "assistant", "content": complete(session_id)})
    if "late" not in TRAITS:
        save(session_id)
    return {"stopReason": "end_turn"}


def save(session_id: str) -> None:
    # A kill can come at any time: a half-written file would lose the session.
    partial = FOLDER / f"{session_id}.partial"
    partial.write_text(json.dumps(sessions[session_id]), encoding="utf-8")
    partial.replace(FOLDER / session_id)


def restore(session_id: str) -> list[Json]:
    kept = json.loads((FOLDER / session_id).read_text(encoding="utf-8"))
    sessions[session_id] = [] if "forgets" in TRAITS else list(kept)
    return kept


def create(said: list[Json]) -> Json:
    session_id = f"s{len(list(FOLDER.iterdir())) + 1}"
    sessions[session_id] = said
    save(session_id)
    return {"sessionId": session_id}


def replay(session_id: str) -> Json:
    for it in restore(session_id):
        if it["role"] == "tool":
            send_update(session_id, "tool_call", toolCallId="t1", title="Read", status="completed")
        else:
            send_chunk(session_id, it["role"], it["content"])
    return {}


def initialize() -> Json:
    own = {name: {} for name in TRAITS - {"load", "forgets", "late", "dies"}}
    capabilities = {"loadSession": "load" in TRAITS, "sessionCapabilities": own}
    info = {"name": "thinking", "version": "1"}
    return {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info}


def listed(cwd: str) -> Json:
    return {"sessions": [{"sessionId": it.name, "cwd": cwd} for it in FOLDER.iterdir()]}


def answer(method: str, params: Json) -> Json:
    session_id = params.get("sessionId", "")
    result: Json = {}
    match method.removeprefix("session/"):
        case "initialize":
            result = initialize()
        case "new":
            result = create([])
        case "fork":
            result = create(list(restore(session_id)))
        case "prompt":
            result = prompt(session_id, params["prompt"])
        case "load":
            result = replay(session_id)
        case "resume":
            restore(session_id)
        case "list":
            result = listed(params.get("cwd", "/"))
        case "delete":
            (FOLDER / session_id).unlink(missing_ok=True)
        case _:
            pass
    return result


def main() -> None:
    for line in sys.stdin:
        if "dies" in TRAITS:
            return
        request = json.loads(line)
        if "id" in request and "method" in request:
            send(id=request["id"], result=answer(request["method"], request.get("params") or {}))
    for session_id in sessions:
        save(session_id)


main()
