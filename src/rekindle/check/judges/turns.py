"""Judges of turns: how they begin and end, and the ids of what is said in them."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from rekindle.check.judges import names
from rekindle.check.traffic import Answer, Line, updates
from rekindle.check.verdicts import Fault
from rekindle.wire import methods

_MESSAGES = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
    | {"user_message", "agent_message", "agent_thought"}
)


class Turn(Struct, frozen=True):
    """A prompt, and all that came until the turn was over."""

    session_id: str
    answer: Answer
    lines: tuple[Line, ...]
    """From the prompt on, with its answer, and in version 2 the state that ends it."""
    end: Line | None
    """What ended it: the answer, and in version 2 the last state; None if nothing did."""

    @property
    def updates(self) -> list[Line]:
        """What was told of the session meanwhile."""
        return list(updates(self.lines, self.session_id))

    @property
    def stop_reason(self) -> object:
        """Why it ended."""
        if self.end is None:
            return None
        if self.end.kind:
            return self.end.update.get("stopReason")
        return self.answer.result.get("stopReason")


def no_reason(turn: Turn, protocol: int) -> Iterator[Fault]:
    """Judge why a turn ended."""
    shown = turn.answer.lines if turn.end is None else (turn.answer.request, turn.end)
    reason = turn.stop_reason
    if not isinstance(reason, str):
        yield Fault("the turn ends without a `stopReason`", shown)
    elif reason not in names.STOP_REASONS and (protocol == 1 or not _is_of_v2(reason)):
        yield Fault(f"version {protocol} has no `stopReason` {reason!r}", shown)


def _is_of_v2(reason: str) -> bool:
    return reason == "error" or names.is_custom(reason)


def bad_states(turn: Turn) -> Iterator[Fault]:
    """Judge the states of a turn of version 2."""
    told = [it for it in turn.updates if it.kind == methods.STATE_UPDATE]
    states = [it.update.get("state") for it in told]
    shown = (turn.answer.request, *told)
    if "running" not in states:
        yield Fault("the state running was never told", shown)
    elif states[-1] != "idle":
        yield Fault("the turn did not end with the state idle", shown)
    for line, state in zip(told, states, strict=True):
        is_known = state in names.STATES
        if not is_known and not (isinstance(state, str) and names.is_custom(state)):
            yield Fault(f"version 2 has no state {state!r}", (line,))


def bad_insertion(turn: Turn) -> Iterator[Fault]:
    """Judge whether a prompt of version 2 became a message, with the id that was answered."""
    message_id = turn.answer.result.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        yield Fault("the answer to a prompt has no `messageId`", turn.answer.lines)
        return
    told = [it for it in turn.updates if it.kind in methods.USER_MESSAGE_KINDS]
    if message_id not in [it.update.get("messageId") for it in told]:
        words = f"no user's message with the id {message_id!r} was told"
        yield Fault(words, (*turn.answer.lines, *told))


def late_updates(after: Iterable[Line], session_id: str, what: str) -> Iterator[Fault]:
    """Find what is told of a conversation when nothing of it should come any more."""
    for line in updates(after, session_id):
        if line.kind in names.CONVERSATION and not line.is_sent:
            yield Fault(f"{line.kind} came after {what}", (line,))


def shared_message_ids(turns: Sequence[Turn], protocol: int) -> Iterator[Fault]:
    """Find ids that two messages have: of two kinds, or in two turns."""
    first: dict[tuple[str, object], tuple[str, int, Line]] = {}
    for number, turn in enumerate(turns):
        for line in turn.updates:
            if line.kind not in _MESSAGES:
                continue
            message_id = line.update.get("messageId")
            if message_id is None:
                if protocol > 1:
                    yield Fault(f"{line.kind} has no `messageId`", (line,))
                continue
            mine = (line.kind.removesuffix("_chunk"), number)
            *other, seen = first.setdefault((turn.session_id, message_id), (*mine, line))
            if tuple(other) != mine:
                yield Fault(f"two messages have the id {message_id!r}", (seen, line))


def not_cancelled(turn: Turn, cancelled_at: float, too_soon: float) -> Iterator[Fault] | None:
    """Judge a turn that was cancelled at that time; None if it may have been over by itself."""
    end = turn.end
    is_other = end is not None and turn.answer.is_result and turn.stop_reason != "cancelled"
    if is_other and end is not None and end.at - cancelled_at < too_soon:
        return None
    return _not_cancelled(turn)


def _not_cancelled(turn: Turn) -> Iterator[Fault]:
    if turn.answer.is_refused:
        words = f"a cancelled prompt is no error: {turn.answer.in_words()}"
        yield Fault(words, turn.answer.lines)
    elif turn.end is None:
        yield Fault("the turn went on after it was cancelled", turn.answer.lines)
    elif turn.stop_reason != "cancelled":
        words = f"the cancelled turn ended with {turn.stop_reason!r}"
        yield Fault(words, (turn.answer.request, turn.end))
