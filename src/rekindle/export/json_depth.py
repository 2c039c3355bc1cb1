"""JSON that any program can read, and any terminal show, however deeply it was nested."""

import json
from typing import Any, cast

from rekindle.jsonvalue import encode
from rekindle.text.sanitize import escaped

_DEEPEST = 64


def flattened(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with what is nested too deeply as text."""
    match value:
        case list() | dict() if depth >= _DEEPEST:
            return _as_text(cast("object", value))
        case list():
            return [flattened(it, depth + 1) for it in cast("list[Any]", value)]
        case dict():
            both = cast("dict[str, Any]", value).items()
            return {name: flattened(it, depth + 1) for name, it in both}
        case _:
            return value


def written(value: object, indent: int = 0, *, is_ascii: bool = False) -> str:
    """Return JSON for people and programs, as it stands in a larger one."""
    words = json.dumps(flattened(value), ensure_ascii=is_ascii, indent=2)
    if indent:
        words = words.replace("\n", "\n" + " " * indent)
    return escaped(words)


def _as_text(value: object) -> str:
    try:
        return encode(value).decode("utf-8", "replace")
    except RecursionError:
        return "[nested too deeply]"
