"""Write JSON that every program can read, however deeply it was nested."""

import json
from typing import Any, cast

from rekindle.jsonvalue import encode
from rekindle.text.sanitize import escaped

_MAX_DEPTH = 64


def flatten(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value in which values that are nested too deeply are texts."""
    match value:
        case list() | dict() if depth >= _MAX_DEPTH:
            return _as_text(cast("object", value))
        case list():
            return [flatten(it, depth + 1) for it in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value).items()
            return {name: flatten(it, depth + 1) for name, it in members}
        case _:
            return value


def write_json(value: object, indent: int = 0, *, is_ascii: bool = False) -> str:
    """Return indented JSON. `indent` is the indentation of the value in a larger document."""
    text = json.dumps(flatten(value), ensure_ascii=is_ascii, indent=2)
    if indent:
        text = text.replace("\n", "\n" + " " * indent)
    return escaped(text)


def _as_text(value: object) -> str:
    try:
        return encode(value).decode("utf-8", "replace")
    except RecursionError:
        return "[nested too deeply]"
