"""An agent with unusual behaviour: the first word of a prompt names a function of this module.

`agent_misbehaves_on_request.py VERSION`. It is single-threaded.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

Json = dict[str, Any]

VERSION = int(sys.argv[1])
SESSION = "odd"
prompts = 0
last_id = 0
settings_received: list[Json] = []
NAME = "configId" if VERSION > 1 else "id"
CHOICES = [{"value": it, "name": it} for it in ("small", "large")]
GROUP = {"groupId" if VERSION > 1 else "group": "g", "name": "Sizes", "options": CHOICES}
OPTIONS: list[Json] = [
    {NAME: "flag", "name": "Flag", "type": "boolean", "currentValue": False},
    {NAME: "model", "name": "Model", "type": "select", "currentValue": "small", "options": [GROUP]},
]
lines = iter(sys.stdin.readline, "")


def send(**message: object) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def as_update(update: Json) -> Json:
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def send_update(kind: str, **fields: object) -> None:
    message = as_update({"sessionUpdate": kind, **fields})
    send(method=message["method"], params=message["params"])


def send_message(text: str) -> None:
    send_update(
        "agent_message_chunk", messageId=message_id(), content={"type": "text", "text": text}
    )


def message_id() -> str:
    return f"m{prompts}"


def ask(method: str, **params: object) -> Json:
    """Send a request, and return the client's response."""
    send(id="asked", method=method, params={"sessionId": SESSION, **params})
    return json.loads(next(lines))


def permission(kinds: list[str]) -> Json:
    options = [{"optionId": f"the-{kind}", "name": kind, "kind": kind} for kind in kinds]
    return ask("session/request_permission", toolCall={"toolCallId": "t"}, options=options)


# -- functions for prompts --------------------------------------------------------------


def made_up(_: str) -> None:
    send_update("_made_up", anything=[1, 2])
    send(method="_made/up", params={})


def files(_: str) -> None:
    send_message(str(ask("fs/read_text_file", path="/etc/passwd")["error"]["code"]))


def batch(_: str) -> None:
    text = [{"type": "text", "text": it} for it in ("one ", "two")]
    updates = [{"sessionUpdate": "agent_message_chunk", "content": it} for it in text]
    os.write(1, json.dumps([as_update(it) for it in updates]).encode() + b"\n")


def junk(_: str) -> None:
    os.write(1, b'Hello, user!\n\n{"cut": \n[]\n"text"\n\xff\xfe\n')
    send_message("done")


def big(size: str) -> None:
    send_message("x" * int(size))


def emoji(_: str) -> None:
    for text in ("a\ud83d", "\ude00b", "\ud83d", "\ude00"):
        send_message(text)


def rewrite(_: str) -> None:
    send_message("Hello wor")
    for text in ("Hello world", "Good morning"):
        content = [{"type": "text", "text": text}]
        send_update("agent_message", messageId=message_id(), content=content)


def crossing(_: str) -> None:
    """Send the end of earlier work after the prompt."""
    send_update("state_update", state="idle")
    send_update("state_update", state="running")
    send_message("on time")


def already_at_work(_: str) -> None:
    """Keep working, so that the next prompt is handled within this work."""
    send_update("state_update", state="idle", stopReason="end_turn")
    send_update("state_update", state="running")


def taken_in(_: str) -> None:
    send_message("taken in")


def withdrawn(_: str) -> None:
    """Withdraw a permission request, and send the client's response as a message."""
    options = [{"optionId": "o", "name": "o", "kind": "allow_once"}]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": options}
    send(id="asked", method="session/request_permission", params=params)
    send(method="$/cancel_request", params={"requestId": "asked"})
    send_message(
        json.dumps({k: v for k, v in json.loads(next(lines)).items() if k in {"result", "error"}})
    )


def hang_up(_: str) -> None:
    os.close(1)
    time.sleep(60)


def stop_reading(_: str) -> None:
    os.close(0)
    time.sleep(60)


def orphan(_: str) -> None:
    """Exit, and leave a child that keeps all streams open."""
    child = subprocess.Popen(["/bin/sleep", "60"])
    sys.stderr.write(f"my child is {child.pid}\n")
    sys.stderr.flush()
    os._exit(7)


