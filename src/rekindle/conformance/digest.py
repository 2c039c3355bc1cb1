"""What a run of updates tells, so far as it must be the same when it is told again.

That is who said what, in which order, and which tool calls there were. Thoughts, plans and the
looks of a tool call may differ: agents keep them for a while, or tell them shorter.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from rekindle.acp import methods
from rekindle.conformance.trace import Json, Line
from rekindle.jsonvalue import as_array, as_object, as_str, encode

USER = "user"
AGENT = "agent"
TOOL = "tool call"
_ROLES = dict.fromkeys(methods.USER_MESSAGE_KINDS, USER) | dict.fromkeys(
    methods.AGENT_MESSAGE_KINDS, AGENT
)
_LONGEST_SHOWN = 80


class Item(Struct):
    """One thing that was told: what a role said, or a tool call and how it stands."""

    role: str
    words: str
    id: str | None = None


def told(updates: Iterable[Line]) -> list[Item]:
    """Fold updates into what they tell. Neighbours of the same role are one."""
    items: list[Item] = []
    for line in updates:
        if line.kind in methods.TOOL_CALL_KINDS:
            _take_call(items, line.update)
        elif line.kind in _ROLES:
            _take_message(items, _ROLES[line.kind], line.update)
    return _joined(items)


def _take_call(items: list[Item], update: Json) -> None:
    call_id = as_str(update.get("toolCallId"))
    status = as_str(update.get("status")) or ""
    for item in items:
        if item.role == TOOL and item.id == call_id:
            item.words = status or item.words
            return
    items.append(Item(TOOL, status, call_id))


def _take_message(items: list[Item], role: str, update: Json) -> None:
    message_id = as_str(update.get("messageId"))
    content = update.get("content")
    is_whole = not update["sessionUpdate"].endswith("_chunk")
    words = "".join(map(_words, as_array(content))) if is_whole else _words(content)
    for item in items:
        if message_id is not None and (item.role, item.id) == (role, message_id):
            if not is_whole:
                item.words += words
            elif "content" in update:
                item.words = words
            return
    items.append(Item(role, words, message_id))


def _words(block: object) -> str:
    content = as_object(block)
    words = as_str(content.get("text"))
    return words if words is not None else encode(content).decode("utf-8", "replace")


def _joined(items: Iterable[Item]) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if item.role != TOOL and not item.words:
            continue
        if result and item.role == result[-1].role != TOOL:
            result[-1].words += item.words
        else:
            result.append(Item(item.role, item.words, item.id))
    for item in result:
        item.words = item.words.strip()
    return [it for it in result if it.role == TOOL or it.words]


def of_turn(prompt: str, updates: Iterable[Line]) -> list[Item]:
    """Return what a turn has told live. The user's words are those that were sent."""
    answer = [it for it in told(updates) if it.role != USER]
    return [Item(USER, prompt.strip()), *_joined(answer)]


def difference(expected: Sequence[Item], came: Sequence[Item]) -> str | None:
    """Say where one telling parts from another; None if it does not.

    The agent may say something more at the end: it has no other way to tell the user of what is
    the matter right now.
    """
    last = len(expected)
    for place, (one, other) in enumerate(zip(expected, came, strict=False), 1):
        may_go_on = place == last == len(came) and one.role == AGENT
        if one.role == other.role and _is_told(one.words, other.words, may_go_on=may_go_on):
            continue
        return f"at place {place}, {_parting(one, other)}"
    if len(came) < last:
        return f"{shown(expected[len(came)])} is missing, at place {len(came) + 1}"
    if more := [it for it in came[last:] if it.role != AGENT]:
        return f"{shown(more[0])} came, and was never said"
    return None


def _is_told(expected: str, came: str, *, may_go_on: bool) -> bool:
    return came == expected or (may_go_on and came.startswith(expected))


def _parting(one: Item, other: Item) -> str:
    """Show two items where they part."""
    since = 0
    if one.role == other.role:
        since = next(
            (at for at, (a, b) in enumerate(zip(one.words, other.words, strict=False)) if a != b),
            min(len(one.words), len(other.words)),
        )
        since = max(0, since - _LONGEST_SHOWN // 2)
    return f"{shown(one, since)} was expected, and {shown(other, since)} came"


def shown(item: Item, since: int = 0) -> str:
    """Name an item in words, from some place on."""
    words = item.words[since : since + _LONGEST_SHOWN]
    head = "…" if since else ""
    tail = "…" if since + _LONGEST_SHOWN < len(item.words) else ""
    words = f"{head}{words}{tail}"
    return f"the {item.role} {words!r}" if item.role == TOOL else f"the {item.role}'s {words!r}"
