"""An agent that does odd things when it is asked to: the first word of a prompt is a function here.

`agent_misbehaves_on_request.py VERSION`. It does one thing at a time, in one thread.
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
heard: list[Json] = []
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


def tell(kind: str, **fields: object) -> None:
    message = as_update({"sessionUpdate": kind, **fields})
    send(method=message["method"], params=message["params"])


def say(words: str) -> None:
    tell("agent_message_chunk", messageId=message_id(), content={"type": "text", "text": words})


def message_id() -> str:
    return f"m{prompts}"


def ask(method: str, **params: object) -> Json:
    """Return the client's answer."""
    send(id="asked", method=method, params={"sessionId": SESSION, **params})
    return json.loads(next(lines))


def permission(kinds: list[str]) -> Json:
    options = [{"optionId": f"the-{kind}", "name": kind, "kind": kind} for kind in kinds]
    return ask("session/request_permission", toolCall={"toolCallId": "t"}, options=options)


# -- what a prompt may ask for ----------------------------------------------------------


def made_up(_: str) -> None:
    tell("_made_up", anything=[1, 2])
    send(method="_made/up", params={})


def files(_: str) -> None:
    say(str(ask("fs/read_text_file", path="/etc/passwd")["error"]["code"]))


def batch(_: str) -> None:
    words = [{"type": "text", "text": it} for it in ("one ", "two")]
    updates = [{"sessionUpdate": "agent_message_chunk", "content": it} for it in words]
    os.write(1, json.dumps([as_update(it) for it in updates]).encode() + b"\n")


def junk(_: str) -> None:
    os.write(1, b'Hello, user!\n\n{"cut": \n[]\n"text"\n\xff\xfe\n')
    say("done")


def big(size: str) -> None:
    say("x" * int(size))


def emoji(_: str) -> None:
    for words in ("a\ud83d", "\ude00b", "\ud83d", "\ude00"):
        say(words)


def rewrite(_: str) -> None:
    say("Hello wor")
    for words in ("Hello world", "Good morning"):
        content = [{"type": "text", "text": words}]
        tell("agent_message", messageId=message_id(), content=content)


def crossing(_: str) -> None:
    """Tell the end of something before this prompt."""
    tell("state_update", state="idle")
    tell("state_update", state="running")
    say("on time")


def already_at_work(_: str) -> None:
    """Take the next prompt into what is done already, and say no more than that it is done."""
    tell("state_update", state="idle", stopReason="end_turn")
    tell("state_update", state="running")


def taken_in(_: str) -> None:
    say("taken in")


def withdrawn(_: str) -> None:
    """Take a question back, and say what the client makes of it."""
    options = [{"optionId": "o", "name": "o", "kind": "allow_once"}]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": options}
    send(id="asked", method="session/request_permission", params=params)
    send(method="$/cancel_request", params={"requestId": "asked"})
    say(json.dumps({k: v for k, v in json.loads(next(lines)).items() if k in {"result", "error"}}))


def hang_up(_: str) -> None:
    os.close(1)
    time.sleep(60)


def stop_reading(_: str) -> None:
    os.close(0)
    time.sleep(60)


def orphan(_: str) -> None:
    """End, and leave a child that holds all streams open."""
    child = subprocess.Popen(["/bin/sleep", "60"])
    sys.stderr.write(f"my child is {child.pid}\n")
    sys.stderr.flush()
    os._exit(7)


def withdraw(_: str) -> None:
    """Ask, and want no answer any more."""
    options = [{"optionId": "a", "name": "a", "kind": "allow_once"}]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": options}
    send(id="asked", method="session/request_permission", params=params)
    send(method="$/cancel_request", params={"requestId": "asked"})
    say(str(json.loads(next(lines))["error"]["code"]))


def stranger(_: str) -> None:
    """Tell of a session that nobody has opened, ask in it, and answer what nobody has asked."""
    params = {"sessionId": "stranger", "toolCall": {"toolCallId": "t"}, "options": []}
    send(method="session/update", params={"sessionId": "stranger", "update": {}})
    send(id=99, result={})
    send(id="asked", method="session/request_permission", params=params)
    say(json.loads(next(lines))["result"]["outcome"]["outcome"])


def settings(_: str) -> None:
    """Say how the last option was set."""
    say(json.dumps(heard[-1]))


def give_up(_: str) -> None:
    """Refuse the prompt as cancelled, when it is cancelled."""
    say("waiting")
    assert "session/cancel" in next(lines)
    send(id=last_id, error={"code": -32800, "message": "cancelled"})


def only_always(_: str) -> None:
    say(json.dumps(permission(["allow_always", "reject_always"])["result"]["outcome"]))


def no_allow(_: str) -> None:
    say(json.dumps(permission(["reject_once"])["result"]["outcome"]))


def odd_choices(_: str) -> None:
    options = [{"optionId": it, "name": "Odd", "kind": "odd"} for it in (5, None, "fit")]
    subject: Json = {"toolCall": {"toolCallId": "t"}}
    answer = ask("session/request_permission", **subject, options=options)
    say(json.dumps(answer["result"]["outcome"]))


def ask_when_cancelled(_: str) -> None:
    say("working")
    assert json.loads(next(lines))["method"] == "session/cancel"
    say(json.dumps(permission(["allow_once"])["result"]["outcome"]))


def both_names(_: str) -> None:
    """Answer as libraries do that leave no name out."""
    send(id=last_id, error=None, result={"stopReason": "end_turn"})
    sys.exit()


def no_reject(_: str) -> None:
    say(json.dumps(permission(["allow_once"])["result"]["outcome"]))


# -- what every agent does --------------------------------------------------------------


def begin(request: Json) -> None:
    global prompts, last_id
    prompts, last_id = prompts + 1, request["id"]
    words = request["params"]["prompt"][0]["text"]
    name, _, rest = words.partition(" ")
    if VERSION > 1:
        send(id=request["id"], result={"messageId": "u"})
        if name not in {"crossing", "taken_in"}:
            tell("state_update", state="running")
    globals()[name](rest)
    if name == "taken_in":
        tell("state_update", state="idle")
    elif name == "already_at_work":
        return
    elif VERSION > 1:
        tell("state_update", state="idle", stopReason="end_turn")
    else:
        send(id=request["id"], result={"stopReason": "end_turn"})


def set_option(params: Json) -> Json:
    heard.append(params)
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
            begin(request)
        elif request.get("method") == "session/set_config_option":
            send(id=request["id"], result=set_option(request["params"]))
        elif request.get("method") == "session/close":
            send(id=request["id"], error={"code": -32002, "message": "unknown"})
        elif "id" in request:
            send(id=request["id"], result=results.get(request["method"]))


main()
