"""Every requirement can fail: for each there is an agent with a fault that the check finds."""

import json
from pathlib import Path
from typing import Any

import newer_faults
import pytest

from agent_faults import (
    Fault,
    FaultyPeer,
    after,
    allow,
    answer,
    as_kind,
    before,
    counter,
    drop,
    empty,
    has_asked,
    is_replaying,
    is_state,
    kind_of,
    leave_out,
    listed,
    other_words,
    put,
    refuse,
    refuse_with,
    refused_if,
    result,
    told,
    update,
    words,
)
from conformance_runs import EVERYTHING, check, describe_failures, failed
from rekindle.conformance import (
    REQUIREMENTS,
    Requirement,
    RequirementLevel,
    session_runner,
)
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import as_object

Json = dict[str, Any]

NEW, LOAD, RESUME, FORK = "session/new", "session/load", "session/resume", "session/fork"
LIST, CLOSE, DELETE, PROMPT = "session/list", "session/close", "session/delete", "session/prompt"
ROOTS = "additionalDirectories"
UNKNOWN = "_rekindle/check"
CAPABILITIES: Json = {"loadSession": True, "sessionCapabilities": {}}
FILES: Json = {"jsonrpc": "2.0", "id": "f", "method": "fs/read_text_file", "params": {}}
AUTH: Json = {"methodId": "key", "name": "Key"}


def is_unknown(params: Json) -> bool:
    return str(params.get("sessionId", "")).startswith("00000000-")


def is_relative(params: Json) -> bool:
    return params.get("cwd") == "some/folder"


def is_withdrawn(_: Json, asked: TraceLine | None, peer: FaultyPeer) -> bool:
    withdrawn = [it.params["requestId"] for it in peer.lines if it.method == "$/cancel_request"]
    return asked is not None and asked.id in withdrawn


def is_replayed_answer(message: Json, _: object, peer: FaultyPeer) -> bool:
    return "agent_message" in (kind_of(message) or "") and is_replaying(peer)


def is_open_after_kill(_: Json, asked: TraceLine | None, peer: FaultyPeer) -> bool:
    return asked is not None and asked.method in {LOAD, RESUME} and peer.was_killed


def is_response_to(method: str, number: int = 1) -> Any:  # noqa: ANN401 - a predicate
    """Return a predicate for the responses to the n-th request of a method and later ones."""

    def is_it(_: Json, asked: TraceLine | None, peer: FaultyPeer) -> bool:
        if asked is None or asked.method != method:
            return False
        return [it for it in peer.lines if it.method == method].index(asked) + 1 >= number

    return is_it


def with_directories(*faults: Fault) -> Fault:
    """Offer additional folders, with faults."""
    capabilities = {"loadSession": True, "sessionCapabilities": {ROOTS: {}, "list": {}, "fork": {}}}
    return several(answer("initialize", result(agentCapabilities=capabilities)), *faults)


def several(*faults: Fault) -> Fault:
    def fault(message: Json, asked: TraceLine | None, peer: Any) -> Any:  # noqa: ANN401 - as faults
        for one in faults:
            (message,) = one(message, asked, peer)
        yield message

    return fault


