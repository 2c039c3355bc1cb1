"""Plans: one in version 1; in version 2 any number, each with an id."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

MAIN = "main"
"""The id of the only plan that version 1 has."""

_STATUSES = frozenset({"pending", "in_progress", "completed"})
_PRIORITIES = frozenset({"high", "medium", "low"})


def plan_to_v2(entries: object, plan_id: str | None = None) -> Json:
    """Return a plan's entries as what `plan_update` carries."""
    told = [
        {"priority": "medium", "status": "pending", **as_object(entry)}
        for entry in as_array(entries)
    ]
    return {"type": "items", "planId": plan_id or MAIN, "entries": told}


def plan_to_v1(plan: Json) -> list[Json] | None:
    """Return the entries of a plan of version 2; None if it has none.

    Lost: which plan it is, if there are several, and plans of any other form.
    """
    if plan.get("type") != "items":
        return None
    return [_entry_to_v1(as_object(entry)) for entry in as_array(plan.get("entries"))]


def _entry_to_v1(entry: Json) -> Json:
    if as_str(entry.get("priority", "medium")) not in _PRIORITIES:
        # Lost: priorities that version 1 has no word for.
        entry = {**entry, "priority": "medium"}
    status = entry.get("status")
    if status is None or as_str(status) in _STATUSES:
        return entry
    # Lost: that it was cancelled, but for the mark.
    meta = as_object(entry.get("_meta"))
    return {**entry, "status": "completed", "_meta": {**meta, "rekindle": {"status": status}}}
