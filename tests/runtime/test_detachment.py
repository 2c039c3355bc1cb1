"""The time for which a host continues without clients."""

import time
from pathlib import Path

import pytest

from rekindle.process.detach import DetachedProcess
from rekindle.runtime.detachment import MAX_DETACHED_HOSTS, Detachment

WAIT = 100.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the test set the time, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    return seconds


def detachment(count: int = 0) -> Detachment:
    process = DetachedProcess(-1, -1)
    process._status = None  # noqa: SLF001 - there is no child that waits for it  # pyright: ignore[reportPrivateUsage]
    return Detachment(process, wait=WAIT, log_path=Path("unused"), count=lambda: count)


def test_a_host_cancels_its_turns_once_after_the_wait(now: list[float]) -> None:
    waiting = detachment()
    assert not waiting.must_cancel()
    now[0] = WAIT + 1
    assert waiting.must_cancel()
    assert not waiting.must_cancel()
    assert not waiting.must_end


def test_messages_of_the_agent_gain_time_until_the_turns_are_cancelled(now: list[float]) -> None:
    waiting = detachment()
    now[0] = WAIT - 1
    waiting.note_agent()
    now[0] = WAIT + 1
    assert not waiting.must_cancel()
    now[0] = 2 * WAIT
    assert waiting.must_cancel()
    # The host ends an agent that ignores the cancellation.
    waiting.note_agent()
    now[0] += WAIT / 2
    assert waiting.must_end


def test_a_client_gains_time_also_after_the_turns_were_cancelled(now: list[float]) -> None:
    waiting = detachment()
    now[0] = WAIT + 1
    assert waiting.must_cancel()
    waiting.note_client()
    now[0] += WAIT / 2
    assert not waiting.must_end
    assert not waiting.must_cancel()


def test_the_number_of_detached_hosts_is_bounded() -> None:
    assert detachment(MAX_DETACHED_HOSTS - 1).is_allowed()
    assert not detachment(MAX_DETACHED_HOSTS).is_allowed()
