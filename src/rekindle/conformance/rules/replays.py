"""Rules for sessions that are opened again: their replay, its time, and its ids."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rekindle.conformance import digest
from rekindle.conformance.digest import DigestItem
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.trace import Exchange, TraceLine, updates
from rekindle.jsonvalue import as_object


class OpeningTrace(Struct, frozen=True):
    """A session that was opened again: the lines before the response, and shortly after it."""

    session_id: str
    exchange: Exchange
    before: tuple[TraceLine, ...]
    after: tuple[TraceLine, ...]

    @property
    def history(self) -> list[TraceLine]:
        """The updates of the conversation, before or after the response."""
        replayed = updates((*self.before, *self.after), self.session_id)
        return [it for it in replayed if it.kind in vocabulary.CONVERSATION]

    @property
    def items(self) -> list[DigestItem]:
        """The digest of the history."""
        return digest.digest_updates(self.history)


def incomplete_replay(opening: OpeningTrace, expected: Sequence[DigestItem]) -> Iterator[Fault]:
    """Find a difference between the replay and the conversation."""
    if message := digest.find_difference(expected, opening.items):
        yield Fault(f"the replay differs from the conversation: {message}", _shown_lines(opening))


def late_replay(opening: OpeningTrace) -> Iterator[Fault]:
    """Find updates of the conversation that come after the response."""
    for line in updates(opening.after, opening.session_id):
        if line.kind in vocabulary.CONVERSATION:
            message = f"{line.kind} came after the answer to {opening.exchange.request.method}"
            yield Fault(message, (*opening.exchange.lines, line))


def wrong_session_id(opening: OpeningTrace) -> Iterator[Fault]:
    """Find updates of the conversation with another session id."""
    for line in opening.before:
        if line.kind in vocabulary.CONVERSATION and line.session_id != opening.session_id:
            message = f"{line.kind} came for {line.session_id!r}, not for the opened session"
            yield Fault(message, (opening.exchange.request, line))


def user_turns(opening: OpeningTrace) -> list[DigestItem]:
    """Return the user's messages of a replay."""
    return _user_items(opening.items)


def _user_items(items: Sequence[DigestItem]) -> list[DigestItem]:
    return [it for it in items if it.role == digest.USER]


def lost_turns(opening: OpeningTrace, expected: Sequence[DigestItem]) -> Iterator[Fault]:
    """Find prompts that the replay lacks."""
    said, came = _user_items(expected), user_turns(opening)
    if message := digest.find_difference(said, came[: len(said)]):
        yield Fault(f"a part of the conversation is lost: {message}", _shown_lines(opening))


def different_turns(opening: OpeningTrace, expected: Sequence[DigestItem]) -> Iterator[Fault]:
    """Find a session whose prompts are not the expected ones."""
    if opening.exchange.is_refused:
        yield Fault(f"it cannot be replayed: {opening.exchange.describe()}", opening.exchange.lines)
    elif message := digest.find_difference(_user_items(expected), user_turns(opening)):
        yield Fault(f"the turns of the session have changed: {message}", _shown_lines(opening))


def misattributed_prompts(
    opening: OpeningTrace, expected: Sequence[DigestItem], protocol: int
) -> Iterator[Fault]:
    """Find prompts that are not replayed as messages of the user.

    In version 2 an agent need not keep them, but must not replay them as another's.
    """
    came = [it.text for it in user_turns(opening)]
    others = [it.text for it in opening.items if it.role != digest.USER]
    for said in _user_items(expected):
        if said.text not in came and (protocol == 1 or said.text in others):
            message = f"a message of the user is not replayed as the user's: {said.text!r}"
            yield Fault(message, _shown_lines(opening))
            return


def missing_message_ids(opening: OpeningTrace) -> Iterator[Fault]:
    """Find replayed messages that have no id."""
    for line in opening.history:
        is_message = "message" in line.kind or "thought" in line.kind
        if is_message and not isinstance(line.update.get("messageId"), str):
            yield Fault(f"{line.kind} is replayed without a `messageId`", (line,))


def changed_ids(one: OpeningTrace, other: OpeningTrace) -> Iterator[Fault]:
    """Find ids that differ in two replays. The second replay may be longer."""
    again = ids(other)
    for place, (line, name) in enumerate(ids(one)):
        later, same = again[place] if place < len(again) else (None, None)
        if name != same:
            became = f"become {same!r}" if later else "been lost"
            lines = (line,) if later is None else (line, later)
            yield Fault(f"the id {name!r} has {became}", lines)
            return