def lists_last_directories(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """List every session with the folders of the last `session/new`, also after a restart."""
    given = [it.params[ROOTS] for it in peer.lines if it.method == NEW and ROOTS in it.params]
    type(peer).roots = given[-1] if given else type(peer).roots
    if asked is not None and asked.method == LIST:
        listed(put(**{ROOTS: type(peer).roots}))(message)
    yield message


def lists_deleted_sessions(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    gone = [it.session_id for it in peer.lines if it.method == DELETE and it.is_sent]
    if asked is not None and asked.method == LIST:
        message["result"]["sessions"] += [{"sessionId": it, "cwd": "/"} for it in gone]
    yield message


def forks_with_same_id(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == FORK and "result" in message:
        message["result"]["sessionId"] = asked.session_id
    yield message


def echoes_version(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == "initialize":
        message = {"jsonrpc": "2.0", "id": asked.id, "result": dict(asked.params)}
    yield message


def without_states(*states: str) -> Fault:
    def is_it(message: Json, *_: object) -> bool:
        return message.get("params", {}).get("update", {}).get("state") in states

    return drop(is_it)


def shares_message_ids(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Use one id for all messages of the agent, and in version 2 for all prompts."""
    if (kind_of(message) or "").startswith(("agent_message", "user_message")):
        message["params"]["update"]["messageId"] = "one"
    if asked is not None and asked.method == PROMPT and "messageId" in message.get("result", {}):
        message["result"]["messageId"] = "one"
    yield message


def ends_without_cancelled(message: Json, *_: object) -> Any:  # noqa: ANN401
    """End cancelled turns with `end_turn`."""
    yield json.loads(json.dumps(message).replace('"cancelled"', '"end_turn"'))


def sends_after_cancel(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Send another chunk of the last message after a cancelled turn."""
    yield message
    ends = message.get("result", {}) if asked else message.get("params", {}).get("update", {})
    if ends.get("stopReason") == "cancelled":
        chunks = [it.message for it in peer.lines if it.kind == "agent_message_chunk"]
        yield chunks[-1]


def sends_notices(message: Json, *_: object) -> Any:  # noqa: ANN401
    """Send a notice after each message, also in a replay."""
    yield message
    if "agent_message" in (kind_of(message) or ""):
        session_id = message["params"]["sessionId"]
        yield told("notice", session_id, title="Beware", severity="info")


# The faults by requirement, with the version to try if not all of the requirement's versions.
def leaks_updates(message: Json, _: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Send the messages of a session under the id of another session too."""
    if "message" in (kind_of(message) or ""):
        own = message["params"]["sessionId"]
        made = [as_object(it.message.get("result")).get("sessionId") for it in peer.lines]
        other = next((it for it in made if it and it != own), own)
        yield {**message, "params": {**message["params"], "sessionId": other}}
    yield message


FAULTS: dict[str, Fault | tuple[Fault, int]] = {
    **newer_faults.FAULTS,
    "greeting.version": answer("initialize", result(protocolVersion=None)),
    "greeting.higher": echoes_version,
    "greeting.odd": echoes_version,
    "greeting.shape": (answer("initialize", result(agentCapabilities={"loadSession": 1})), 1),
    "greeting.auth": answer("initialize", result(authMethods=[{}])),
    "greeting.login": answer("initialize", result(authMethods=[AUTH])),
    "greeting.unknown-method": answer(UNKNOWN, allow),
    "greeting.unknown-notification": before(UNKNOWN, {"jsonrpc": "2.0", "id": None, "error": {}}),
    "greeting.parse": drop(lambda it, *_: "error" in it and it["id"] is None),
    "greeting.gone": answer(LOAD, allow),
    "session.works": answer(NEW, result(sessionId="")),
    "session.unique": answer(NEW, result(sessionId="one")),
    "session.no-servers": answer(NEW, refuse),
    "session.relative": answer(NEW, allow, if_=is_relative),
    "session.params": answer(NEW, allow, if_=lambda it: not it),
    "session.options": (answer("session/set_config_option", result(configOptions=[])), 2),
    "session.withdrawn": refused_if(is_withdrawn),
    "session.unknown": answer(PROMPT, allow, if_=is_unknown),
    "session.unknown-code": answer(PROMPT, refuse, if_=is_unknown),
    "turn.works": answer(PROMPT, refuse_with(-32601)),
    "turn.link": answer(PROMPT, refuse, if_=lambda it: it["prompt"][0]["type"] != "text"),
    "turn.reason": (answer(PROMPT, result(stopReason="bored")), 1),
    "turn.why": update("state_update", leave_out("stopReason")),
    "turn.message-id": answer(PROMPT, result(messageId="other")),
    "turn.states": without_states("running", "requires_action"),
    "turn.over": after(PROMPT, words("late")),
    "turn.message-ids": shares_message_ids,
    "turn.asking": is_state("requires_action"),
    "cancel.ends": ends_without_cancelled,
    "cancel.over": sends_after_cancel,
    "cancel.next": (refused_if(is_response_to(PROMPT, 2)), 1),
    "list.works": answer(LIST, refuse),
    "list.shape": answer(LIST, listed(put(cwd="project"))),
    "list.times": answer(LIST, listed(put(updatedAt="2026-01-02T03:04:05"))),
    "list.zones": answer(LIST, listed(put(updatedAt="2026-01-02T03:04:05"))),
    "list.all": answer(LIST, result(sessions=[])),
    "list.folder": answer(LIST, listed(put(cwd="/elsewhere")), if_=lambda it: "cwd" in it),
    "list.cwd": answer(LIST, listed(put(cwd="/elsewhere"))),
    "list.relative": answer(LIST, allow),
    "list.cursor": answer(LIST, allow),
    "list.pages": several(answer(LIST, allow), answer(LIST, result(nextCursor="again"))),
    "list.unchanged": answer(LIST, listed(lambda it: it.update(title=str(next(counter))))),
    "replay.works": (answer(LOAD, refuse), 1),
    "replay.killed": refused_if(is_open_after_kill),
    "replay.listed": answer(LIST, result(sessions=[])),
    "replay.whole": drop(is_replayed_answer),
    "replay.retained": drop(is_replayed_answer),
    "replay.answer": (after(LOAD, words("late")), 1),
    "replay.session": (before(LOAD, told("agent_message_chunk", "another")), 1),
    "replay.user": (update("user_message_chunk", as_kind("agent_message_chunk"), replayed=True), 1),
    "replay.ids": update("user_message", leave_out("messageId"), replayed=True),
    "replay.same-ids": update("", lambda it: it.update(messageId=str(next(counter)))),
    "replay.again": (update("agent_message_chunk", other_words, replayed=True), 1),
    "replay.notices": sends_notices,
    "replay.state": is_state("", replayed=True),
    "replay.cursor": answer(RESUME, allow),
    "replay.goes-on": (refused_if(has_asked(LOAD)), 1),
    "replay.unknown": answer(LOAD, allow),
    "resume.works": answer(RESUME, refuse),
    "resume.killed": refused_if(is_open_after_kill),
    "resume.silent": before(RESUME, told("user_message_chunk", content={"text": "Hi"})),
    "resume.state": is_state("", replayed=True),
    "resume.goes-on": refused_if(has_asked(RESUME)),
    "resume.unknown": answer(RESUME, allow, if_=is_unknown),
    "close.works": answer(CLOSE, empty),
    "close.cancels": ends_without_cancelled,
    "close.silent": after(CLOSE, told("usage_update", used=1, size=2)),
    "close.frees": (answer(PROMPT, allow), 1),
    "close.keeps": (answer(LOAD, refuse), 1),
    "close.unknown": answer(CLOSE, refuse, if_=is_unknown),
    "fork.works": answer(FORK, result(sessionId="")),
    "fork.id": forks_with_same_id,
    "fork.goes-on": refused_if(has_asked(FORK)),
    "fork.source": (before(LOAD, told("user_message_chunk", content={"text": "more"})), 1),
    "fork.history": (update("user_message_chunk", other_words, replayed=True), 1),
    "fork.unknown": answer(FORK, allow),
    "delete.works": answer(DELETE, empty),
    "delete.gone": lists_deleted_sessions,
    "delete.twice": refused_if(is_response_to(DELETE, 3)),
    "delete.unknown": answer(DELETE, refuse, if_=is_unknown),
    "roots.works": (with_directories(answer(NEW, refuse, if_=lambda it: ROOTS in it)), 1),
    "roots.relative": (with_directories(), 1),
    "roots.empty": (with_directories(), 1),
    "roots.listed": (with_directories(answer(LIST, listed(put(**{ROOTS: ["/x"]})))), 1),
    "roots.reopened": (with_directories(lists_last_directories), 1),
    "roots.forked": (with_directories(lists_last_directories), 1),
    "roots.opened": (
        with_directories(lists_last_directories, answer(LOAD, refuse, if_=lambda it: ROOTS in it)),
        1,
    ),
    "wire.json": lambda it, *_: iter([it, b"Hello!"]),
    "wire.frames": after(NEW, {"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}),
    "wire.once": lambda it, *_: iter([it, it]),
    "wire.ids": after(NEW, {"jsonrpc": "2.0", "id": 0.5, "method": "_x", "params": {}}),
    "wire.answered": drop(is_response_to(NEW)),
    "wire.capabilities": after(NEW, FILES),
    "wire.methods": after(NEW, {"jsonrpc": "2.0", "method": "craft/x", "params": {}}),
    "wire.fields": answer(NEW, result(model="m")),
    "wire.kinds": after(NEW, told("odd", "SESSION")),
    "wire.arrays": answer(NEW, result(configOptions=None)),
    "wire.sessions": after(NEW, told("usage_update", "another", used=1, size=2)),
    "wire.leaks": leaks_updates,
    "wire.tool-calls": update("tool_call_update", put(status="bored")),
    "wire.titles": several(
        update("tool_call", as_kind("tool_call_update")),
        update("tool_call_update", leave_out("title")),
    ),
    "wire.plans": (update("plan", leave_out("entries")), 1),
    "wire.terminals": update("terminal_output_chunk", put(data="?")),
    "wire.info": update("session_info_update", put(cwd="/")),
    "wire.questions": lambda it, *_: iter(
        [{**it, "params": {}} if is_permission_request(it) else it]
    ),
}


def endless_list(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Return empty pages without end."""
    if asked is not None and asked.method == LIST and "error" not in message:
        message["result"]["nextCursor"] = f"after {asked.params.get('cursor', 'the first')}"
    if asked is not None and str(asked.params.get("cursor", "")).startswith("after"):
        allow(message)
        message["result"] |= {"sessions": [], "nextCursor": f"after {asked.params['cursor']}"}
    yield message


def without_second_page(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == LIST and "error" not in message:
        message["result"]["nextCursor"] = "broken"
    yield message


def answers_lower_version(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.params.get("protocolVersion") == session_runner.HIGHEST_VERSION:
        message["result"]["protocolVersion"] = 1
    yield message


def replays_two_prompts(message: Json, _: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Replay only the first two prompts."""
    if "user_message" in (kind_of(message) or "") and is_replaying(peer):
        asked = next(it for it in reversed(peer.lines) if it.method in {LOAD, RESUME})
        lines = peer.lines[peer.lines.index(asked) :]
        if len([it for it in lines if it.kind == kind_of(message)]) > 1:
            return
    yield message


def refuse_cancelled(message: Json) -> Json:
    if message.get("result") == {"stopReason": "cancelled"}:
        refuse(message)
    return message


def ignores_login(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == "initialize":
        result(authMethods=[AUTH])(message)
    if asked is None or asked.method != "auth/login":
        yield message


RELATIVE: Json = {"type": "diff", "path": "notes.txt", "oldText": None, "newText": "x"}
MORE_FAULTS: list[tuple[str, int, Fault]] = [
    ("turn.works", 1, drop(is_response_to(PROMPT))),
    ("turn.works", 1, answer(PROMPT, refuse_with(-32602))),
    ("cancel.ends", 1, lambda it, *_: iter([refuse_cancelled(it)])),
    ("greeting.higher", 2, answers_lower_version),
    ("list.pages", 1, endless_list),
    ("list.pages", 2, without_second_page),
    ("replay.goes-on", 1, replays_two_prompts),
    ("resume.goes-on", 1, replays_two_prompts),
    ("wire.tool-calls", 1, update("tool_call_update", put(content=[RELATIVE]))),
    ("wire.capabilities", 1, after(NEW, told("notice", title="Beware", severity="info"))),
    ("greeting.login", 2, ignores_login),
]


def is_permission_request(message: Json) -> bool:
    return message.get("method") == "session/request_permission"


def cases() -> list[tuple[str, int, Fault]]:
    found: list[tuple[str, int, Fault]] = []
    for it in filter(is_judged, REQUIREMENTS):
        fault = FAULTS[it.name]
        tried, *only = fault if isinstance(fault, tuple) else (fault,)
        found += [(it.name, version, tried) for version in only or it.versions]
    return found + MORE_FAULTS


def test_every_requirement_has_a_fault() -> None:
    assert FAULTS.keys() == {it.name for it in REQUIREMENTS if is_judged(it)}


def is_judged(requirement: Requirement) -> bool:
    return requirement.level is not RequirementLevel.RECORDED


WITHOUT_ANSWER = {"wire.answered", "greeting.login", "turn.works", "session.unknown"}
"""Faults by which a request is never answered, so that the suite waits for its time limit."""


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("name", "protocol", "fault"), cases(), ids=lambda it: it if isinstance(it, int | str) else ""
)
def test_check_finds_the_fault(
    name: str, protocol: int, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyPeer, "fault", fault, raising=False)
    monkeypatch.setattr(session_runner, "Peer", FaultyPeer)
    scenario = name.partition(".")[0]
    report = check(
        (str(tmp_path / "memory"),),
        tmp_path,
        only=("session", "turn") if scenario == "wire" else (scenario,),
        protocol=protocol,
        prompt=EVERYTHING,
        timeout=1.0 if name in WITHOUT_ANSWER else 20.0,
        quiet_seconds=0.02,
        allow_logout=True,
    )
    assert name in failed(report), describe_failures(report)
