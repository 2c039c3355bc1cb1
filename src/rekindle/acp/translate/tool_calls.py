"""Tool calls: told and updated in version 1, only updated in version 2."""

from collections.abc import Callable
from typing import Any

from rekindle.acp.translate.diff import diff_to_v1, diff_to_v2
from rekindle.acp.translate.updates import block_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]
ShowTerminal = Callable[[str], str]
"""Returns what a terminal has put out, as text."""

# Tuples: what is looked for in them may be anything, also what cannot be hashed.
_STATUSES = ("pending", "in_progress", "completed", "failed")
# Lost: that a call was cancelled or is paused, but for the mark in `_meta`.
_NEAREST_STATUS = {"cancelled": "failed", "paused": "in_progress"}
_KINDS = (
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other",
)  # fmt: skip


def call_to_v2(fields: Json) -> Json:
    """Return the fields of a tool call as version 2 has them."""
    # In version 1 null means "as it was", in version 2 "cleared".
    told = {name: value for name, value in fields.items() if value is not None}
    if "content" in told:
        told["content"] = [part_to_v2(as_object(part)) for part in as_array(told["content"])]
    if "locations" in told:
        told["locations"] = [_location(as_object(place)) for place in as_array(told["locations"])]
    return told


def call_to_v1(fields: Json, show: ShowTerminal) -> Json:
    """Return the fields of a tool call as version 1 has them."""
    told = dict(fields)
    for name in ("content", "locations"):
        if name in told:
            told[name] = as_array(told[name])
    # Lost: that a single value was cleared. And what version 1 has no name for.
    told = {k: v for k, v in told.items() if v is not None and k != "capabilities"}
    if "content" in told:
        told["content"] = [part_to_v1(as_object(part), show) for part in told["content"]]
    if "kind" in told and as_str(told["kind"]) not in _KINDS:
        told["kind"] = "other"
    status = told.get("status")
    if status is not None and as_str(status) not in _STATUSES:
        told["status"] = _NEAREST_STATUS.get(str(status), "in_progress")
        meta = as_object(told.get("_meta"))
        told["_meta"] = {**meta, "rekindle": {**as_object(meta.get("rekindle")), "status": status}}
    return told


def part_to_v2(part: Json) -> Json:
    """Return a piece of a tool call's content as version 2 has it."""
    return diff_to_v2(part) if part.get("type") == "diff" else part


def part_to_v1(part: Json, show: ShowTerminal) -> Json:
    """Return a piece of a tool call's content as version 1 has it."""
    match part.get("type"):
        case "diff":
            return diff_to_v1(part)
        case "terminal":
            # Lost: that it is a terminal. A version 1 client runs its own, and knows no others.
            words = show(str(part.get("terminalId")))
            return {"type": "content", "content": {"type": "text", "text": words}}
        case "content":
            block = as_object(part.get("content"))
            told = block_to_v1(block)
            return part if told is block else {**part, "content": told}
        case other:
            # Lost: what it is, but for its name.
            return {"type": "content", "content": {"type": "text", "text": f"[{other}]"}}


def _location(place: Json) -> Json:
    # Lines count from 1 in version 2.
    return {name: value for name, value in place.items() if name != "line" or value}