def ids(opening: OpeningTrace) -> list[tuple[TraceLine, object]]:
    """Return the ids of messages and tool calls, each with its first line."""
    first: dict[tuple[str, object], TraceLine] = {}
    for line in opening.history:
        name = line.update.get("toolCallId") or line.update.get("messageId")
        if name is not None:
            first.setdefault((_id_namespace(line.kind), str(name)), line)
    return [(line, name) for (_, name), line in first.items()]


def _id_namespace(kind: str) -> str:
    return "call" if kind in vocabulary.CALLS else kind.removesuffix("_chunk")


def changed_prompt_ids(opening: OpeningTrace, prompts: Sequence[TurnTrace]) -> Iterator[Fault]:
    """Find prompts of version 2 that are replayed, but not with the id of their answer."""
    replayed = [it for it in opening.history if it.kind in vocabulary.USER_MESSAGES]
    ids = {it.update.get("messageId") for it in replayed}
    texts = {it.text for it in user_turns(opening)}
    for turn in prompts:
        message_id = turn.exchange.result.get("messageId")
        said = digest.digest_updates(
            it for it in turn.updates if it.kind in vocabulary.USER_MESSAGES
        )
        is_replayed = any(it.text in texts for it in said)
        if isinstance(message_id, str) and is_replayed and message_id not in ids:
            message = f"the prompt with the id {message_id!r} is replayed with another id"
            yield Fault(message, (*turn.exchange.lines, *replayed))


def running_subagents(opening: OpeningTrace) -> Iterator[Fault]:
    """Find sub-agents whose last replayed state is not idle, although no process runs them."""
    last: dict[str, TraceLine] = {}
    for line in updates(opening.before, opening.session_id):
        if line.kind == vocabulary.SUBAGENT_UPDATE and "state" in line.update:
            last[str(line.update.get("sessionId"))] = line
    for child, line in last.items():
        state = as_object(line.update.get("state")).get("state")
        if state in ("running", "requires_action"):
            yield Fault(f"the sub-agent {child} is replayed as {state}", (line,))


def replayed_notices(opening: OpeningTrace, said: Sequence[TraceLine]) -> Iterator[Fault]:
    """Find earlier notices that are replayed within the history.

    A notice before or after the history is allowed: it may describe the present state.
    """
    lines = list(updates(opening.before, opening.session_id))
    history = [place for place, it in enumerate(lines) if it.kind in vocabulary.CONVERSATION]
    before = {_notice_key(it): it for it in said}
    for place, line in enumerate(lines):
        is_within = bool(history) and history[0] < place < history[-1]
        if line.kind == vocabulary.NOTICE and is_within and _notice_key(line) in before:
            yield Fault("a notice is replayed", (before[_notice_key(line)], line))


def _notice_key(line: TraceLine) -> tuple[object, object]:
    return str(line.update.get("title")), str(line.update.get("description"))


def unrequested_replay(opening: OpeningTrace, expected: Sequence[DigestItem]) -> Iterator[Fault]:
    """Find parts of the conversation that are replayed after a resume.

    Other text of the agent is allowed: it may describe the present state.
    """
    said = {it.text for it in expected if it.role == digest.AGENT}
    for item in opening.items:
        if item.role != digest.AGENT or any(text in item.text for text in said):
            message = f"{digest.describe_item(item)} came, but nothing was to be replayed"
            yield Fault(message, _shown_lines(opening))
            return


def missing_state(opening: OpeningTrace) -> Iterator[Fault]:
    """Check that the state comes after the history and before the response."""
    lines = [it for it in updates(opening.before, opening.session_id) if not it.is_sent]
    states = [place for place, it in enumerate(lines) if it.kind == vocabulary.STATE_UPDATE]
    history = [place for place, it in enumerate(lines) if it.kind in vocabulary.CONVERSATION]
    if not states:
        yield Fault("no state is sent before the answer", opening.exchange.lines)
    elif history and states[-1] < history[-1]:
        shown = (lines[states[-1]], lines[history[-1]], *opening.exchange.lines)
        yield Fault("the state is sent before the history ends", shown)


def _shown_lines(opening: OpeningTrace) -> tuple[TraceLine, ...]:
    request, *response = opening.exchange.lines
    return (request, *opening.history, *response)
