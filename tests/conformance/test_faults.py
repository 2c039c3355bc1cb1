"""Every requirement can fail: a faulty agent is found out, whatever rule it breaks."""

import json
from pathlib import Path
from typing import Any

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
from conformance_runs import EVERYTHING, examined, failed, reasons
from rekindle.conformance import REQUIREMENTS, session_runner
from rekindle.conformance.trace import Line

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


def is_withdrawn(_: Json, asked: Line | None, peer: FaultyPeer) -> bool:
    withdrawn = [it.params["requestId"] for it in peer.lines if it.method == "$/cancel_request"]
    return asked is not None and asked.id in withdrawn


def is_agents_words_again(message: Json, _: object, peer: FaultyPeer) -> bool:
    return "agent_message" in (kind_of(message) or "") and is_replaying(peer)


def is_lost_by_a_kill(_: Json, asked: Line | None, peer: FaultyPeer) -> bool:
    return asked is not None and asked.method in {LOAD, RESUME} and peer.was_killed


def is_answer_to(method: str, number: int = 1) -> Any:  # noqa: ANN401 - a predicate
    """Tell whether it is the answer to the n-th request for that method, or a later one."""

    def is_it(_: Json, asked: Line | None, peer: FaultyPeer) -> bool:
        if asked is None or asked.method != method:
            return False
        return [it for it in peer.lines if it.method == method].index(asked) + 1 >= number

    return is_it


def roots(*faults: Fault) -> Fault:
    """Offer further folders, and have faults."""
    capabilities = {"loadSession": True, "sessionCapabilities": {ROOTS: {}, "list": {}, "fork": {}}}
    return several(answer("initialize", result(agentCapabilities=capabilities)), *faults)


def several(*faults: Fault) -> Fault:
    def fault(message: Json, asked: Line | None, peer: Any) -> Any:  # noqa: ANN401 - as faults
        for one in faults:
            (message,) = one(message, asked, peer)
        yield message

    return fault


