import pytest

from rekindle.process import deadline
from rekindle.process.deadline import Deadline


def test_deadline_counts_down_to_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now)
    three_seconds = Deadline(3)
    assert (three_seconds.remaining, three_seconds.has_passed) == (3.0, False)
    now = 102.0
    assert (three_seconds.remaining, three_seconds.has_passed) == (1.0, False)
    now = 104.0
    assert (three_seconds.remaining, three_seconds.has_passed) == (0.0, True)
