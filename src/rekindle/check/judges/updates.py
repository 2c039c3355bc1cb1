"""Judges of single updates and questions: whether each has what its kind needs."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import PurePath

from rekindle.check.judges import names
from rekindle.check.traffic import Json, Line
from rekindle.check.verdicts import Fault
from rekindle.wire import methods
from rekindle.wire.envelope import rows, table

_CALL_KINDS = frozenset({"tool_call", "tool_call_update", "tool_call_content_chunk"})
_BLOCKED = "requires_action"
_TERMINAL_KINDS = frozenset({"terminal_update", "terminal_output_chunk"})


def is_id(value: object) -> bool:
    """Tell whether a value can name something."""
    return isinstance(value, str) and value != ""


def is_absolute(value: object) -> bool:
    """Tell whether a value is an absolute path."""
    return isinstance(value, str) and PurePath(value).is_absolute()


def is_time(value: object, *, with_zone: bool) -> bool:
    """Tell whether a value is a time of ISO 8601."""
    if not isinstance(value, str):
        return False
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value.upper() and (time.tzinfo is not None or not with_zone)


def bad_tool_calls(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find tool calls that lack what they need."""
    announced: set[tuple[str, object]] = set()
    for line in lines:
        if line.is_sent or line.kind not in _CALL_KINDS:
            continue
        update = line.update
        if not is_id(update.get("toolCallId")):
            yield Fault(f"{line.kind} has no toolCallId", (line,))
            continue
        call = (line.session_id, update["toolCallId"])
        if line.kind == "tool_call":
            announced.add(call)
            if not isinstance(update.get("title"), str):
                yield Fault("a tool call has no title", (line,))
        elif protocol == 1 and call not in announced:
            words = f"the tool call {call[1]} is updated, but was never told as tool_call"
            yield Fault(words, (line,))
        yield from _bad_status(line, protocol)
        yield from _bad_locations(line)


def _bad_status(line: Line, protocol: int) -> Iterator[Fault]:
    status = line.update.get("status")
    if status is None:
        return
    is_extension = protocol > 1 and isinstance(status, str) and names.is_custom(status)
    if status not in names.CALL_STATUSES[protocol] and not is_extension:
        yield Fault(f"version {protocol} has no status {status!r} of a tool call", (line,))


def _bad_locations(line: Line) -> Iterator[Fault]:
    for location in rows(line.update.get("locations")):
        path = table(location).get("path")
        if not is_absolute(path):
            yield Fault(f"a tool call's location is not absolute: {path!r}", (line,))


def untitled_calls(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find tool calls that are first told without a title."""
    seen: set[tuple[str, object]] = set()
    for line in lines:
        call = (line.session_id, line.update.get("toolCallId"))
        if not line.is_sent and line.kind in _CALL_KINDS and call not in seen:
            seen.add(call)
            if not isinstance(line.update.get("title"), str):
                yield Fault(f"the tool call {call[1]} is first told without a title", (line,))


def bad_plans(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find plans that lack their entries, or their id."""
    for line in lines:
        if line.is_sent or line.kind not in {"plan", "plan_update"}:
            continue
        plan = table(line.update.get("plan")) if line.kind == "plan_update" else line.update
        if line.kind == "plan_update" and not is_id(plan.get("planId")):
            yield Fault("a plan has no planId", (line,))
        if plan.get("type", "items") != "items":
            continue
        if not isinstance(plan.get("entries"), list):
            yield Fault("a plan has no entries", (line,))
        for entry in map(table, rows(plan.get("entries"))):
            is_whole = isinstance(entry.get("content"), str) and "priority" in entry
            if not is_whole or entry.get("status") not in names.PLAN_STATUSES:
                words = "an entry of a plan lacks its content, its priority, or a known status"
                yield Fault(words, (line,))
                break


def bad_terminals(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find terminals without id, and output that cannot be decoded."""
    for line in lines:
        if line.is_sent or line.kind not in _TERMINAL_KINDS:
            continue
        if not is_id(line.update.get("terminalId")):
            yield Fault(f"{line.kind} has no terminalId", (line,))
        data = line.update.get("data")
        if line.kind == "terminal_update":
            data = table(line.update.get("output")).get("data", "")
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
        if time is not None and not is_time(time, with_zone=protocol > 1):
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
        if protocol == 1 and not is_id(table(params.get("toolCall")).get("toolCallId")):
            yield Fault("a question names no tool call", (line,))
        yield from _bad_options(line, params)


def _bad_options(line: Line, params: Json) -> Iterator[Fault]:
    options = [table(it) for it in rows(params.get("options"))]
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
