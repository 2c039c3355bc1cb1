"""Judges of turns: how they begin and end, and the ids of what is said in them."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import names
from rekindle.conformance.trace import Answer, Line, updates
from rekindle.jsonvalue import as_object, as_str

# A plain prompt of text is refused with one of these if something is wrong with the agent; other
# errors may tell of what it lacks: a key, a network.
_FAULTY = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND}
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

    @property
    def obstacle(self) -> str:
        """Why it was none, if the agent may just lack what it needs for one."""
        if self.answer.is_refused and self.answer.code not in _FAULTY:
            return self.answer.in_words()
        if self.end is not None and self.end.kind and self.stop_reason == "error":
            error = as_object(self.end.update.get("error"))
            return f"it ended with an error: {as_str(error.get('message')) or 'no more is said'}"
        return ""

    @property
    def has_ids(self) -> bool:
        """Whether any message in it has an id."""
        return any("messageId" in it.update for it in self.updates if it.kind in names.MESSAGES)

    def in_words(self) -> str:
        """Say what became of it."""
        if self.obstacle or self.answer.is_refused:
            return self.obstacle or self.answer.in_words()
        return "it did not end in time" if self.end is None else f"it ended: {self.stop_reason}"

    @property
    def is_had(self) -> bool:
        """Whether it came to an end that is none of its own."""
        return self.answer.is_result and self.end is not None and not self.obstacle


def no_reason(turn: Turn, protocol: int) -> Iterator[Fault]:
    """Judge why a turn ended. Version 2 need not say it."""
    reason = turn.stop_reason
    if not isinstance(reason, str):
        if protocol == 1:
            yield Fault("the turn ends without a `stopReason`", _ends(turn))
    elif reason not in names.STOP_REASONS and (protocol == 1 or not _is_of_v2(reason)):
        yield Fault(f"version {protocol} has no `stopReason` {reason!r}", _ends(turn))


def unexplained(turn: Turn) -> Iterator[Fault]:
    """Judge whether a turn of version 2 says why it ended."""
    if not isinstance(turn.stop_reason, str):
        yield Fault("the state idle ends a turn without a `stopReason`", _ends(turn))


def _ends(turn: Turn) -> tuple[Line, ...]:
    return turn.answer.lines if turn.end is None else (turn.answer.request, turn.end)


def _is_of_v2(reason: str) -> bool:
    return reason == "error" or names.is_custom(reason)


def bad_states(turn: Turn) -> Iterator[Fault]:
    """Judge the states of a turn of version 2."""
    told = [it for it in turn.updates if it.kind == methods.STATE_UPDATE]
    states = [it.update.get("state") for it in told]
    shown = (turn.answer.request, *told)
    if not {"running", "requires_action"} & {it for it in states if isinstance(it, str)}:
        yield Fault("neither the state running was told nor requires_action", shown)
    elif states[-1] != "idle":
        yield Fault("the turn did not end with the state idle", shown)
    for line, state in zip(told, states, strict=True):
        if not isinstance(state, str) or not (state in names.STATES or names.is_custom(state)):
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


def late_messages(after: Iterable[Line], turn: Turn, protocol: int) -> Iterator[Fault]:
    """Find what is told of a turn after its end.

    In version 2 work in the background may go on, so that only its own messages are of the turn.
    """
    if protocol == 1:
        yield from late_updates(after, turn.session_id, "the turn's end")
        return
    own = {_message(it) for it in turn.updates if it.kind in names.AGENT_MESSAGES}
    for line in updates(after, turn.session_id):
        if line.kind in names.AGENT_MESSAGES and _message(line) in own:
            yield Fault(f"{line.kind} came after the turn's end", (*_ends(turn), line))


def _message(line: Line) -> tuple[str, str]:
    return line.kind.removesuffix("_chunk"), str(line.update.get("messageId"))


def shared_message_ids(turns: Sequence[Turn], protocol: int) -> Iterator[Fault]:
    """Find ids that two messages have."""
    yield from _shared_in_v1(turns) if protocol == 1 else _shared_in_v2(turns)


def _shared_in_v1(turns: Sequence[Turn]) -> Iterator[Fault]:
    """Find an id of two turns, or of a user's and an agent's message; a thought may share it."""
    first: dict[tuple[str, str], tuple[bool, int, Line]] = {}
    for number, turn in enumerate(turns):
        for line in turn.updates:
            message_id = line.update.get("messageId")
            if line.kind not in names.MESSAGES or message_id is None:
                continue
            mine = (line.kind in names.USER_MESSAGES, number)
            key = (turn.session_id, str(message_id))
            *other, seen = first.setdefault(key, (*mine, line))
            if tuple(other) != mine:
                yield Fault(f"two messages have the id {message_id!r}", (seen, line))


def _shared_in_v2(turns: Sequence[Turn]) -> Iterator[Fault]:
    """Find messages without id, and two prompts that became the same message.

    Messages of other kinds may share an id, and a later turn may change an earlier message.
    """
    first: dict[tuple[str, str], Turn] = {}
    for turn in turns:
        for line in turn.updates:
            if line.kind in names.MESSAGES and not isinstance(line.update.get("messageId"), str):
                yield Fault(f"{line.kind} has no `messageId`", (line,))
        message_id = turn.answer.result.get("messageId")
        if isinstance(message_id, str):
            earlier = first.setdefault((turn.session_id, message_id), turn)
            if earlier is not turn:
                lines = (*earlier.answer.lines, *turn.answer.lines)
                yield Fault(f"two prompts have the id {message_id!r}", lines)


def is_uninserted(turn: Turn, protocol: int) -> bool:
    """Tell whether a prompt of version 2 was withdrawn before it became a message."""
    told = any(it.kind in names.USER_MESSAGES for it in turn.updates)
    return protocol > 1 and turn.answer.code == REQUEST_CANCELLED and not told


def not_cancelled(turn: Turn) -> Iterator[Fault]:
    """Judge the end of a turn that was cancelled while it lasted."""
    if turn.answer.is_refused:
        words = f"a cancelled prompt is no error: {turn.answer.in_words()}"
        yield Fault(words, turn.answer.lines)
    elif turn.end is None:
        yield Fault("the turn went on after it was cancelled", turn.answer.lines)
    elif turn.stop_reason != "cancelled":
        reason = turn.stop_reason
        how = "without a `stopReason`" if reason is None else f"with {reason!r}"
        yield Fault(f"the cancelled turn ended {how}", (turn.answer.request, turn.end))
