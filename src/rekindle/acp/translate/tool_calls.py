"""Translate the fields of tool calls."""

from rekindle.acp.translate.content import ShowTerminal, part_to_v1, part_to_v2
from rekindle.jsonvalue import Json, as_array, as_object, as_str

_STATUSES = frozenset({"pending", "in_progress", "completed", "failed"})
_NEAREST_STATUS = {"cancelled": "failed", "paused": "in_progress"}
_KINDS = frozenset(
    {
        "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode",
        "other",
    }
)  # fmt: skip


def call_to_v2(fields: Json) -> Json:
    """Return the fields of a tool call in the form of version 2."""
    # In version 1 null means "unchanged", in version 2 "cleared".
    translated = {name: value for name, value in fields.items() if value is not None}
    if "content" in translated:
        parts = as_array(translated["content"])
        translated["content"] = [part_to_v2(as_object(part)) for part in parts]
    if "locations" in translated:
        locations = as_array(translated["locations"])
        translated["locations"] = [_location(as_object(location)) for location in locations]
    return translated


def call_to_v1(fields: Json, show: ShowTerminal) -> Json:
    """Return the fields of a tool call in the form of version 1.

    Lost: that a single field was cleared, and fields, kinds and statuses that version 1 does not
    have. `_meta` keeps the status.
    """
    translated = dict(fields)
    for name in ("content", "locations"):
        if name in translated:
            translated[name] = as_array(translated[name])
    translated = {k: v for k, v in translated.items() if v is not None and k != "capabilities"}
    if "content" in translated:
        parts = translated["content"]
        translated["content"] = [part_to_v1(as_object(part), show) for part in parts]
    if "kind" in translated and as_str(translated["kind"]) not in _KINDS:
        translated["kind"] = "other"
    status = translated.get("status")
    if status is not None and as_str(status) not in _STATUSES:
        translated["status"] = _NEAREST_STATUS.get(str(status), "in_progress")
        meta = as_object(translated.get("_meta"))
        ours = {**as_object(meta.get("rekindle")), "status": status}
        translated["_meta"] = {**meta, "rekindle": ours}
    return translated


def _location(location: Json) -> Json:
    # Lines count from 1 in version 2, so a line 0 is left out.
    return {name: value for name, value in location.items() if name != "line" or value}
