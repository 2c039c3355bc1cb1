"""What is said of a conversation in words of ours, wherever it is shown."""

from collections.abc import Iterator

from msgspec import Struct

from rekindle.jsonvalue import as_object, as_str
from rekindle.model import AgentIdentity
from rekindle.text.sanitize import clean
from rekindle.text.times import in_utc
from rekindle.transcript.model import PlanItem, TranscriptTurn

HANDOVER = "the agent did not remember this session, so it was told the record"
REMINDER = "the agent was told again of what was cut off"


def agent(identity: AgentIdentity) -> str:
    """Name an agent, and its version."""
    name = identity.name or identity.program or "unknown"
    return one_line(f"{name} {identity.version or ''}")


class Ending(Struct, frozen=True):
    """How a turn ended, in words."""

    words: str
    is_problem: bool = True


class Step(Struct, frozen=True):
    """A step of a plan."""

    words: str
    status: str

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.status == "completed"


def ending(turn: TranscriptTurn) -> Ending | None:
    """Say how a turn ended, where that is worth a word."""
    if turn.error is not None:
        return failure(as_str(turn.error.get("message")))
    if turn.ended_us is None:
        return Ending("cut off, or still going on")
    return stopped(turn.stop_reason)


def failure(reason: str | None) -> Ending:
    """Say that a turn failed."""
    return Ending(one_line(f"failed: {reason or 'no reason given'}"))


def stopped(reason: str | None) -> Ending | None:
    """Say why a turn stopped, unless it did as it should."""
    is_usual = reason in {None, "end_turn"}
    return None if is_usual else Ending(one_line(reason or ""), is_problem=False)


def steps(plan: PlanItem) -> Iterator[Step]:
    """Yield a plan's steps."""
    for step in map(as_object, plan.entries):
        words = one_line(as_str(step.get("content")) or "")
        yield Step(words, as_str(step.get("status")) or "pending")


def one_line(text: str) -> str:
    """Return a text on one line."""
    return clean(" ".join(text.split()))


def stamp(at_us: int) -> str:
    """Write a time for people, wherever they are."""
    return in_utc(at_us).strftime("%Y-%m-%d %H:%M UTC")
