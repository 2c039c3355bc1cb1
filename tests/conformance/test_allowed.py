"""What the protocol allows is no fault, however odd: no requirement fails for it."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from agent_faults import Fault, FaultyPeer, kind_of, told
from conformance_runs import examined, failed, reasons
from rekindle.conformance import Report, Verdict, session_runner
from rekindle.conformance.trace import Line

Json = dict[str, Any]
LOAD, RESUME, PROMPT, CLOSE = "session/load", "session/resume", "session/prompt", "session/close"


def hangs_up(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """End after an `initialize` that is refused."""
    yield message
    if asked is not None and asked.method == "initialize" and "error" in message:
        peer.hang_up()


def notices(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Say in each process anew what is the matter, when a session is opened."""
    if asked is not None and asked.method in {"session/new", RESUME}:
        session_id = message.get("result", {}).get("sessionId") or asked.session_id
        if session_id:
            yield told("notice", session_id, title="No sandbox", severity="warning")
    yield message


def warnings(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
    """Do the same in version 1, where it has to be a message, after what is told again."""
    if asked is not None and asked.method in {LOAD, RESUME} and "result" in message:
        content = {"type": "text", "text": "No sandbox"}
        yield told("agent_message_chunk", asked.session_id, content=content)
    yield message


def shares_ids(message: Json, _: object, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Give a thought and an answer the id that the user's message has."""
    if (kind_of(message) or "").startswith("agent_"):
        update, session_id = message["params"]["update"], message["params"]["sessionId"]
        users = [it for it in peer.lines if "user_message" in it.kind]
        mine = [it.update["messageId"] for it in users if it.session_id == session_id]
        update["messageId"] = mine[-1] if mine else update["messageId"]
    yield message


def says_no_reason(message: Json, *_: object) -> Any:  # noqa: ANN401
    """Leave out why a turn ended, unless it was cancelled."""
    if kind_of(message) == "state_update":
        update = message["params"]["update"]
        if update.get("stopReason") != "cancelled":
            update.pop("stopReason", None)
    yield message


beats = itertools.count()


def beats_its_heart(message: Json, *_: object) -> Any:  # noqa: ANN401
    yield message
    yield {"jsonrpc": "2.0", "method": "_x/ping", "params": {"number": next(beats)}}


def forgets_the_user(message: Json, _: object, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Keep nothing of what the user has said, as version 2 has it."""
    asked = [it for it in peer.lines if it.is_sent and it.is_request]
    is_user = "user_message" in (kind_of(message) or "")
    if not (is_user and asked and asked[-1].method == RESUME):
        yield message


ALLOWED: dict[str, tuple[Fault, tuple[int, ...], set[str]]] = {
    "hangs up after a bad greeting": (hangs_up, (1, 2), set()),
    "tells a notice in each process": (notices, (2,), set()),
    "tells a warning as a message": (warnings, (1,), set()),
    "shares ids": (shares_ids, (2,), set()),
    "says no reason": (says_no_reason, (2,), {"turn.why"}),
    "beats its heart": (beats_its_heart, (1, 2), set()),
    "forgets the user": (forgets_the_user, (2,), {"replay.retained", "fork.history"}),
}
CASES = [
    pytest.param(fault, version, warned, id=f"{name}, version {version}")
    for name, (fault, versions, warned) in ALLOWED.items()
    for version in versions
]


def play(fault: Fault, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> Report:
    monkeypatch.setattr(FaultyPeer, "fault", fault, raising=False)
    monkeypatch.setattr(session_runner, "Peer", FaultyPeer)
    return examined((str(folder / "memory"),), folder, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fault", "protocol", "warned"), CASES)
def test_what_is_allowed_does_not_fail(
    fault: Fault,
    protocol: int,
    warned: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = play(fault, tmp_path, monkeypatch, protocol=protocol, settling=0.02)
    assert (report.obstacle, report.is_passed) == ("", True), reasons(report)
    assert failed(report) == warned, reasons(report)


def withdrawn(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
    """Answer a long prompt only when it is withdrawn, with -32800, and tell nothing of it."""
    slow = [it for it in peer.lines if it.method == PROMPT and "slow" in it.data.decode()]
    sessions = {it.session_id for it in slow}
    if asked is not None and asked.method == PROMPT and asked in slow:
        return
    if message.get("params", {}).get("sessionId") not in sessions:
        yield message


def test_a_prompt_that_is_not_taken_up_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
        yield from withdrawn(message, asked, peer)
        stops = [it for it in peer.lines if it.method in {"session/cancel", CLOSE} and it.is_sent]
        for prompt in [it for it in peer.lines if it.method == PROMPT and b"slow" in it.data]:
            is_open = not [it for it in peer.lines if it.is_answer and it.id == prompt.id]
            if is_open and prompt.session_id in {it.session_id for it in stops}:
                error = {"code": -32800, "message": "withdrawn"}
                yield {"jsonrpc": "2.0", "id": prompt.id, "error": error}

    report = play(
        refused,
        tmp_path,
        monkeypatch,
        protocol=2,
        only=("cancel", "close"),
        patience=1.0,
        settling=0.02,
    )
    verdicts = {it.requirement.name: it for it in report.findings}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED
    assert "before it became a message" in verdicts["cancel.ends"].words
    assert verdicts["close.cancels"].verdict is Verdict.SKIPPED


def test_a_turn_that_is_over_by_itself_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def says_nothing(message: Json, *_: object) -> Any:  # noqa: ANN401
        if kind_of(message) is None:
            yield message

    report = play(says_nothing, tmp_path, monkeypatch, only=("cancel",), long_prompt="hello")
    verdicts = {it.requirement.name: it for it in report.findings}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED
    assert "--long-prompt" in verdicts["cancel.ends"].words


def test_a_turn_that_ends_as_it_is_cancelled_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_by_itself(message: Json, asked: Line | None, peer: FaultyPeer) -> Any:  # noqa: ANN401
        """End the first turn with end_turn when it is cancelled, the second one a moment later."""
        slow = [it for it in peer.lines if it.method == PROMPT and b"slow" in it.data]
        if asked is not None and asked in slow:
            if asked is slow[0]:
                yield message | {"result": {"stopReason": "end_turn"}}
            return
        yield message
        is_open = len(slow) == 2 and not any(it.id == slow[1].id for it in heard(peer))
        if is_open and kind_of(message) == "agent_message_chunk":
            yield {"jsonrpc": "2.0", "id": slow[1].id, "result": {"stopReason": "end_turn"}}

    report = play(ends_by_itself, tmp_path, monkeypatch, only=("cancel",), settling=0.02)
    verdicts = {it.requirement.name: it for it in report.findings}
    assert verdicts["cancel.ends"].verdict is Verdict.SKIPPED, reasons(report)
    assert "--long-prompt" in verdicts["cancel.ends"].words


def heard(peer: FaultyPeer) -> list[Line]:
    return [it for it in peer.lines if it.is_answer and not it.is_sent]


def test_version_2_may_have_no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(message: Json, asked: Line | None, _: FaultyPeer) -> Any:  # noqa: ANN401
        if asked is not None and asked.method == "initialize" and "result" in message:
            message["result"]["capabilities"] = {}
        yield message

    report = play(fault, tmp_path, monkeypatch, protocol=2)
    assert report.obstacle == "it has no sessions: `capabilities.session` is left out"
    assert failed(report) == set(), reasons(report)
