"""Faults of an agent in the newer methods, and in the rules of batches and logins.

`FAULTS` has them by requirement, each with the version to try if not all of the requirement's.
"""

from collections.abc import Callable, Iterator
from typing import Any

from agent_faults import (
    Change,
    Fault,
    FaultyPeer,
    allow,
    answer,
    before,
    counter,
    drop,
    empty,
    has_asked,
    kind_of,
    leave_out,
    listed,
    put,
    refuse,
    refused_if,
    result,
    told,
    update,
    words,
)
from conformance_runs import EVERYTHING
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import as_array, as_object

Json = dict[str, Any]

NEW, LOAD, RESUME, PROMPT = "session/new", "session/load", "session/resume", "session/prompt"
LIST, STATUS, SET_TITLE = "session/list", "session/status", "session/set_title"
ARCHIVE, UNARCHIVE = "session/archive", "session/unarchive"
REWIND = "session/rewind"
UNKNOWN = "_rekindle/check"
LOGIN: Json = {"id": "key", "methodId": "key", "name": "Key", "type": "agent"}
TERMINAL: Json = LOGIN | {"type": "terminal"}
MODES: Json = {"currentModeId": "none", "availableModes": [{"id": "ask", "name": "Ask"}]}
CHOICES = [{"value": "a", "name": "A"}]
OPTION: Json = {
    "id": "o",
    "configId": "o",
    "name": "O",
    "type": "select",
    "currentValue": "b",
    "options": CHOICES,
}
CHILD = "child"
FILTERS = (None, "exclude", "include", "only")


def is_unknown(params: Json) -> bool:
    return any(str(params.get(name, "")).startswith("00000000-") for name in ("sessionId",))


def has(name: str) -> Callable[[Json], bool]:
    """Return a predicate for parameters with a field."""
    return lambda it: name in it


def is_repeated(method: str) -> Callable[[Json, TraceLine | None, FaultyPeer], bool]:
    """Return a predicate for the answers to requests that were sent before."""

    def is_it(_: Json, asked: TraceLine | None, peer: FaultyPeer) -> bool:
        if asked is None or asked.method != method:
            return False
        same = [it for it in peer.lines if it.method == method and it.params == asked.params]
        return asked is not same[0]

    return is_it


# -- initialize -------------------------------------------------------------------------


