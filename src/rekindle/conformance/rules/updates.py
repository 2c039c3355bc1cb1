"""Judges of single updates and questions: whether each has what its kind needs."""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import PurePath

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import names
from rekindle.conformance.trace import Json, Line
from rekindle.jsonvalue import as_array, as_object

_BLOCKED = "requires_action"
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_ZONE = re.compile(r"[Tt ].*([Zz]|[+-]\d\d(:?\d\d)?)$")


def is_id(value: object) -> bool:
    """Tell whether a value can name something."""
    return isinstance(value, str) and value != ""


def is_absolute(value: object) -> bool:
    """Tell whether a value is an absolute path."""
    return isinstance(value, str) and PurePath(value).is_absolute()


def is_time(value: object, protocol: int) -> bool:
    """Tell whether a value is a time: in version 1 of ISO 8601, in version 2 of RFC 3339."""
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
    """Tell whether a time says of which zone it is."""
    return isinstance(value, str) and _ZONE.search(value) is not None


def bad_tool_calls(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find tool calls that lack what they need."""
    for line in lines:
        if line.is_sent or line.kind not in names.CALLS:
            continue
        update = line.update
        if not is_id(update.get("toolCallId")):
            yield Fault(f"{line.kind} has no toolCallId", (line,))
            continue
        if line.kind == "tool_call" and not isinstance(update.get("title"), str):
            yield Fault("a tool call has no title", (line,))
        yield from _bad_status(line, protocol)
        yield from _bad_paths(line)


def _bad_status(line: Line, protocol: int) -> Iterator[Fault]:
    status = line.update.get("status")
    if status is None:
        return
    if not _is_one_of(status, names.CALL_STATUSES[protocol], protocol):
        yield Fault(f"version {protocol} has no status {status!r} of a tool call", (line,))


def _is_one_of(value: object, known: Collection[str], protocol: int) -> bool:
    """Tell whether a value is one of those that are known, or in version 2 an extension's."""
    is_known = isinstance(value, str) and value in known
    return is_known or (protocol > 1 and names.is_custom(value))


def _bad_paths(line: Line) -> Iterator[Fault]:
    for location in map(as_object, as_array(line.update.get("locations"))):
        path = location.get("path")
        if not is_absolute(path):
            yield Fault(f"a tool call's location is not absolute: {path!r}", (line,))
    content = line.update.get("content")
    for it in map(as_object, as_array(content) or [content]):
        if it.get("type") == "diff":
            for path in _changed(it):
                if not is_absolute(path):
                    yield Fault(f"the path of a diff is not absolute: {path!r}", (line,))


def _changed(diff: Json) -> Iterator[object]:
    """Yield the paths that a diff names, in the form of version 1 or 2."""
    for it in [diff, *map(as_object, as_array(diff.get("changes")))]:
        yield from (it[name] for name in ("path", "oldPath") if it.get(name) is not None)


def untitled_calls(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find tool calls that are first told without a title; in version 1, by an update."""
    seen: set[tuple[str, str]] = set()
    for line in lines:
        call = (line.session_id, str(line.update.get("toolCallId")))
        if not line.is_sent and line.kind in names.CALLS and call not in seen:
            seen.add(call)
            if protocol == 1 and line.kind != "tool_call":
                words = f"the tool call {call[1]} is updated, but was never told as tool_call"
                yield Fault(words, (line,))
            elif not isinstance(line.update.get("title"), str):
                yield Fault(f"the tool call {call[1]} is first told without a title", (line,))


def bad_plans(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find plans that lack their entries, or their id."""
    for line in lines:
        if line.is_sent or line.kind not in names.PLANS:
            continue
        plan = as_object(line.update.get("plan")) if line.kind == "plan_update" else line.update
        if line.kind == "plan_update" and not is_id(plan.get("planId")):
            yield Fault("a plan has no planId", (line,))
        if plan.get("type", "items") != "items":
            continue
        if not isinstance(plan.get("entries"), list):
            yield Fault("a plan has no entries", (line,))
        for entry in map(as_object, as_array(plan.get("entries"))):
            yield from (Fault(words, (line,)) for words in _bad_plan_entry(entry, protocol))


def _bad_plan_entry(entry: Json, protocol: int) -> Iterator[str]:
    if not isinstance(entry.get("content"), str):
        yield "an entry of a plan has no content"
    status, priority = entry.get("status"), entry.get("priority")
    if not _is_one_of(status, names.PLAN_STATUSES[protocol], protocol):
        yield f"an entry of a plan has the status {status!r}"
    if not _is_one_of(priority, names.PLAN_PRIORITIES, protocol):
        yield f"an entry of a plan has the priority {priority!r}"


def bad_terminals(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find terminals without id, and output that cannot be decoded."""
    for line in lines:
        if line.is_sent or line.kind not in names.TERMINALS:
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


def bad_information(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find updates of a session's information that tell what they cannot."""
    for line in lines:
        if line.is_sent or line.kind != methods.SESSION_INFO_UPDATE:
            continue
        update = line.update
        for name in ("sessionId", "cwd"):
            if name in update:
                yield Fault(f"session_info_update has {name}, which never changes", (line,))
        if not isinstance(update.get("title"), str | None):
            yield Fault("session_info_update has a title that is no text", (line,))
        time = update.get("updatedAt")
        if time is not None and not is_time(time, protocol):
            yield Fault(f"session_info_update has a time that is none: {time!r}", (line,))


def bad_questions(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find questions for permission that do not say what they are about."""
    for line in lines:
        if line.is_sent or line.method != methods.REQUEST_PERMISSION:
            continue
        params = line.params
        if not is_id(params.get("sessionId")):
            yield Fault("a question names no session", (line,))
        if protocol > 1 and not is_id(params.get("title")):
            yield Fault("a question has no title", (line,))
        if protocol == 1 and not is_id(as_object(params.get("toolCall")).get("toolCallId")):
            yield Fault("a question names no tool call", (line,))
        yield from _bad_options(line, params)


def _bad_options(line: Line, params: Json) -> Iterator[Fault]:
    options = [as_object(it) for it in as_array(params.get("options"))]
    if not options:
        yield Fault("a question has no options", (line,))
    for option in options:
        if not all(is_id(option.get(name)) for name in ("optionId", "name", "kind")):
            yield Fault("an option of a question lacks its id, its name or its kind", (line,))


def silent_questions(lines: Sequence[Line]) -> Iterator[Fault]:
    """Find questions in another state than requires_action, which may be told right after them."""
    states: dict[str, object] = {}
    asked: dict[str, Line] = {}
    for line in (it for it in lines if not it.is_sent):
        if line.kind == methods.STATE_UPDATE:
            states[line.session_id] = line.update.get("state")
            question = asked.pop(line.session_id, None)
            if question is not None and states[line.session_id] != _BLOCKED:
                yield _silent(question)
        elif line.method == methods.REQUEST_PERMISSION and states.get(line.session_id) != _BLOCKED:
            asked[line.session_id] = line
    yield from map(_silent, asked.values())


def _silent(question: Line) -> Fault:
    return Fault("a question is asked, and the state is not requires_action", (question,))
