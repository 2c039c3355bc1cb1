"""Hiding what looks like keys and tokens in a transcript, before anything is made of it."""

from typing import Any, cast

from msgspec.structs import replace

from rekindle.acp.terminal_output import Terminal
from rekindle.export.json_depth import flattened
from rekindle.model import Session
from rekindle.text.redact.commands import MASK
from rekindle.text.redact.names import is_secret_name, is_secret_option
from rekindle.text.redact.secrets import mask
from rekindle.text.redact.values import is_literal_secret
from rekindle.transcript.model import (
    TranscriptItem,
    OtherItem,
    PlanItem,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)

_NAMES = ("name", "key")
_VALUES = frozenset({"value", "values", "current", "default"})
_ENCODED = frozenset({"data", "blob"})


def redact_session(session: Session) -> Session:
    """Return a session with what is said of it masked."""
    agent = replace(
        session.agent,
        name=mask(session.agent.name) if session.agent.name else session.agent.name,
        command=tuple(redact(list(session.agent.command))),
    )
    return replace(
        session,
        title=mask(session.title) if session.title else session.title,
        cwd=mask(session.cwd) if session.cwd else session.cwd,
        agent=agent,
    )


def redact_turn(turn: TranscriptTurn) -> None:
    """Mask all that a turn holds."""
    turn.items[:] = map(_item, turn.items)
    turn.error = redact(turn.error)


def redact_terminal(terminal: Terminal) -> None:
    """Mask what a terminal has put out."""
    terminal.output = bytearray(mask(terminal.text).encode("utf-8", "replace"))
    terminal.rest = redact(terminal.rest)


def _item(item: TranscriptItem) -> TranscriptItem:
    match item:
        case TranscriptMessage():
            masked = TranscriptMessage(
                role=item.role, seq=item.seq, at_us=item.at_us, id=item.id, made_id=item.made_id
            )
            masked.replace([redact(block) for block in item.blocks])
            return masked
        case ToolCallItem():
            outcome = mask(item.outcome) if item.outcome else item.outcome
            return replace(item, fields=redact(item.fields), outcome=outcome)
        case PlanItem():
            return replace(item, entries=redact(item.entries), rest=redact(item.rest))
        case OtherItem():
            return replace(item, update=redact(item.update))
        case _:
            return item


def redact(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with all of its texts masked."""
    return _redacted(flattened(value), "")


def _redacted(value: Any, name: str) -> Any:  # noqa: ANN401 - JSON
    """Mask a value; `name` is the secret's that it belongs to, if it does."""
    match value:
        case str():
            return MASK if name and is_literal_secret(name, value) else mask(value)
        case list():
            return _list(cast("list[Any]", value), name)
        case dict():
            return _table(cast("dict[str, Any]", value), name)
        case _:
            return value


def _list(values: list[Any], name: str) -> list[Any]:
    """Mask what is in a list: where it is a command, the word after `--token`, too."""
    previous = ["", *values]
    return [
        _redacted(it, before if isinstance(before, str) and is_secret_option(before) else name)
        for before, it in zip(previous, values, strict=False)
    ]


def _table(members: dict[str, Any], name: str) -> dict[str, Any]:
    """Mask what is in a table: by the name of each member, or by what it says its name is."""
    called = next((it for it in map(members.get, _NAMES) if isinstance(it, str)), "")
    outer = called if is_secret_name(called) else name
    is_file = "mimeType" in members
    return {
        key: it if is_file and key in _ENCODED else _redacted(it, _name_of(key, outer))
        for key, it in members.items()
    }


def _name_of(key: str, outer: str) -> str:
    """Return by what name a member is to be judged: beside a secret there may be other things."""
    if is_secret_name(key):
        return key
    return outer if key in _VALUES else ""
