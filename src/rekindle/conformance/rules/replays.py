"""Judges of sessions that are opened again: what is told, when, and under which id."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rekindle.acp import methods
from rekindle.conformance import digest
from rekindle.conformance.digest import Item
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import names
from rekindle.conformance.trace import Answer, Line, updates


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
        return digest.told(self.history)


def not_whole(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Judge whether the conversation is told as it was."""
    if words := digest.difference(expected, opening.items):
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


def user_turns(opening: Opening) -> list[Item]:
    """Return what the user has said, as it was told."""
    return _of_user(opening.items)


def _of_user(items: Sequence[Item]) -> list[Item]:
    return [it for it in items if it.role == digest.USER]


def lost_turns(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Find prompts that a session should have, and has not."""
    said, came = _of_user(expected), user_turns(opening)
    if words := digest.difference(said, came[: len(said)]):
        yield Fault(f"what was said is lost: {words}", _shown(opening))


def other_turns(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Judge whether a session has the turns that it should have, and no others."""
    if opening.answer.is_refused:
        yield Fault(f"it cannot be told again: {opening.answer.in_words()}", opening.answer.lines)
    elif words := digest.difference(_of_user(expected), user_turns(opening)):
        yield Fault(f"the session has other turns than it had: {words}", _shown(opening))


def no_user_turns(opening: Opening, expected: Sequence[Item], protocol: int) -> Iterator[Fault]:
    """Judge whether the user's words are told as the user's.

    Version 2 need not keep them; what it tells as another's is wrong all the same.
    """
    came = [it.words for it in user_turns(opening)]
    others = [it.words for it in opening.items if it.role != digest.USER]
    for said in _of_user(expected):
        if said.words not in came and (protocol == 1 or said.words in others):
            words = f"the user's words are not told as the user's: {said.words!r}"
            yield Fault(words, _shown(opening))
            return


def without_ids(opening: Opening) -> Iterator[Fault]:
    """Find replayed messages that have no id."""
    for line in opening.history:
        is_message = "message" in line.kind or "thought" in line.kind
        if is_message and not isinstance(line.update.get("messageId"), str):
            yield Fault(f"{line.kind} is replayed without a `messageId`", (line,))


def other_ids(one: Opening, other: Opening) -> Iterator[Fault]:
    """Find ids that are not the same in two replays; the second may go on longer."""
    again = ids(other)
    for place, (line, name) in enumerate(ids(one)):
        later, same = again[place] if place < len(again) else (None, None)
        if name != same:
            became = f"become {same!r}" if later else "been lost"
            lines = (line,) if later is None else (line, later)
            yield Fault(f"the id {name!r} has {became}", lines)
            return


def ids(opening: Opening) -> list[tuple[Line, object]]:
    """Return the ids of messages and tool calls, each where it is seen first."""
    first: dict[tuple[str, object], Line] = {}
    for line in opening.history:
        name = line.update.get("toolCallId") or line.update.get("messageId")
        if name is not None:
            first.setdefault((_sort(line.kind), str(name)), line)
    return [(line, name) for (_, name), line in first.items()]


def _sort(kind: str) -> str:
    return "call" if kind in names.CALLS else kind.removesuffix("_chunk")


def replayed_notices(opening: Opening, said: Sequence[Line]) -> Iterator[Fault]:
    """Find notices that were told before, and stand in the midst of the history.

    A notice that comes first or last may be told anew: of what is still the case.
    """
    told = list(updates(opening.before, opening.session_id))
    history = [place for place, it in enumerate(told) if it.kind in names.CONVERSATION]
    before = {_notice(it): it for it in said}
    for place, line in enumerate(told):
        is_within = bool(history) and history[0] < place < history[-1]
        if line.kind == methods.NOTICE and is_within and _notice(line) in before:
            yield Fault("a notice is told again", (before[_notice(line)], line))


def _notice(line: Line) -> tuple[object, object]:
    return str(line.update.get("title")), str(line.update.get("description"))


def told_unasked(opening: Opening, expected: Sequence[Item]) -> Iterator[Fault]:
    """Find what is told of a conversation though nobody asked for that.

    What was never said in it is no part of it: an agent may have something to say right now.
    """
    said = {it.words for it in expected if it.role == digest.AGENT}
    for item in opening.items:
        if item.role != digest.AGENT or any(words in item.words for words in said):
            words = f"{digest.shown(item)} came, and nothing was to be told"
            yield Fault(words, _shown(opening))
            return


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
