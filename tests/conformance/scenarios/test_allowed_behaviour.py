"""Unusual behaviour that the protocol allows does not fail any requirement."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from agent_faults import Fault, FaultyPeer, kind_of, told
from conformance_runs import check, describe_failures, failed
from rekindle.conformance import CheckReport, Verdict, session_runner
from rekindle.conformance.trace import TraceLine

Json = dict[str, Any]
LOAD, RESUME, PROMPT, CLOSE = "session/load", "session/resume", "session/prompt", "session/close"


def exits_after_refusal(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Exit after a refused `initialize`."""
    yield message
    if asked is not None and asked.method == "initialize" and "error" in message:
        peer.hang_up()


def sends_notices(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Send the same notice in each process, whenever a session is opened."""
    if asked is not None and asked.method in {"session/new", RESUME}:
        session_id = message.get("result", {}).get("sessionId") or asked.session_id
        if session_id:
            yield told("notice", session_id, title="No sandbox", severity="warning")
    yield message


def sends_warnings(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Do the same in version 1, with a message after the replay."""
    if asked is not None and asked.method in {LOAD, RESUME} and "result" in message:
        content = {"type": "text", "text": "No sandbox"}
        yield told("agent_message_chunk", asked.session_id, content=content)
    yield message


def shares_ids(message: Json, _: object, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Give thoughts and answers the id of the user's message."""
    if (kind_of(message) or "").startswith("agent_"):
        update, session_id = message["params"]["update"], message["params"]["sessionId"]
        users = [it for it in peer.lines if "user_message" in it.kind]
        mine = [it.update["messageId"] for it in users if it.session_id == session_id]
        update["messageId"] = mine[-1] if mine else update["messageId"]
    yield message


def sends_no_stop_reason(message: Json, *_: object) -> Any:  # noqa: ANN401
    """Leave out the stop reason, unless the turn was cancelled."""
    if kind_of(message) == "state_update":
        update = message["params"]["update"]
        if update.get("stopReason") != "cancelled":
            update.pop("stopReason", None)
    yield message


heartbeats = itertools.count()


def sends_heartbeats(message: Json, *_: object) -> Any:  # noqa: ANN401
    yield message
    yield {"jsonrpc": "2.0", "method": "_x/ping", "params": {"number": next(heartbeats)}}


def forgets_user_messages(message: Json, _: object, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Keep none of the user's messages, as version 2 allows."""
    asked = [it for it in peer.lines if it.is_sent and it.is_request]
    is_user = "user_message" in (kind_of(message) or "")
    if not (is_user and asked and asked[-1].method == RESUME):
        yield message


ALLOWED: dict[str, tuple[Fault, tuple[int, ...], set[str]]] = {
    "exits after a refused initialize": (exits_after_refusal, (1, 2), set()),
    "sends a notice in each process": (sends_notices, (2,), set()),
    "sends a warning as a message": (sends_warnings, (1,), set()),
    "shares ids": (shares_ids, (2,), set()),
    "sends no stop reason": (sends_no_stop_reason, (2,), {"turn.why"}),
    "sends heartbeats": (sends_heartbeats, (1, 2), set()),
    "forgets user messages": (forgets_user_messages, (2,), {"replay.retained", "fork.history"}),
}
CASES = [
    pytest.param(fault, version, warned, id=f"{name}, version {version}")
    for name, (fault, versions, warned) in ALLOWED.items()
    for version in versions
]


def check_with(
    fault: Fault, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object
) -> CheckReport:
    monkeypatch.setattr(FaultyPeer, "fault", fault, raising=False)
    monkeypatch.setattr(session_runner, "Peer", FaultyPeer)
    return check((str(folder / "memory"),), folder, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fault", "protocol", "warned"), CASES)
def test_allowed_behaviour_does_not_fail(
    fault: Fault,
    protocol: int,
    warned: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = check_with(fault, tmp_path, monkeypatch, protocol=protocol, quiet_seconds=0.02)
    assert (report.obstacle, report.is_met) == ("", True), describe_failures(report)
    assert failed(report) == warned, describe_failures(report)


def ignores_long_prompts(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Send no response and no updates for a long prompt."""
    slow = [it for it in peer.lines if it.method == PROMPT and "slow" in it.data.decode()]
    sessions = {it.session_id for it in slow}
    if asked is not None and asked.method == PROMPT and asked in slow:
        return
    if message.get("params", {}).get("sessionId") not in sessions:
        yield message


def test_withdrawn_prompt_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses_when_stopped(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
        yield from ignores_long_prompts(message, asked, peer)
        stops = [it for it in peer.lines if it.method in {"session/cancel", CLOSE} and it.is_sent]
        for prompt in [it for it in peer.lines if it.method == PROMPT and b"slow" in it.data]:
            is_open = not [it for it in peer.lines if it.is_response and it.id == prompt.id]
            if is_open and prompt.session_id in {it.session_id for it in stops}:
                error = {"code": -32800, "message": "withdrawn"}
                yield {"jsonrpc": "2.0", "id": prompt.id, "error": error}

    report = check_with(
        refuses_when_stopped,
        tmp_path,
        monkeypatch,
        protocol=2,
        only=("cancel", "close"),
        timeout=1.0,
        quiet_seconds=0.02,
    )
    verdicts = {it.requirement.name: it for it in report.results}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED
    assert "before it became a message" in verdicts["cancel.ends"].reason
    assert verdicts["close.cancels"].verdict is Verdict.SKIPPED


def test_turn_that_ends_too_soon_to_cancel_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sends_no_updates(message: Json, *_: object) -> Any:  # noqa: ANN401
        if kind_of(message) is None:
            yield message

    report = check_with(
        sends_no_updates, tmp_path, monkeypatch, only=("cancel",), long_prompt="hello"
    )
    verdicts = {it.requirement.name: it for it in report.results}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED
    assert "--long-prompt" in verdicts["cancel.ends"].reason


def test_cancel_is_tried_again_if_the_turn_may_have_ended_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_by_itself(message: Json, asked: TraceLine | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
        """End the first turn with end_turn when it is cancelled, and the second one by itself."""
        slow = [it for it in peer.lines if it.method == PROMPT and b"slow" in it.data]
        if asked is not None and asked in slow:
            if asked is slow[0]:
                yield message | {"result": {"stopReason": "end_turn"}}
            return
        yield message
        is_open = len(slow) == 2 and not any(it.id == slow[1].id for it in responses_of(peer))
        if is_open and kind_of(message) == "agent_message_chunk":
            yield {"jsonrpc": "2.0", "id": slow[1].id, "result": {"stopReason": "end_turn"}}

    report = check_with(ends_by_itself, tmp_path, monkeypatch, only=("cancel",), quiet_seconds=0.02)
    verdicts = {it.requirement.name: it for it in report.results}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED, describe_failures(report)
    assert "--long-prompt" in verdicts["cancel.ends"].reason


def responses_of(peer: FaultyPeer) -> list[TraceLine]:
    return [it for it in peer.lines if it.is_response and not it.is_sent]


def test_v2_agent_without_sessions_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(message: Json, asked: TraceLine | None, _: FaultyPeer) -> Any:  # noqa: ANN401
        if message.get("result", {}).get("capabilities") and asked is not None:
            message["result"]["capabilities"] = {}
        yield message

    report = check_with(fault, tmp_path, monkeypatch, protocol=2)
    assert report.obstacle == "it has no sessions: `capabilities.session` is missing"
    assert failed(report) == set(), describe_failures(report)