def given_roots(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Tell of every session that it has the folders that were given last, also by a restart."""
    given = [it.params[ROOTS] for it in peer.lines if it.method == NEW and ROOTS in it.params]
    type(peer).roots = given[-1] if given else type(peer).roots
    if asked is not None and asked.method == LIST:
        listed(put(**{ROOTS: type(peer).roots}))(message)
    yield message


def deleted_is_back(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    gone = [it.session_id for it in peer.lines if it.method == DELETE and it.is_sent]
    if asked is not None and asked.method == LIST:
        message["result"]["sessions"] += [{"sessionId": it, "cwd": "/"} for it in gone]
    yield message


def one_id(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == FORK and "result" in message:
        message["result"]["sessionId"] = asked.session_id
    yield message


def many_versions(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == "initialize":
        message = {"jsonrpc": "2.0", "id": asked.id, "result": dict(asked.params)}
    yield message


def several_states(*states: str) -> Fault:
    def is_it(message: Json, *_: object) -> bool:
        return message.get("params", {}).get("update", {}).get("state") in states

    return drop(is_it)


def same_ids(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Give all of the agent's messages one id, and in version 2 all prompts."""
    if (kind_of(message) or "").startswith(("agent_message", "user_message")):
        message["params"]["update"]["messageId"] = "one"
    if asked is not None and asked.method == PROMPT and "messageId" in message.get("result", {}):
        message["result"]["messageId"] = "one"
    yield message


def other_reason(message: Json, *_: object) -> Any:  # noqa: ANN401
    """End every turn as if it had come to its end, as agents do that only stop."""
    yield json.loads(json.dumps(message).replace('"cancelled"', '"end_turn"'))


def still_going(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Say more of the last message when a turn was cancelled."""
    yield message
    ends = message.get("result", {}) if asked else message.get("params", {}).get("update", {})
    if ends.get("stopReason") == "cancelled":
        chunks = [it.message for it in peer.lines if it.kind == "agent_message_chunk"]
        yield chunks[-1]


def noticing(message: Json, *_: object) -> Any:  # noqa: ANN401
    """Tell a notice after each message, also when it is told again."""
    yield message
    if "agent_message" in (kind_of(message) or ""):
        session_id = message["params"]["sessionId"]
        yield told("notice", session_id, title="Beware", severity="info")


# Each with the versions in which it is tried, if not in all that the requirement is for.
FAULTS: dict[str, Fault | tuple[Fault, int]] = {
    "greeting.version": answer("initialize", result(protocolVersion=None)),
    "greeting.higher": many_versions,
    "greeting.odd": many_versions,
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
    "turn.states": several_states("running", "requires_action"),
    "turn.over": after(PROMPT, words("late")),
    "turn.message-ids": same_ids,
    "turn.asking": is_state("requires_action"),
    "cancel.ends": other_reason,
    "cancel.over": still_going,
    "cancel.next": (refused_if(is_answer_to(PROMPT, 2)), 1),
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
    "replay.killed": refused_if(is_lost_by_a_kill),
    "replay.listed": answer(LIST, result(sessions=[])),
    "replay.whole": drop(is_agents_words_again),
    "replay.retained": drop(is_agents_words_again),
    "replay.answer": (after(LOAD, words("late")), 1),
    "replay.session": (before(LOAD, told("agent_message_chunk", "another")), 1),
    "replay.user": (update("user_message_chunk", as_kind("agent_message_chunk"), replayed=True), 1),
    "replay.ids": update("user_message", leave_out("messageId"), replayed=True),
    "replay.same-ids": update("", lambda it: it.update(messageId=str(next(counter)))),
    "replay.again": (update("agent_message_chunk", other_words, replayed=True), 1),
    "replay.notices": noticing,
    "replay.state": is_state("", replayed=True),
    "replay.cursor": answer(RESUME, allow),
    "replay.goes-on": (refused_if(has_asked(LOAD)), 1),
    "replay.unknown": answer(LOAD, allow),
    "resume.works": answer(RESUME, refuse),
    "resume.killed": refused_if(is_lost_by_a_kill),
    "resume.silent": before(RESUME, told("user_message_chunk", content={"text": "Hi"})),
    "resume.state": is_state("", replayed=True),
    "resume.goes-on": refused_if(has_asked(RESUME)),
    "resume.unknown": answer(RESUME, allow, if_=is_unknown),
    "close.works": answer(CLOSE, empty),
    "close.cancels": other_reason,
    "close.silent": after(CLOSE, told("usage_update", used=1, size=2)),
    "close.frees": (answer(PROMPT, allow), 1),
    "close.keeps": (answer(LOAD, refuse), 1),
    "close.unknown": answer(CLOSE, refuse, if_=is_unknown),
    "fork.works": answer(FORK, result(sessionId="")),
    "fork.id": one_id,
    "fork.goes-on": refused_if(has_asked(FORK)),
    "fork.source": (before(LOAD, told("user_message_chunk", content={"text": "more"})), 1),
    "fork.history": (update("user_message_chunk", other_words, replayed=True), 1),
    "fork.unknown": answer(FORK, allow),
    "delete.works": answer(DELETE, empty),
    "delete.gone": deleted_is_back,
    "delete.twice": refused_if(is_answer_to(DELETE, 3)),
    "delete.unknown": answer(DELETE, refuse, if_=is_unknown),
    "roots.works": (roots(answer(NEW, refuse, if_=lambda it: ROOTS in it)), 1),
    "roots.relative": (roots(), 1),
    "roots.empty": (roots(), 1),
    "roots.listed": (roots(answer(LIST, listed(put(**{ROOTS: ["/x"]})))), 1),
    "roots.reopened": (roots(given_roots), 1),
    "roots.forked": (roots(given_roots), 1),
    "wire.json": lambda it, *_: iter([it, b"Hello!"]),
    "wire.frames": after(NEW, {"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}),
    "wire.once": lambda it, *_: iter([it, it]),
    "wire.ids": after(NEW, {"jsonrpc": "2.0", "id": 0.5, "method": "_x", "params": {}}),
    "wire.answered": drop(is_answer_to(NEW)),
    "wire.capabilities": after(NEW, FILES),
    "wire.methods": after(NEW, {"jsonrpc": "2.0", "method": "craft/x", "params": {}}),
    "wire.fields": answer(NEW, result(model="m")),
    "wire.kinds": after(NEW, told("odd", "SESSION")),
    "wire.arrays": answer(NEW, result(configOptions=None)),
    "wire.sessions": after(NEW, told("usage_update", "another", used=1, size=2)),
    "wire.tool-calls": update("tool_call_update", put(status="bored")),
    "wire.titles": several(
        update("tool_call", as_kind("tool_call_update")),
        update("tool_call_update", leave_out("title")),
    ),
    "wire.plans": (update("plan", leave_out("entries")), 1),
    "wire.terminals": update("terminal_output_chunk", put(data="?")),
    "wire.info": update("session_info_update", put(cwd="/")),
    "wire.questions": lambda it, *_: iter([{**it, "params": {}} if is_question(it) else it]),
}


def endless(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Have another page, and another one, with nothing on it."""
    if asked is not None and asked.method == LIST and "error" not in message:
        message["result"]["nextCursor"] = f"after {asked.params.get('cursor', 'the first')}"
    if asked is not None and str(asked.params.get("cursor", "")).startswith("after"):
        allow(message)
        message["result"] |= {"sessions": [], "nextCursor": f"after {asked.params['cursor']}"}
    yield message


def without_second_page(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == LIST and "error" not in message:
        message["result"]["nextCursor"] = "broken"
    yield message


def lower_than_its_own(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.params.get("protocolVersion") == session_runner.HIGHEST_VERSION:
        message["result"]["protocolVersion"] = 1
    yield message


def two_turns_only(message: Json, _: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Tell two of the user's turns again, and none that was had after that."""
    if "user_message" in (kind_of(message) or "") and is_replaying(peer):
        asked = next(it for it in reversed(peer.lines) if it.method in {LOAD, RESUME})
        lines = peer.lines[peer.lines.index(asked) :]
        if len([it for it in lines if it.kind == kind_of(message)]) > 1:
            return
    yield message


def refused_cancel(message: Json) -> Json:
    if message.get("result") == {"stopReason": "cancelled"}:
        refuse(message)
    return message


def mute_about_signing_in(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    if asked is not None and asked.method == "initialize":
        result(authMethods=[AUTH])(message)
    if asked is None or asked.method != "auth/login":
        yield message


RELATIVE: Json = {"type": "diff", "path": "notes.txt", "oldText": None, "newText": "x"}
MORE_FAULTS: list[tuple[str, int, Fault]] = [
    ("turn.works", 1, drop(is_answer_to(PROMPT))),
    ("turn.works", 1, answer(PROMPT, refuse_with(-32602))),
    ("cancel.ends", 1, lambda it, *_: iter([refused_cancel(it)])),
    ("greeting.higher", 2, lower_than_its_own),
    ("list.pages", 1, endless),
    ("list.pages", 2, without_second_page),
    ("replay.goes-on", 1, two_turns_only),
    ("resume.goes-on", 1, two_turns_only),
    ("wire.tool-calls", 1, update("tool_call_update", put(content=[RELATIVE]))),
    ("wire.capabilities", 1, after(NEW, told("notice", title="Beware", severity="info"))),
    ("greeting.login", 2, mute_about_signing_in),
]


def is_question(message: Json) -> bool:
    return message.get("method") == "session/request_permission"


def cases() -> list[tuple[str, int, Fault]]:
    found: list[tuple[str, int, Fault]] = []
    for it in REQUIREMENTS:
        fault = FAULTS[it.name]
        made, *only = fault if isinstance(fault, tuple) else (fault,)
        found += [(it.name, version, made) for version in only or it.versions]
    return found + MORE_FAULTS


def test_every_requirement_has_a_fault() -> None:
    assert FAULTS.keys() == {it.name for it in REQUIREMENTS}


WITHOUT_ANSWER = {"wire.answered", "greeting.login", "turn.works", "session.unknown"}
"""Faults by which a request is never answered, so that the suite waits for its time limit."""


@pytest.mark.parametrize(
    ("name", "protocol", "fault"), cases(), ids=lambda it: it if isinstance(it, int | str) else ""
)
def test_a_fault_is_found(
    name: str, protocol: int, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyPeer, "fault", fault, raising=False)
    monkeypatch.setattr(session_runner, "Peer", FaultyPeer)
    scenario = name.partition(".")[0]
    report = examined(
        (str(tmp_path / "memory"),),
        tmp_path,
        only=("session", "turn") if scenario == "wire" else (scenario,),
        protocol=protocol,
        prompt=EVERYTHING,
        patience=1.0 if name in WITHOUT_ANSWER else 20.0,
        settling=0.02,
    )
    assert name in failed(report), reasons(report)
