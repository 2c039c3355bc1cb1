"""Rekindle's own texts about a conversation, shared by all documents and the terminal."""

from collections.abc import Iterator

from msgspec import Struct

from rekindle.jsonvalue import as_object, as_str
from rekindle.model import AgentIdentity
from rekindle.text.sanitize import clean
from rekindle.text.times import in_utc
from rekindle.transcript.model import PlanItem, TranscriptTurn
from rekindle.transcript.subagents import SubagentItem

REMINDER = "Rekindle reminded the agent of the interrupted turn"
CARRIED = "Rekindle sent the agent a part of the history with this prompt"


def agent_label(identity: AgentIdentity) -> str:
    """Return the name and version of an agent."""
    name = identity.name or identity.program or "unknown"
    return one_line(f"{name} {identity.version or ''}")


class Ending(Struct, frozen=True):
    """The text for the end of a turn."""

    text: str
    is_problem: bool = True


class ChecklistStep(Struct, frozen=True):
    """An entry of a plan."""

    text: str
    status: str

    @property
    def is_done(self) -> bool:
        """Whether it is completed."""
        return self.status == "completed"


def ending(turn: TranscriptTurn) -> Ending | None:
    """Return the text for the end of a turn; None if it ended normally."""
    if turn.error is not None:
        return failure(as_str(turn.error.get("message")))
    if turn.ended_us is None:
        return Ending("interrupted, or still running")
    return stopped(turn.stop_reason)


def failure(reason: str | None) -> Ending:
    """Return the text for a turn that failed."""
    return Ending(one_line(f"failed: {reason or 'no reason given'}"))


def stopped(reason: str | None) -> Ending | None:
    """Return the text for a stop reason; None if it is the normal one."""
    is_usual = reason in {None, "end_turn"}
    return None if is_usual else Ending(one_line(reason or ""), is_problem=False)


def subagent_label(item: SubagentItem) -> str:
    """Return the title of a sub-agent, its purpose, and how its work ended."""
    about = f": {item.description}" if item.description else ""
    return one_line(f"Sub-agent {item.title}{about}{_subagent_end(item)}")


def _subagent_end(item: SubagentItem) -> str:
    if item.is_idle:
        end = stopped(as_str(item.state.get("stopReason")))
        return f" ({end.text})" if end else ""
    return " (interrupted, or still running)" if item.state else ""


def plan_steps(plan: PlanItem) -> Iterator[ChecklistStep]:
    """Yield the entries of a plan."""
    for entry in map(as_object, plan.entries):
        text = one_line(as_str(entry.get("content")) or "")
        yield ChecklistStep(text, as_str(entry.get("status")) or "pending")


def one_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return clean(" ".join(text.split()))


def utc_label(at_us: int) -> str:
    """Return a time in UTC, for readers in any time zone."""
    return in_utc(at_us).strftime("%Y-%m-%d %H:%M UTC")