def withdraw(_: str) -> None:
    """Withdraw a permission request, and send the error code as a message."""
    options = [{"optionId": "a", "name": "a", "kind": "allow_once"}]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": options}
    send(id="asked", method="session/request_permission", params=params)
    send(method="$/cancel_request", params={"requestId": "asked"})
    send_message(str(json.loads(next(lines))["error"]["code"]))


def stranger(_: str) -> None:
    """Send an update, a permission request and a response that belong to no session or request."""
    params = {"sessionId": "stranger", "toolCall": {"toolCallId": "t"}, "options": []}
    send(method="session/update", params={"sessionId": "stranger", "update": {}})
    send(id=99, result={})
    send(id="asked", method="session/request_permission", params=params)
    send_message(json.loads(next(lines))["result"]["outcome"]["outcome"])


def settings(_: str) -> None:
    """Send the parameters of the last option that was set."""
    send_message(json.dumps(settings_received[-1]))


def give_up(_: str) -> None:
    """Refuse the prompt with "request cancelled" after a cancel."""
    send_message("waiting")
    assert "session/cancel" in next(lines)
    send(id=last_id, error={"code": -32800, "message": "cancelled"})


def only_always(_: str) -> None:
    send_message(json.dumps(permission(["allow_always", "reject_always"])["result"]["outcome"]))


def no_allow(_: str) -> None:
    send_message(json.dumps(permission(["reject_once"])["result"]["outcome"]))


def odd_choices(_: str) -> None:
    options = [{"optionId": it, "name": "Odd", "kind": "odd"} for it in (5, None, "fit")]
    subject: Json = {"toolCall": {"toolCallId": "t"}}
    answer = ask("session/request_permission", **subject, options=options)
    send_message(json.dumps(answer["result"]["outcome"]))


def ask_when_cancelled(_: str) -> None:
    send_message("working")
    assert json.loads(next(lines))["method"] == "session/cancel"
    send_message(json.dumps(permission(["allow_once"])["result"]["outcome"]))


def both_names(_: str) -> None:
    """Send a response with both `result` and a null `error`."""
    send(id=last_id, error=None, result={"stopReason": "end_turn"})
    sys.exit()


def no_reject(_: str) -> None:
    send_message(json.dumps(permission(["allow_once"])["result"]["outcome"]))


# -- required methods -------------------------------------------------------------------


def handle_prompt(request: Json) -> None:
    global prompts, last_id
    prompts, last_id = prompts + 1, request["id"]
    text = request["params"]["prompt"][0]["text"]
    name, _, rest = text.partition(" ")
    if VERSION > 1:
        send(id=request["id"], result={"messageId": "u"})
        if name not in {"crossing", "taken_in"}:
            send_update("state_update", state="running")
    globals()[name](rest)
    if name == "taken_in":
        send_update("state_update", state="idle")
    elif name == "already_at_work":
        return
    elif VERSION > 1:
        send_update("state_update", state="idle", stopReason="end_turn")
    else:
        send(id=request["id"], result={"stopReason": "end_turn"})


def set_option(params: Json) -> Json:
    settings_received.append(params)
    for option in OPTIONS:
        if option[NAME] == params["configId"]:
            option["currentValue"] = params["value"]
    return {"configOptions": OPTIONS}


def main() -> None:
    session = {"prompt": {}} if VERSION > 1 else None
    greeting = {"protocolVersion": VERSION}
    if session is not None:
        greeting |= {"capabilities": {"session": session}, "info": {"name": "odd", "version": "0"}}
    endless = {"sessions": [{"sessionId": SESSION, "cwd": "/"}, {}], "nextCursor": "again"}
    new = {"sessionId": SESSION, "configOptions": OPTIONS}
    results: Json = {"initialize": greeting, "session/new": new}
    results["session/list"] = endless
    for line in lines:
        request = json.loads(line)
        if request.get("method") == "session/prompt":
            handle_prompt(request)
        elif request.get("method") == "session/set_config_option":
            send(id=request["id"], result=set_option(request["params"]))
        elif request.get("method") == "session/close":
            send(id=request["id"], error={"code": -32002, "message": "unknown"})
        elif "id" in request:
            send(id=request["id"], result=results.get(request["method"]))


main()
