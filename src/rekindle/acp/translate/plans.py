"""Translate plans. Version 1 has one plan; version 2 has any number, each with an id."""

from rekindle.jsonvalue import Json, as_array, as_object, as_str

MAIN = "main"
"""The id that version 2 receives for the only plan of version 1."""

_STATUSES = frozenset({"pending", "in_progress", "completed"})
_PRIORITIES = frozenset({"high", "medium", "low"})


def plan_to_v2(entries: object, plan_id: str | None = None) -> Json:
    """Return the entries of a plan as the `plan` of a `plan_update`."""
    complete = [
        {"priority": "medium", "status": "pending", **as_object(entry)}
        for entry in as_array(entries)
    ]
    return {"type": "items", "planId": plan_id or MAIN, "entries": complete}


def plan_to_v1(plan: Json) -> list[Json] | None:
    """Return the entries of a version 2 plan; None if it is not a list of entries.

    Lost: the id of the plan, plans of any other type, and priorities that version 1 does not have.
    """
    if plan.get("type") != "items":
        return None
    return [_entry_to_v1(as_object(entry)) for entry in as_array(plan.get("entries"))]


def _entry_to_v1(entry: Json) -> Json:
    if as_str(entry.get("priority", "medium")) not in _PRIORITIES:
        entry = {**entry, "priority": "medium"}
    status = entry.get("status")
    if status is None or as_str(status) in _STATUSES:
        return entry
    # Version 1 cannot express a cancelled entry. Its status stays in `_meta`.
    meta = as_object(entry.get("_meta"))
    return {**entry, "status": "completed", "_meta": {**meta, "rekindle": {"status": status}}}
