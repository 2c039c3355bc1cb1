"""Deadlines do not depend on the wall clock."""

import time

import pytest

from rekindle.runtime.clock import Clock

HOUR_US = 3_600_000_000


@pytest.mark.parametrize("by_us", [-HOUR_US, HOUR_US])
def test_a_set_wall_clock_does_not_move_a_deadline(
    monkeypatch: pytest.MonkeyPatch, by_us: int
) -> None:
    clock = Clock()
    before_us, real = clock.now_us(is_steady=False), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + by_us * 1000)
    assert 0 <= clock.now_us(is_steady=True) - before_us < HOUR_US / 2
    moved_us = clock.now_us(is_steady=False) - before_us
    assert abs(moved_us - by_us) < HOUR_US / 2
