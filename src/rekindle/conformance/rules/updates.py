"""Rules for single updates and permission requests: their required fields."""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import PurePath

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import Json, as_array, as_object

_REQUIRES_ACTION = "requires_action"
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_ZONE = re.compile(r"[Tt ].*([Zz]|[+-]\d\d(:?\d\d)?)$")


def is_id(value: object) -> bool:
    """Return whether a value is a valid id."""
    return isinstance(value, str) and value != ""


def is_absolute(value: object) -> bool:
    """Return whether a value is an absolute path."""
    return isinstance(value, str) and PurePath(value).is_absolute()


def is_time(value: object, protocol: int) -> bool:
    """Return whether a value is a time of ISO 8601 (version 1) or RFC 3339 (version 2)."""
    if not isinstance(value, str):
        return False
    written = _RFC_3339.fullmatch(value)
    if protocol > 1 and written is None:
        return False
    try:
        datetime.fromisoformat(written[1] if written else value)
    except ValueError:
        return False
    return written is not None or "T" in value.upper()


def has_zone(value: object) -> bool:
    """Return whether a time has a zone."""
    return isinstance(value, str) and _ZONE.search(value) is not None


def bad_tool_calls(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find tool calls with missing or invalid fields."""
    for line in lines:
        if line.is_sent or line.kind not in vocabulary.CALLS:
            continue
        update = line.update
        if not is_id(update.get("toolCallId")):
            yield Fault(f"{line.kind} has no toolCallId", (line,))
            continue
        if line.kind == "tool_call" and not isinstance(update.get("title"), str):
            yield Fault("a tool call has no title", (line,))
        yield from _bad_status(line, protocol)
        yield from _bad_paths(line)


def _bad_status(line: TraceLine, protocol: int) -> Iterator[Fault]:
    status = line.update.get("status")
    if status is None:
        return
    if not _is_one_of(status, vocabulary.CALL_STATUSES[protocol], protocol):
        yield Fault(f"version {protocol} has no status {status!r} of a tool call", (line,))


def _is_one_of(value: object, known: Collection[str], protocol: int) -> bool:
    """Return whether a value is known, or in version 2 belongs to an extension."""
    is_known = isinstance(value, str) and value in known
    return is_known or (protocol > 1 and vocabulary.is_custom(value))


def _bad_paths(line: TraceLine) -> Iterator[Fault]:
    for location in map(as_object, as_array(line.update.get("locations"))):
        path = location.get("path")
        if not is_absolute(path):
            yield Fault(f"a tool call's location is not absolute: {path!r}", (line,))
    content = line.update.get("content")
    for it in map(as_object, as_array(content) or [content]):
        if it.get("type") == "diff":
            for path in _diff_paths(it):
                if not is_absolute(path):
                    yield Fault(f"the path of a diff is not absolute: {path!r}", (line,))


def _diff_paths(diff: Json) -> Iterator[object]:
    """Yield the paths of a diff, in the form of version 1 or 2."""
    for it in [diff, *map(as_object, as_array(diff.get("changes")))]:
        yield from (it[name] for name in ("path", "oldPath") if it.get(name) is not None)


def untitled_calls(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find tool calls whose first update has no title, or in version 1 is not a `tool_call`."""
    seen: set[tuple[str, str]] = set()
    for line in lines:
        call = (line.session_id, str(line.update.get("toolCallId")))
        if not line.is_sent and line.kind in vocabulary.CALLS and call not in seen:
            seen.add(call)
            if protocol == 1 and line.kind != "tool_call":
                message = f"the tool call {call[1]} is updated, but was never sent as tool_call"
                yield Fault(message, (line,))
            elif not isinstance(line.update.get("title"), str):
                yield Fault(f"the tool call {call[1]} is first sent without a title", (line,))


def changed_names(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find tool calls that change their name."""
    names: dict[tuple[str, str], str] = {}
    for line in lines:
        name = line.update.get("name")
        if line.is_sent or line.kind not in vocabulary.CALLS or not isinstance(name, str):
            continue
        first = names.setdefault((line.session_id, str(line.update.get("toolCallId"))), name)
        if first != name:
            yield Fault(f"the name of a tool call was {first!r}, and became {name!r}", (line,))


def bad_terminal_folders(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find terminals with a relative folder, or with two folders."""
    folders: dict[tuple[str, str], object] = {}
    for line in lines:
        folder = line.update.get("cwd")
        if line.is_sent or line.kind != "terminal_update" or folder is None:
            continue
        if not is_absolute(folder):
            yield Fault(f"the folder of a terminal is not absolute: {folder!r}", (line,))
        first = folders.setdefault((line.session_id, str(line.update.get("terminalId"))), folder)
        if first != folder:
            yield Fault(f"a terminal's folder was {first!r}, and became {folder!r}", (line,))


def bad_plans(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find plans without entries or id."""
    for line in lines:
        if line.is_sent or line.kind not in vocabulary.PLANS:
            continue
        plan = as_object(line.update.get("plan")) if line.kind == "plan_update" else line.update
        if line.kind == "plan_update" and not is_id(plan.get("planId")):
            yield Fault("a plan has no planId", (line,))
        if plan.get("type", "items") != "items":
            continue
        if not isinstance(plan.get("entries"), list):
            yield Fault("a plan has no entries", (line,))
        for entry in map(as_object, as_array(plan.get("entries"))):
            yield from (Fault(message, (line,)) for message in _bad_plan_entry(entry, protocol))


def _bad_plan_entry(entry: Json, protocol: int) -> Iterator[str]:
    if not isinstance(entry.get("content"), str):
        yield "an entry of a plan has no content"
    status, priority = entry.get("status"), entry.get("priority")
    if not _is_one_of(status, vocabulary.PLAN_STATUSES[protocol], protocol):
        yield f"an entry of a plan has the status {status!r}"
    if not _is_one_of(priority, vocabulary.PLAN_PRIORITIES, protocol):
        yield f"an entry of a plan has the priority {priority!r}"


def bad_terminals(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find terminals without an id, and output that is not base64."""
    for line in lines:
        if line.is_sent or line.kind not in vocabulary.TERMINALS:
            continue
        if not is_id(line.update.get("terminalId")):
            yield Fault(f"{line.kind} has no terminalId", (line,))
        data = line.update.get("data")
        if line.kind == "terminal_update":
            data = as_object(line.update.get("output")).get("data", "")
        if not _is_base64(data):
            yield Fault("a terminal's output is not in base64", (line,))


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return True


def bad_session_info(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find session info updates with invalid fields."""
    for line in lines:
        if line.is_sent or line.kind != vocabulary.SESSION_INFO_UPDATE:
            continue
        update = line.update
        for name in ("sessionId", "cwd"):
            if name in update:
                yield Fault(f"session_info_update has {name}, which never changes", (line,))
        if not isinstance(update.get("title"), str | None):
            yield Fault("session_info_update has a title that is not a text", (line,))
        time = update.get("updatedAt")
        if time is not None and not is_time(time, protocol):
            yield Fault(f"session_info_update has an invalid time: {time!r}", (line,))


def bad_permission_requests(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find permission requests with missing fields."""
    for line in lines:
        if line.is_sent or line.method != methods.REQUEST_PERMISSION:
            continue
        params = line.params
        if not is_id(params.get("sessionId")):
            yield Fault("a permission request has no session", (line,))
        if protocol > 1 and not is_id(params.get("title")):
            yield Fault("a permission request has no title", (line,))
        if protocol == 1 and not is_id(as_object(params.get("toolCall")).get("toolCallId")):
            yield Fault("a permission request has no tool call", (line,))
        yield from _bad_options(line, params)


def _bad_options(line: TraceLine, params: Json) -> Iterator[Fault]:
    options = [as_object(it) for it in as_array(params.get("options"))]
    if not options:
        yield Fault("a permission request has no options", (line,))
    for option in options:
        if not all(is_id(option.get(name)) for name in ("optionId", "name", "kind")):
            yield Fault(
                "an option of a permission request lacks its id, its name or its kind", (line,)
            )


def permissions_without_state(lines: Sequence[TraceLine]) -> Iterator[Fault]:
    """Find permission requests in a state other than requires_action.

    The state may also come right after the request.
    """
    states: dict[str, object] = {}
    open_requests: dict[str, TraceLine] = {}
    for line in (it for it in lines if not it.is_sent):
        if line.kind == vocabulary.STATE_UPDATE:
            states[line.session_id] = line.update.get("state")
            request = open_requests.pop(line.session_id, None)
            if request is not None and states[line.session_id] != _REQUIRES_ACTION:
                yield _without_state(request)
        elif (
            line.method == methods.REQUEST_PERMISSION
            and states.get(line.session_id) != _REQUIRES_ACTION
        ):
            open_requests[line.session_id] = line
    yield from map(_without_state, open_requests.values())


def _without_state(request: TraceLine) -> Fault:
    return Fault("permission is requested, but the state is not requires_action", (request,))
