"""Hiding what looks like keys and tokens in a transcript, before anything is made of it."""

from typing import Any, cast

from msgspec.structs import replace

from rekindle.core.items import Item, Message, Other, Plan, Terminal, ToolCall, Turn
from rekindle.core.secrets import mask
from rekindle.export.nesting import flattened
from rekindle.model import Session

_LONGEST_NAME = 100
_ENCODED = frozenset({"data", "blob"})


def redact_session(session: Session) -> Session:
    """Return a session with what is said of it masked."""
    agent = replace(session.agent, command=tuple(map(mask, session.agent.command)))
    return replace(
        session,
        title=mask(session.title) if session.title else session.title,
        cwd=mask(session.cwd) if session.cwd else session.cwd,
        agent=agent,
    )


def redact_turn(turn: Turn) -> None:
    """Mask all that a turn holds."""
    turn.items[:] = map(_item, turn.items)
    turn.error = redact(turn.error)


def redact_terminal(terminal: Terminal) -> None:
    """Mask what a terminal has put out."""
    terminal.output = bytearray(mask(terminal.text).encode("utf-8", "replace"))
    terminal.rest = redact(terminal.rest)


def _item(item: Item) -> Item:
    match item:
        case Message():
            masked = Message(
                role=item.role, seq=item.seq, at_us=item.at_us, id=item.id, name=item.name
            )
            masked.replace([redact(block) for block in item.blocks])
            return masked
        case ToolCall():
            outcome = mask(item.outcome) if item.outcome else item.outcome
            return replace(item, fields=redact(item.fields), outcome=outcome)
        case Plan():
            return replace(item, entries=redact(item.entries), rest=redact(item.rest))
        case Other():
            return replace(item, update=redact(item.update))
        case _:
            return item


def redact(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with all of its texts masked."""
    return _redacted(flattened(value))


def _redacted(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return mask(value)
        case list():
            return [_redacted(it) for it in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            is_file = "mimeType" in members
            return {
                name: it if is_file and name in _ENCODED else _member(name, it)
                for name, it in members.items()
            }
        case _:
            return value


def _member(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, str) or len(name) > _LONGEST_NAME:
        return _redacted(value)
    # The name of a value tells whether it is a secret, as it does where both are written out.
    begin = f"{name}="
    masked = mask(begin + value)
    return masked.removeprefix(begin) if masked.startswith(begin) else mask(value)
