"""Changes for tests of stores."""

from rekindle.model import EntryBatch, Kind, LeaseHolder, Opened, Session, Side

NOW = 1_700_000_000_000_000
HOLDERS = tuple(
    LeaseHolder(token=token, pid=pid, machine="here")
    for pid, token in enumerate(("one", "other", "third"), 1)
)
"""Processes that hold leases."""


def batch(
    *lines: bytes, session: str = "s1", kind: Kind = Kind.UPDATE, at_us: int = NOW
) -> EntryBatch:
    """Return entries of the agent."""
    return EntryBatch(
        session_id=session,
        side=Side.AGENT,
        kind=kind,
        at_us=at_us,
        data=b"\n".join(lines),
        count=len(lines),
    )


def opened(session: str, at_us: int = NOW, **fields: object) -> Opened:
    """Return the change that opens a session."""
    return Opened(session_id=session, at_us=at_us, **fields)  # type: ignore[arg-type]


def ids(sessions: list[Session]) -> list[str]:
    """Return the ids of sessions."""
    return [session.id for session in sessions]