def refuses_version_1(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Iterator[object]:
    if asked is not None and asked.params.get("protocolVersion") == 1:
        refuse(message)
    yield message


def changes_text_ids(message: Json, *_: object) -> Iterator[object]:
    if message.get("id") == "rekindle-check":
        message["id"] = "another"
    yield message


def offers_logout(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Iterator[object]:
    """Announce a logout, which does not work."""
    if asked is not None and asked.method == "initialize" and "result" in message:
        message["result"]["authMethods"] = [LOGIN]
        as_object(message["result"].get("agentCapabilities"))["auth"] = {"logout": {}}
    yield message


def logins(*methods: Json) -> Fault:
    return answer("initialize", result(authMethods=list(methods)))


# -- prompts ----------------------------------------------------------------------------


def refuses_content(name: str, kind: str) -> Fault:
    """Announce a kind of content, and refuse it."""

    def fault(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Iterator[object]:
        if asked is not None and asked.method == "initialize" and "result" in message:
            v1 = as_object(message["result"].get("agentCapabilities"))
            as_object(v1.get("promptCapabilities"))[name] = True
            v2 = as_object(as_object(message["result"].get("capabilities")).get("session"))
            as_object(v2.get("prompt"))[name] = {}
        if asked is not None and asked.method == PROMPT:
            blocks = map(as_object, as_array(asked.params.get("prompt")))
            if any(it.get("type") == kind for it in blocks):
                refuse(message)
        yield message

    return fault


def fails_after_odd_outcome(message: Json, _: object, peer: FaultyPeer) -> Iterator[object]:
    if (
        peer.notes.answers_oddly
        and message.get("params", {}).get("update", {}).get("state") == "idle"
    ):
        message["params"]["update"]["stopReason"] = "error"
    yield message


def sends_title_after_cancel(
    message: Json, asked: TraceLine | None, _: FaultyPeer
) -> Iterator[object]:
    yield message
    if asked is not None and message.get("result") == {"stopReason": "cancelled"}:
        yield told("session_info_update", asked.session_id, title="Late")


def ignores_cancel_with_meta(message: Json, _: object, peer: FaultyPeer) -> Iterator[object]:
    """End turns that were cancelled with `_meta` as if they were not."""
    cancels = [it for it in peer.lines if it.method == "session/cancel"]
    if cancels and "_meta" in cancels[-1].params:
        for values in (message.get("result"), message.get("params", {}).get("update")):
            if as_object(values).get("stopReason") == "cancelled":
                as_object(values)["stopReason"] = "end_turn"
    yield message


def ends_without_cancelled(message: Json, *_: object) -> Iterator[object]:
    for values in (message.get("result"), message.get("params", {}).get("update")):
        if as_object(values).get("stopReason") == "cancelled":
            as_object(values)["stopReason"] = "end_turn"
    yield message


def replays_running_subagent(
    message: Json, asked: TraceLine | None, _: FaultyPeer
) -> Iterator[object]:
    if asked is not None and asked.method in (LOAD, RESUME) and "result" in message:
        state = {"state": "running"}
        yield told("subagent_update", asked.session_id, sessionId=CHILD, state=state)
    yield message


def announces_subagent_late(
    message: Json, asked: TraceLine | None, _: FaultyPeer
) -> Iterator[object]:
    yield message
    if asked is not None and asked.method == NEW and "result" in message:
        parent = message["result"].get("sessionId")
        chunk = words("I am a child.")
        yield {**chunk, "params": {**chunk["params"], "sessionId": CHILD}}
        yield told("subagent_update", parent, sessionId=CHILD)


# -- archive ----------------------------------------------------------------------------


def lists_archived(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Iterator[object]:
    """List archived sessions without being asked."""
    gone = [it.session_id for it in peer.lines if it.method == ARCHIVE and it.is_sent]
    if asked is not None and asked.method == LIST and "archived" not in asked.params:
        rows = [{"sessionId": it, "cwd": "/", "archived": True} for it in gone]
        message["result"]["sessions"] += rows
    yield message


def forgets_archive(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Iterator[object]:
    if asked is not None and asked.params.get("archived") == "only" and peer.was_killed:
        message["result"]["sessions"] = []
    yield message


def without_list(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Iterator[object]:
    if asked is not None and asked.method == "initialize" and "result" in message:
        capabilities = as_object(message["result"].get("agentCapabilities"))
        as_object(capabilities.get("sessionCapabilities")).pop("list", None)
    yield message


# -- rewind -----------------------------------------------------------------------------


def replays_removed_prompt(
    message: Json, asked: TraceLine | None, _: FaultyPeer
) -> Iterator[object]:
    """Replay the last prompt of the scenario, although it was removed."""
    if asked is not None and asked.method in (LOAD, RESUME):
        content = {"type": "text", "text": f"{EVERYTHING} (2)"}
        yield told("user_message_chunk", asked.session_id, messageId="old", content=content)
    yield message


def announces_edit(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Iterator[object]:
    """Announce `session/edit_prompt`, which the example agent does not have."""
    if asked is not None and asked.method == "initialize" and "result" in message:
        for name in ("agentCapabilities", "capabilities"):
            as_object(message["result"].get(name))["_meta"] = {"edit_prompt": True}
    yield message


# -- batches, lines and options ---------------------------------------------------------


def on_batch(change: Callable[[list[Json]], list[object]]) -> Fault:
    """Change the arrays that the agent sends."""

    def fault(message: Json, *_: object) -> Iterator[object]:
        yield message

    fault.on_batch = change  # type: ignore[attr-defined]
    return fault


def never_exits(message: Json, *_: object) -> Iterator[object]:
    yield message


never_exits.stays = True  # type: ignore[attr-defined]


def errors_of_two_lines(message: Json, *_: object) -> Iterator[object]:
    if "error" in message:
        message["error"]["message"] = "two\nlines"
    yield message


def renames_calls(update_: Json) -> None:
    update_["name"] = str(next(counter))


def one_of(*values: object, field: str = "archived") -> Callable[[Json], bool]:
    return lambda it: it.get(field) in values


def is_refusal(message: Json, *_: object) -> bool:
    return "error" in message and message.get("id", 0) is None


NO_SESSIONS: Change = result(sessions=[])
REFUSAL: Json = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}

FAULTS: dict[str, Fault | tuple[Fault, int]] = {
    "greeting.lower": refuses_version_1,
    "greeting.info": answer("initialize", result(agentInfo={"name": "x"})),
    "greeting.auth-ids": logins(LOGIN, LOGIN),
    "greeting.auth-types": logins(LOGIN | {"type": "odd"}),
    "greeting.terminal-login": logins(TERMINAL),
    "greeting.terminal-fields": logins(TERMINAL | {"env": [{"name": "A"}]}),
    "greeting.logout": offers_logout,
    "greeting.text-id": changes_text_ids,
    "session.modes": answer(NEW, result(modes=MODES)),
    "session.set-mode": answer("session/set_mode", refuse),
    "turn.image": refuses_content("image", "image"),
    "turn.audio": refuses_content("audio", "audio"),
    "turn.embedded": refuses_content("embeddedContext", "resource"),
    "turn.meta": answer(PROMPT, refuse, if_=has("_meta")),
    "turn.outcome": fails_after_odd_outcome,
    "cancel.silent": sends_title_after_cancel,
    "cancel.meta": ignores_cancel_with_meta,
    "replay.prompt-ids": update("user_message", put(messageId="other"), replayed=True),
    "replay.subagents": replays_running_subagent,
    "archive.works": answer(ARCHIVE, empty),
    "archive.again": refused_if(is_repeated(ARCHIVE)),
    "archive.unknown": answer(ARCHIVE, allow, if_=is_unknown),
    "archive.cancels": ends_without_cancelled,
    "archive.frees": (answer(PROMPT, allow), 1),
    "archive.keeps": forgets_archive,
    "archive.undone": answer(UNARCHIVE, refuse),
    "archive.unopened": answer(STATUS, result(status="open")),
    "archive.undone-again": refused_if(is_repeated(UNARCHIVE)),
    "archive.list": without_list,
    "archive.hidden": lists_archived,
    "archive.filter": answer(LIST, NO_SESSIONS, if_=one_of("include")),
    "archive.folder": answer(LIST, NO_SESSIONS, if_=lambda it: {"cwd", "archived"} <= it.keys()),
    "archive.field": answer(LIST, listed(leave_out("archived"))),
    "archive.value": answer(LIST, allow, if_=lambda it: it.get("archived") not in FILTERS),
    "title.works": answer(SET_TITLE, result(title="")),
    "title.listed": answer(LIST, listed(put(title="Other"))),
    "title.stored": answer(LIST, listed(put(title="Other"))),
    "title.saved": answer(SET_TITLE, refuse, if_=one_of("A third title", field="title")),
    "title.empty": answer(SET_TITLE, allow, if_=one_of("", " \t ", field="title")),
    "title.missing": answer(SET_TITLE, allow, if_=one_of(None, field="title")),
    "title.unknown": answer(SET_TITLE, allow, if_=is_unknown),
    "title.stays": answer(LIST, listed(put(title="Other"))),
    "status.works": answer(STATUS, result(status="odd")),
    "status.open": answer(STATUS, result(status="saved")),
    "status.saved": answer(STATUS, result(status="open")),
    "status.state": answer(STATUS, result(state=None)),
    "status.unchanged": answer(LIST, listed(lambda it: it.update(title=str(next(counter))))),
    "status.unknown": answer(STATUS, lambda it: as_object(it.get("error")).pop("data", None)),
    "system.works": answer(NEW, refuse, if_=has("systemPrompt")),
    "system.override": answer(
        NEW, refuse, if_=lambda it: it.get("systemPrompt", {}).get("mode") == "override"
    ),
    "system.mode": answer(NEW, allow, if_=has("systemPrompt")),
    "system.content": answer(NEW, allow, if_=has("systemPrompt")),
    "system.reopened": refused_if(
        lambda _, asked, __: (
            asked is not None and asked.method in (LOAD, RESUME) and "systemPrompt" in asked.params
        )
    ),
    "rewind.works": answer(REWIND, refuse),
    "rewind.notified": drop(lambda it, *_: kind_of(it) == "history_truncated"),
    "rewind.history": replays_removed_prompt,
    "rewind.goes-on": refused_if(has_asked(REWIND)),
    "rewind.edit": announces_edit,
    "rewind.unknown": answer(REWIND, allow, if_=is_unknown),
    "rewind.message": answer(REWIND, allow),
    "batch.empty": drop(is_refusal),
    "batch.silent": before(UNKNOWN, REFUSAL),
    "batch.members": on_batch(lambda it: [[one for one in it if not is_refusal(one)]]),
    "batch.array": on_batch(lambda it: [*it]),
    "batch.cancel": ends_without_cancelled,
    "wire.errors": errors_of_two_lines,
    "wire.meta": answer(NEW, result(_meta="x")),
    "wire.exits": never_exits,
    "wire.tool-names": update("tool_call_update", renames_calls),
    "wire.terminal-folders": update("terminal_update", put(cwd="relative")),
    "wire.choices": answer(NEW, result(configOptions=[OPTION])),
    "wire.option-updates": (update("config_option_update", put(configOptions=[])), 2),
    "wire.subagents": announces_subagent_late,
}
