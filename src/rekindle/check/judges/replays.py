"""Judges of sessions that are opened again: what is told, when, and under which id."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rekindle.check import telling
from rekindle.check.judges import names
from rekindle.check.telling import Item
from rekindle.check.traffic import Answer, Line, updates
from rekindle.check.verdicts import Fault
from rekindle.wire import methods


class Opening(Struct, frozen=True):
    """A session that was opened again: what came before the answer, and for a while after it."""

    session_id: str
    answer: Answer
    before: tuple[Line, ...]
    after: tuple[Line, ...]

    @property
    def history(self) -> list[Line]:
        """What was told of the conversation, on time or late."""
        told = updates((*self.before, *self.after), self.session_id)
        return [it for it in told if it.kind in names.CONVERSATION]

    @property
    def items(self) -> list[Item]:
        """What that says."""
        return telling.told(self.history)


def not_whole(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Judge whether the conversation is told as it was."""
    if words := telling.difference(expected, opening.items):
        yield Fault(f"the replay is not what was said: {words}", _shown(opening))


def answered_too_soon(opening: Opening) -> Iterator[Fault]:
    """Find what is told of the conversation after the answer."""
    for line in updates(opening.after, opening.session_id):
        if line.kind in names.CONVERSATION:
            words = f"{line.kind} came after the answer to {opening.answer.request.method}"
            yield Fault(words, (*opening.answer.lines, line))


def under_another_id(opening: Opening) -> Iterator[Fault]:
    """Find what is told of the conversation under an id that was not asked for."""
    for line in opening.before:
        if line.kind in names.CONVERSATION and line.session_id != opening.session_id:
            words = f"{line.kind} came for {line.session_id!r}, and not for what was opened"
            yield Fault(words, (opening.answer.request, line))


def other_turns(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Judge whether a session has the turns that it should have, and no others."""
    said, came = (
        [it for it in items if it.role == telling.USER] for items in (expected, opening.items)
    )
    if words := telling.difference(said, came):
        yield Fault(f"the session has other turns than it had: {words}", _shown(opening))


def no_user_turns(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Judge whether the user's words are told as the user's."""
    said = [it.words for it in expected if it.role == telling.USER]
    came = [it.words for it in opening.items if it.role == telling.USER]
    if missing := [it for it in said if it not in came]:
        yield Fault(f"the user's words are not told as the user's: {missing[0]!r}", _shown(opening))


def without_ids(opening: Opening) -> Iterator[Fault]:
    """Find replayed messages that have no id."""
    for line in opening.history:
        is_message = "message" in line.kind or "thought" in line.kind
        if is_message and not isinstance(line.update.get("messageId"), str):
            yield Fault(f"{line.kind} is replayed without a `messageId`", (line,))


def other_ids(one: Opening, other: Opening) -> Iterator[Fault]:
    """Find ids that are not the same in two replays; the second may go on longer."""
    first, second = _ids(one), _ids(other)
    for (line, name), (later, again) in zip(first, second, strict=False):
        if name != again:
            yield Fault(f"the id {name!r} has become {again!r}", (line, later))
            return


def _ids(opening: Opening) -> list[tuple[Line, object]]:
    named = [
        (it, it.update.get("toolCallId") or it.update.get("messageId")) for it in opening.history
    ]
    return [it for it in named if it[1] is not None]


def replayed_notices(opening: Opening) -> Iterator[Fault]:
    """Find notices in a replay."""
    for line in updates(opening.before, opening.session_id):
        if line.kind == methods.NOTICE:
            yield Fault("a notice is told again", (line,))


def told_unasked(opening: Opening) -> Iterator[Fault]:
    """Find what is told of a conversation though nobody asked for that."""
    for line in (*opening.before, *opening.after):
        if line.kind in names.CONVERSATION:
            words = f"{line.kind} came, and nothing was to be told"
            yield Fault(words, (opening.answer.request, line))


def no_state(opening: Opening) -> Iterator[Fault]:
    """Judge whether the state is told after the history, and before the answer."""
    told = [it for it in updates(opening.before, opening.session_id) if not it.is_sent]
    states = [place for place, it in enumerate(told) if it.kind == methods.STATE_UPDATE]
    history = [place for place, it in enumerate(told) if it.kind in names.CONVERSATION]
    if not states:
        yield Fault("no state is told before the answer", opening.answer.lines)
    elif history and states[-1] < history[-1]:
        shown = (told[states[-1]], told[history[-1]], *opening.answer.lines)
        yield Fault("the state is told before the history ends", shown)


def _shown(opening: Opening) -> tuple[Line, ...]:
    request, *answer = opening.answer.lines
    return (request, *opening.history, *answer)
