"""Convert times between microseconds since 1970, which Rekindle uses, and RFC 3339."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)
_FIRST = datetime.min.replace(tzinfo=UTC) - _EPOCH
_LAST = datetime.max.replace(tzinfo=UTC) - _EPOCH
_US = timedelta(microseconds=1)


def iso(at_us: int) -> str:
    """Return a time as text, in UTC."""
    return in_utc(at_us).isoformat(timespec="milliseconds")


def in_utc(at_us: int) -> datetime:
    """Return a time; one outside the calendar becomes its first or last moment."""
    return _EPOCH + min(max(at_us, _FIRST // _US), _LAST // _US) * _US


def read_iso(written: str | None) -> datetime | None:
    """Parse a time; None if it is invalid. A time without a zone is in UTC."""
    try:
        parsed = datetime.fromisoformat(written or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def in_us(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (at - _EPOCH) // _US


WEEK_US = 7 * 24 * 3600 * 1_000_000

SHIFT_US = 3 * 24 * 3600 * 1_000_000
"""The time from the last Monday before the epoch to the epoch, which was a Thursday."""


def week_of(at_us: int) -> int:
    """Return the beginning of the week of a time."""
    return (at_us + SHIFT_US) // WEEK_US * WEEK_US - SHIFT_US


_AGE_UNITS = ((60, "s"), (60, "min"), (24, "h"), (7, "d"), (52, "w"))


def age(at_us: int, now_us: int) -> str:
    """Return how long ago a time was, in the largest fitting unit: "5 min", "3 d"."""
    amount = max(0.0, (now_us - at_us) / 1e6)
    for limit, unit in _AGE_UNITS:
        if amount < limit:
            return f"{int(amount)} {unit}"
        amount /= limit
    return f"{int(amount)} y"


def local_time(at_us: int) -> str:
    """Return a time in the local time zone: "2025-12-31 23:59"."""
    local = in_utc(at_us)
    # Near the ends of the calendar, the local time may be beyond it.
    with suppress(OverflowError, ValueError, OSError):
        local = local.astimezone()
    return local.strftime("%Y-%m-%d %H:%M")
