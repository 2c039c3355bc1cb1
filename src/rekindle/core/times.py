"""Times as they are written for others: RFC 3339, with a zone. Ours are microseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)


def iso(at_us: int) -> str:
    """Write a time, in UTC."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="milliseconds")


def read_iso(written: str | None) -> datetime | None:
    """Read a time that an agent gives; without a zone it is taken as UTC."""
    try:
        told = datetime.fromisoformat(written or "")
    except ValueError:
        return None
    return told if told.tzinfo else told.replace(tzinfo=UTC)


def in_us(told: datetime) -> int:
    """Return a time in our own measure."""
    return (told - _EPOCH) // timedelta(microseconds=1)
