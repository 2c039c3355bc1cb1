"""Mask keys and tokens in a transcript before it is exported."""

from typing import Any, cast

from msgspec.structs import replace

from rekindle.acp.terminal_output import Terminal
from rekindle.export.json_depth import flatten
from rekindle.export.views import mask_terminal, mask_turn
from rekindle.model import Session
from rekindle.text.redact.detect import mask
from rekindle.text.redact.names import is_secret_name, is_secret_option
from rekindle.text.redact.recorded_command import MASK
from rekindle.text.redact.values import is_literal_secret
from rekindle.transcript.model import TranscriptTurn

_NAMES = ("name", "key")
_VALUES = frozenset({"value", "values", "current", "default"})
_ENCODED = frozenset({"data", "blob"})


def redact_session(session: Session) -> Session:
    """Return a session with its texts masked."""
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
    """Mask the items and the error of a turn in place."""
    mask_turn(turn, redact)


def redact_terminal(terminal: Terminal) -> None:
    """Mask the output of a terminal in place."""
    mask_terminal(terminal, redact)


def redact(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with all of its texts masked."""
    return _redacted(flatten(value), "")


def _redacted(value: Any, name: str) -> Any:  # noqa: ANN401 - JSON
    """Mask a value. `name` is the name of the secret that it may be, or empty."""
    match value:
        case str():
            return MASK if name and is_literal_secret(name, value) else mask(value)
        case list():
            return _list(cast("list[Any]", value), name)
        case dict():
            return _object(cast("dict[str, Any]", value), name)
        case _:
            return value


def _list(values: list[Any], name: str) -> list[Any]:
    """Mask the elements of a list. In a command, the word after `--token` is a secret too."""
    previous = ["", *values]
    return [
        _redacted(it, before if isinstance(before, str) and is_secret_option(before) else name)
        for before, it in zip(previous, values, strict=False)
    ]


def _object(members: dict[str, Any], name: str) -> dict[str, Any]:
    """Mask the members of an object, by their names, or by a name that one of them gives."""
    given = next((it for it in map(members.get, _NAMES) if isinstance(it, str)), "")
    outer = given if is_secret_name(given) else name
    is_file = "mimeType" in members
    return {
        key: it if is_file and key in _ENCODED else _redacted(it, _name_of(key, outer))
        for key, it in members.items()
    }


def _name_of(key: str, outer: str) -> str:
    """Return the name that decides on a member. Members beside a secret may be harmless."""
    if is_secret_name(key):
        return key
    return outer if key in _VALUES else ""
