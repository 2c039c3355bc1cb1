"""A digest of a conversation: the parts that must be the same in a replay.

These are the messages of user and agent, in order, and the tool calls. Thoughts, plans and the
details of a tool call may differ: agents keep them for a while, or shorten them.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from rekindle.conformance.rules.vocabulary import TOOL_CALLS
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import Json, as_array, as_object, as_str, encode

USER = "user"
AGENT = "agent"
TOOL = "tool call"
_ROLES = {
    "user_message": USER,
    "user_message_chunk": USER,
    "agent_message": AGENT,
    "agent_message_chunk": AGENT,
}
_MAX_SHOWN = 80


class DigestItem(Struct):
    """The text of one or more messages of a role, or the status of a tool call."""

    role: str
    text: str
    id: str | None = None


def digest_updates(updates: Iterable[TraceLine]) -> list[DigestItem]:
    """Return the digest of updates. Neighbouring messages of the same role become one item."""
    items: list[DigestItem] = []
    for line in updates:
        if line.kind in TOOL_CALLS:
            _add_tool_call(items, line.update)
        elif line.kind in _ROLES:
            _add_message(items, _ROLES[line.kind], line.update)
    return _join(items)


def _add_tool_call(items: list[DigestItem], update: Json) -> None:
    call_id = as_str(update.get("toolCallId"))
    status = as_str(update.get("status")) or ""
    for item in items:
        if item.role == TOOL and item.id == call_id:
            item.text = status or item.text
            return
    items.append(DigestItem(TOOL, status, call_id))


def _add_message(items: list[DigestItem], role: str, update: Json) -> None:
    message_id = as_str(update.get("messageId"))
    content = update.get("content")
    is_whole = not update["sessionUpdate"].endswith("_chunk")
    text = "".join(map(_text, as_array(content))) if is_whole else _text(content)
    for item in items:
        if message_id is not None and (item.role, item.id) == (role, message_id):
            if not is_whole:
                item.text += text
            elif "content" in update:
                item.text = text
            return
    items.append(DigestItem(role, text, message_id))


def _text(block: object) -> str:
    content = as_object(block)
    text = as_str(content.get("text"))
    return text if text is not None else encode(content).decode("utf-8", "replace")


def _join(items: Iterable[DigestItem]) -> list[DigestItem]:
    result: list[DigestItem] = []
    for item in items:
        if item.role != TOOL and not item.text:
            continue
        if result and item.role == result[-1].role != TOOL:
            result[-1].text += item.text
        else:
            result.append(DigestItem(item.role, item.text, item.id))
    for item in result:
        item.text = item.text.strip()
    return [it for it in result if it.role == TOOL or it.text]


def digest_turn(prompt: str, updates: Iterable[TraceLine]) -> list[DigestItem]:
    """Return the digest of a live turn. The user's message is the prompt that was sent."""
    answer = [it for it in digest_updates(updates) if it.role != USER]
    return [DigestItem(USER, prompt.strip()), *_join(answer)]


def find_difference(expected: Sequence[DigestItem], came: Sequence[DigestItem]) -> str | None:
    """Describe the first difference of two digests, or return None.

    The agent may add text at the end: it has no other way to inform the user about its present
    state.
    """
    last = len(expected)
    for place, (one, other) in enumerate(zip(expected, came, strict=False), 1):
        may_go_on = place == last == len(came) and one.role == AGENT
        if one.role == other.role and _matches(one.text, other.text, may_go_on=may_go_on):
            continue
        return f"at position {place}, {_describe_difference(one, other)}"
    if len(came) < last:
        return f"{describe_item(expected[len(came)])} is missing, at position {len(came) + 1}"
    if more := [it for it in came[last:] if it.role != AGENT]:
        return f"{describe_item(more[0])} came, but is not in the conversation"
    return None


def _matches(expected: str, came: str, *, may_go_on: bool) -> bool:
    return came == expected or (may_go_on and came.startswith(expected))


def _describe_difference(one: DigestItem, other: DigestItem) -> str:
    """Show two items from shortly before the place where they differ."""
    since = 0
    if one.role == other.role:
        since = next(
            (at for at, (a, b) in enumerate(zip(one.text, other.text, strict=False)) if a != b),
            min(len(one.text), len(other.text)),
        )
        since = max(0, since - _MAX_SHOWN // 2)
    return f"{describe_item(one, since)} was expected, but {describe_item(other, since)} came"


def describe_item(item: DigestItem, since: int = 0) -> str:
    """Describe an item for people, with its text from `since` on."""
    text = item.text[since : since + _MAX_SHOWN]
    head = "…" if since else ""
    tail = "…" if since + _MAX_SHOWN < len(item.text) else ""
    text = f"{head}{text}{tail}"
    return f"the {item.role} {text!r}" if item.role == TOOL else f"the {item.role}'s {text!r}"
