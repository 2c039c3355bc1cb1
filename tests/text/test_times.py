"""Times are written and parsed."""

import pytest
from hypothesis import given, strategies as st

from rekindle.text.times import WEEK_US, age, in_us, iso, local_time, read_iso, week_of


@given(st.integers(-60_000_000_000_000, 4_000_000_000_000))
def test_written_times_can_be_parsed(at_ms: int) -> None:
    parsed = read_iso(iso(at_ms * 1000))
    assert parsed is not None
    assert in_us(parsed) == at_ms * 1000


def test_a_time_outside_the_calendar_is_limited() -> None:
    assert iso(253_402_300_799_999_999) == iso(2**63 - 1) == "9999-12-31T23:59:59.999+00:00"
    assert iso(-(2**63)) == "0001-01-01T00:00:00.000+00:00"


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert read_iso("2026-01-01T00:00:00") == read_iso("2026-01-01T01:00:00+01:00")


def test_an_invalid_time_is_none() -> None:
    assert read_iso("soon") is read_iso(None) is None


def test_times_before_1970_are_negative() -> None:
    parsed = read_iso("0001-01-01T00:00:00+14:00")
    assert parsed is not None
    assert in_us(parsed) < 0


def test_a_week_starts_on_monday_in_utc() -> None:
    monday_us = 1_735_516_800_000_000  # 2024-12-30T00:00:00Z
    assert week_of(monday_us) == monday_us
    assert week_of(monday_us - 1) == monday_us - WEEK_US
    assert week_of(monday_us + WEEK_US - 1) == monday_us


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (86400 * 800, "2 y"), (-5, "0 s")],
)
def test_an_age_has_one_unit(seconds: int, text: str) -> None:
    assert age(0, seconds * 1_000_000) == text


def test_a_local_time_may_be_beyond_the_calendar() -> None:
    assert len(local_time(0)) == len("1970-01-01 00:00")
    assert local_time(1 << 62).startswith("9999-12-31")
