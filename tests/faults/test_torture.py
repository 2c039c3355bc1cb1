"""A short form of `make torture` with fixed seeds, and tests of the checks themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.model import Entry, Kind, Side

from . import report
from .__main__ import arguments, is_complete
from .checks import Recorded, check_no_internal_errors, check_record, check_replay
from .episodes import KINDS, Outcome, kind_of, run
from .fork_server import ForkServer
from .ledger import Conversation, Serial
from .report import Run
from .violation import Violation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness needs Linux")

EPISODES = [
    ("strikes", 1),
    ("strikes", 2),
    ("bad agents", 1),
    ("agents that never exit", 1),
    ("a crowd", 1),
    ("shared sessions", 1),
    ("shared sessions", 2),
    ("detached turns", 1),
    ("detached turns", 2),
    ("a clock that jumps", 1),
    ("a store that fails", 1),
    ("kills while something waits", 1),
    ("kills while something waits", 6),
    ("commands that are killed", 1),
    ("imports that are killed", 1),
    ("upgrades that are killed", 1),
    ("a damaged store", 1),
    ("damage to a store in use", 1),
    ("endurance", 1),
]
SLOW = {
    ("shared sessions", 2),
    ("detached turns", 2),
    ("strikes", 2),
    ("imports that are killed", 1),
    ("kills while something waits", 1),
    ("endurance", 1),
}


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(*episode, marks=[pytest.mark.slow] if episode in SLOW else [])
        for episode in EPISODES
    ],
)
def test_nothing_is_lost(fork_server: ForkServer, tmp_path: Path, kind: str, seed: int) -> None:
    outcome = run(seed, 0, tmp_path, fork_server, kind)
    assert outcome.violation is None, report.failure(outcome, tmp_path)
    assert outcome.faults or outcome.skipped
    assert not list(tmp_path.iterdir())


# -- the checks -------------------------------------------------------------------------


def said(*numbers: int, by: str = "a0000001-0") -> list[Serial]:
    return [(by, number) for number in numbers]


def record(serials: list[Serial], asked: list[Serial] | None = None) -> Recorded:
    return Recorded(serials, asked or [], list(range(1, len(serials) + 1)), 0)


def received(*pieces: list[Serial]) -> Conversation:
    return Conversation(pieces={f"editor-{at}": piece for at, piece in enumerate(pieces)})


def test_record_may_have_more_than_clients_received() -> None:
    check_record(received(said(1, 2)), record(said(1, 2, 3)))
    other = said(1, 2, by="a0000002-0")
    check_record(received(said(1, 2), other), record([*said(1, 2, 3), *other]))


@pytest.mark.parametrize(
    ("conversation", "wrong"),
    [
        (received(said(1, 2, 3)), record(said(1, 2))),
        (received(said(1, 2, 3)), record(said(1, 3))),
        (received(said(1, 2)), record(said(1, 2, 2))),
        (received(said(1, 2)), record(said(2, 1))),
        (received(said(1)), record(said(1, 3))),
        (received(said(1)), record([])),
        (received(said(2), said(1)), record(said(1, 2))),
        (received(said(1)), Recorded(said(1), [], [1, 3], 0)),
    ],
)
def test_wrong_record_is_found(conversation: Conversation, wrong: Recorded) -> None:
    with pytest.raises(Violation):
        check_record(conversation, wrong)


def test_updates_of_a_fenced_process_are_in_a_branch() -> None:
    conversation, successor = received(said(1, 2, 3)), record(said(1, 2))
    check_record(conversation, successor, [record(said(1, 2, 3, 4))])
    with pytest.raises(Violation, match="an update is lost"):
        check_record(conversation, successor, [record(said(1, 2)), record(said(1, 3))])


def test_unrecorded_prompt_is_found() -> None:
    asked = [("p0000001", 1), ("p0000001", 2)]
    conversation = Conversation(asked=asked, answered={asked[0]})
    check_record(conversation, record([], asked[:1]))
    with pytest.raises(Violation, match="a prompt is lost"):
        check_record(conversation, record([], asked[1:]))
    with pytest.raises(Violation, match="another order"):
        check_record(conversation, record([], asked[::-1]))
    with pytest.raises(Violation, match="twice"):
        check_record(conversation, record([], asked[:1] * 2))


def test_unrecorded_end_of_a_turn_is_found() -> None:
    check_record(Conversation(ended=1), Recorded([], [], [1], 0, answers=1))
    with pytest.raises(Violation, match="the end of a turn is lost"):
        check_record(Conversation(ended=2), Recorded([], [], [1], 0, answers=1))


def replayed(*texts: str) -> list[bytes]:
    return [
        b'{"sessionUpdate":"agent_message_chunk","text":"%s"}' % text.encode() for text in texts
    ]


def test_wrong_replay_is_found() -> None:
    check_replay(replayed("<a0000001-0.1><a0000001-0.2>", "<a0000001-0.3>"), record(said(1, 2, 3)))
    for wrong in (
        replayed("<a0000001-0.1>", "<a0000001-0.3>"),
        replayed("<a0000001-0.2><a0000001-0.1>", "<a0000001-0.3>"),
        replayed("<a0000001-0.1><a0000001-0.2>", "<a0000001-0.3>", "<a0000001-0.3>"),
    ):
        with pytest.raises(Violation):
            check_replay(wrong, record(said(1, 2, 3)))


def test_internal_error_is_found() -> None:
    check_no_internal_errors(
        "rekindle: not recording: the disk is full. The conversation continues"
    )
    with pytest.raises(Violation):
        check_no_internal_errors("Traceback (most recent call last):")


def test_failure_names_the_command_to_repeat_it() -> None:
    outcome = Outcome(seed=7, number=12, kind="strikes", violation="an update is lost: x")
    words = report.failure(outcome, Path("/tmp/x"))  # noqa: S108 - only a name
    assert "an update is lost: x" in words
    assert "make torture SEED=7 EPISODE=12" in words
    assert "/tmp/x/7-12" in words  # noqa: S108
    assert Run(7, 1.0, [outcome]).figures()["promises broken"] == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_run_starts_with_one_episode_of_each_kind(seed: int) -> None:
    first = [kind_of(seed, number) for number in range(len(KINDS))]
    assert sorted(first) == sorted(KINDS)
    assert first[0] == "a client that does not read for a minute"
    assert first == [kind_of(seed, number) for number in range(len(KINDS))]
    assert first != [kind_of(seed + 1, number) for number in range(len(KINDS))]


def test_idle_state_ends_a_turn_of_version_2() -> None:
    lines = {
        Kind.ANSWER: b'{"result":{"messageId":"asked-1"}}',
        Kind.UPDATE: b'{"update":{"sessionUpdate":"state_update","state":"idle"}}',
    }
    taken, idle = (
        Entry(seq=seq, side=Side.AGENT, kind=kind, at_us=1, line=lines[kind], protocol=2)
        for seq, kind in enumerate(lines, 1)
    )
    assert Recorded.of([taken]).answers == 0
    assert Recorded.of([taken, idle]).answers == 1


@pytest.mark.parametrize(
    ("words", "is_written"),
    [
        ("--seconds 600 --seed 1 2 3", True),
        ("--seconds 600 --seed 1 2", False),
        ("--seconds 60 --seed 1 2 3", False),
        ("--seconds 600 --seed 1 2 3 --kind strikes", False),
    ],
)
def test_only_a_complete_run_writes_the_document(words: str, *, is_written: bool) -> None:
    assert is_complete(arguments(words.split())) is is_written


def test_short_form_has_every_kind_except_the_long_ones() -> None:
    assert set(KINDS) - {kind for kind, _ in EPISODES} == {
        "checkpoints",
        "a client that does not read",
        "a client that does not read for a minute",
    }
