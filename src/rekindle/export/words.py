"""What documents say in words of their own."""

from collections.abc import Iterator

from rekindle.core.items import Gap, Plan, Turn
from rekindle.export.plain import one_line
from rekindle.model import AgentIdentity
from rekindle.wire.envelope import table, text

HANDOVER = "the agent did not remember this session, so it was told the record"


def agent(identity: AgentIdentity) -> str:
    """Name an agent, and its version."""
    name = identity.name or identity.program or "unknown"
    return one_line(f"{name} {identity.version or ''}")


def ending(turn: Turn) -> str | None:
    """Say how a turn ended, where that is worth a word."""
    if turn.error is not None:
        return one_line(f"failed: {text(turn.error.get('message')) or 'no reason given'}")
    if turn.ended_us is None:
        return "cut off, or still going on"
    reason = turn.stop_reason or "end_turn"
    return None if reason == "end_turn" else one_line(reason)


def lost(gap: Gap) -> str:
    """Say that entries are missing."""
    return f"{gap.lost} entries are missing: the store could not be written"


def steps(plan: Plan) -> Iterator[tuple[bool, str]]:
    """Yield a plan's steps, and whether each is done."""
    for step in map(table, plan.entries):
        yield step.get("status") == "completed", one_line(text(step.get("content")) or "")
