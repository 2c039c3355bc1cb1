"""Rules for turns: their start and end, and the ids of their messages."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from rekindle.acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.trace import Exchange, TraceLine, updates
from rekindle.jsonvalue import as_object, as_str

# An agent that refuses a plain text prompt with one of these codes has a fault. Other codes may
# mean that it lacks something: a key, a network.
_FAULT_CODES = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND}
)


class TurnTrace(Struct, frozen=True):
    """A prompt, and all lines until the end of its turn."""

    session_id: str
    exchange: Exchange
    lines: tuple[TraceLine, ...]
    """The lines from the prompt to the response, or in version 2 to the state that ends it."""
    end: TraceLine | None
    """The line that ended it: the response, or in version 2 a state. None if it did not end."""

    @property
    def updates(self) -> list[TraceLine]:
        """The updates of the session during the turn."""
        return list(updates(self.lines, self.session_id))

    @property
    def stop_reason(self) -> object:
        """The stop reason, as the agent sent it."""
        if self.end is None:
            return None
        if self.end.kind:
            return self.end.update.get("stopReason")
        return self.exchange.result.get("stopReason")

    @property
    def obstacle(self) -> str:
        """Why the turn failed, if the agent may only lack something; otherwise empty."""
        if self.exchange.is_refused and self.exchange.code not in _FAULT_CODES:
            return self.exchange.describe()
        if self.end is not None and self.end.kind and self.stop_reason == "error":
            error = as_object(self.end.update.get("error"))
            return f"it ended with an error: {as_str(error.get('message')) or 'no reason given'}"
        return ""

    @property
    def has_ids(self) -> bool:
        """Whether any of its messages has an id."""
        return any(
            "messageId" in it.update for it in self.updates if it.kind in vocabulary.MESSAGES
        )

    def describe(self) -> str:
        """Describe the end of the turn for people."""
        if self.obstacle or self.exchange.is_refused:
            return self.obstacle or self.exchange.describe()
        return "it did not end in time" if self.end is None else f"it ended: {self.stop_reason}"

    @property
    def is_complete(self) -> bool:
        """Whether the agent accepted the prompt and ended the turn without an error."""
        return self.exchange.is_result and self.end is not None and not self.obstacle


def bad_stop_reason(turn: TurnTrace, protocol: int) -> Iterator[Fault]:
    """Check the stop reason of a turn. In version 2 it may be missing."""
    reason = turn.stop_reason
    if not isinstance(reason, str):
        if protocol == 1:
            yield Fault("the turn ends without a `stopReason`", _end_lines(turn))
    elif reason not in vocabulary.STOP_REASONS and (protocol == 1 or not _is_v2_reason(reason)):
        yield Fault(f"version {protocol} has no `stopReason` {reason!r}", _end_lines(turn))


def missing_stop_reason(turn: TurnTrace) -> Iterator[Fault]:
    """Check that a turn of version 2 has a stop reason."""
    if not isinstance(turn.stop_reason, str):
        yield Fault("the state idle ends a turn without a `stopReason`", _end_lines(turn))


def _end_lines(turn: TurnTrace) -> tuple[TraceLine, ...]:
    return turn.exchange.lines if turn.end is None else (turn.exchange.request, turn.end)


def _is_v2_reason(reason: str) -> bool:
    return reason == "error" or vocabulary.is_custom(reason)


def bad_states(turn: TurnTrace) -> Iterator[Fault]:
    """Check the states of a turn of version 2."""
    lines = [it for it in turn.updates if it.kind == vocabulary.STATE_UPDATE]
    states = [it.update.get("state") for it in lines]
    shown = (turn.exchange.request, *lines)
    if not {"running", "requires_action"} & {it for it in states if isinstance(it, str)}:
        yield Fault("neither the state running nor requires_action was sent", shown)
    elif states[-1] != "idle":
        yield Fault("the turn did not end with the state idle", shown)
    for line, state in zip(lines, states, strict=True):
        if not isinstance(state, str) or not (
            state in vocabulary.STATES or vocabulary.is_custom(state)
        ):
            yield Fault(f"version 2 has no state {state!r}", (line,))


def bad_message_id(turn: TurnTrace) -> Iterator[Fault]:
    """Check that a prompt of version 2 became a message with the id in the response."""
    message_id = turn.exchange.result.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        yield Fault("the answer to a prompt has no `messageId`", turn.exchange.lines)
        return
    messages = [it for it in turn.updates if it.kind in vocabulary.USER_MESSAGES]
    if message_id not in [it.update.get("messageId") for it in messages]:
        message = f"no user message with the id {message_id!r} was sent"
        yield Fault(message, (*turn.exchange.lines, *messages))


def late_updates(after: Iterable[TraceLine], session_id: str, what: str) -> Iterator[Fault]:
    """Find updates of a conversation after its end."""
    for line in updates(after, session_id):
        if line.kind in vocabulary.CONVERSATION and not line.is_sent:
            yield Fault(f"{line.kind} came after {what}", (line,))


def any_late_updates(after: Iterable[TraceLine], turn: TurnTrace) -> Iterator[Fault]:
    """Find updates of any kind after the end of a turn."""
    for line in updates(after, turn.session_id):
        if not line.is_sent:
            message = f"{line.kind} came after the answer to the cancelled prompt"
            yield Fault(message, (*_end_lines(turn), line))


def late_messages(after: Iterable[TraceLine], turn: TurnTrace, protocol: int) -> Iterator[Fault]:
    """Find updates of a turn after its end.

    In version 2 background work may go on. So only messages that the turn had started count.
    """
    if protocol == 1:
        yield from late_updates(after, turn.session_id, "the turn's end")
        return
    own = {_message_key(it) for it in turn.updates if it.kind in vocabulary.AGENT_MESSAGES}
    for line in updates(after, turn.session_id):
        if line.kind in vocabulary.AGENT_MESSAGES and _message_key(line) in own:
            yield Fault(f"{line.kind} came after the turn's end", (*_end_lines(turn), line))


def _message_key(line: TraceLine) -> tuple[str, str]:
    return line.kind.removesuffix("_chunk"), str(line.update.get("messageId"))


def shared_message_ids(turns: Sequence[TurnTrace], protocol: int) -> Iterator[Fault]:
    """Find messages that share an id."""
    yield from _shared_ids_v1(turns) if protocol == 1 else _shared_ids_v2(turns)


def _shared_ids_v1(turns: Sequence[TurnTrace]) -> Iterator[Fault]:
    """Find an id in two turns, or in a message of the user and one of the agent.

    A thought may have the id of a message.
    """
    first: dict[tuple[str, str], tuple[bool, int, TraceLine]] = {}
    for number, turn in enumerate(turns):
        for line in turn.updates:
            message_id = line.update.get("messageId")
            if line.kind not in vocabulary.MESSAGES or message_id is None:
                continue
            mine = (line.kind in vocabulary.USER_MESSAGES, number)
            key = (turn.session_id, str(message_id))
            *other, seen = first.setdefault(key, (*mine, line))
            if tuple(other) != mine:
                yield Fault(f"two messages have the id {message_id!r}", (seen, line))


def _shared_ids_v2(turns: Sequence[TurnTrace]) -> Iterator[Fault]:
    """Find messages without an id, and two prompts with the same id.

    Other messages may share an id, and a later turn may change an earlier message.
    """
    first: dict[tuple[str, str], TurnTrace] = {}
    for turn in turns:
        for line in turn.updates:
            if line.kind in vocabulary.MESSAGES and not isinstance(
                line.update.get("messageId"), str
            ):
                yield Fault(f"{line.kind} has no `messageId`", (line,))
        message_id = turn.exchange.result.get("messageId")
        if isinstance(message_id, str):
            earlier = first.setdefault((turn.session_id, message_id), turn)
            if earlier is not turn:
                lines = (*earlier.exchange.lines, *turn.exchange.lines)
                yield Fault(f"two prompts have the id {message_id!r}", lines)


def was_withdrawn(turn: TurnTrace, protocol: int) -> bool:
    """Return whether a prompt of version 2 was withdrawn before it became a message."""
    is_message = any(it.kind in vocabulary.USER_MESSAGES for it in turn.updates)
    return protocol > 1 and turn.exchange.code == REQUEST_CANCELLED and not is_message


def not_cancelled(turn: TurnTrace) -> Iterator[Fault]:
    """Check the end of a turn that was cancelled while it ran."""
    if turn.exchange.is_refused:
        message = f"a cancelled prompt must not end with an error: {turn.exchange.describe()}"
        yield Fault(message, turn.exchange.lines)
    elif turn.end is None:
        yield Fault("the turn continued after it was cancelled", turn.exchange.lines)
    elif turn.stop_reason != "cancelled":
        reason = turn.stop_reason
        how = "without a `stopReason`" if reason is None else f"with {reason!r}"
        yield Fault(f"the cancelled turn ended {how}", (turn.exchange.request, turn.end))
