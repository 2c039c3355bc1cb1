"""Judges of a whole connection: its frames, its names, and who may say what to whom."""

from collections.abc import Iterable, Iterator, Sequence

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import fields, names
from rekindle.conformance.trace import Answer, Json, Line, same_id
from rekindle.jsonvalue import as_object, decode

_LONGEST_SHOWN = 60
_ARRAYS = ("configOptions", "availableCommands")


def not_messages(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find lines on the agent's stdout that are no messages."""
    for line in lines:
        if line.is_sent or not line.data.strip():
            continue
        if isinstance(decode(line.data), list):
            yield Fault("a batch was sent, and ACP has none", (line,))
        elif not line.message:
            begin = line.data[:_LONGEST_SHOWN].decode("utf-8", "replace")
            yield Fault(f"a line on stdout is no JSON-RPC message: {begin!r}", (line,))
        elif line.message.get("jsonrpc") != "2.0":
            yield Fault('a message has no `jsonrpc` of "2.0"', (line,))
        elif not _is_utf8(line.data):
            yield Fault("a message is not in UTF-8", (line,))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def bad_frames(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find messages that are neither a call nor an answer as they should be."""
    for line in lines:
        if line.is_sent or not line.message:
            continue
        if "method" in line.message:
            if not isinstance(line.message["method"], str):
                yield Fault("a method is no text", (line,))
        elif "id" not in line.message:
            yield Fault("a message has neither a method nor an id", (line,))
        else:
            yield from _bad_answer(line)


def _bad_answer(line: Line) -> Iterator[Fault]:
    has_error, has_result = "error" in line.message, "result" in line.message
    if has_error == has_result:
        yield Fault("an answer has both a result and an error, or neither", (line,))
    if has_error and not has_result:
        error = as_object(line.message["error"])
        code = error.get("code")
        if not isinstance(code, int) or isinstance(code, bool):
            yield Fault("an error has no code that is a whole number", (line,))
        if not isinstance(error.get("message"), str):
            yield Fault("an error has no message", (line,))


def strange_answers(lines: Sequence[Line]) -> Iterator[Fault]:
    """Find answers to what nobody has asked, and second answers."""
    open_ids: list[Line] = []
    answered: list[Line] = []
    for line in lines:
        if line.is_sent and line.is_request:
            open_ids.append(line)
        elif line.is_sent or not line.is_answer:
            continue
        elif asked := [it for it in open_ids if same_id(it.id, line.id)]:
            open_ids.remove(asked[0])
            answered.append(asked[0])
        elif asked := [it for it in answered if same_id(it.id, line.id)]:
            yield Fault(f"{asked[0].method} was answered a second time", (asked[0], line))
        elif line.id is not None:
            # An answer without an id is for what could not be read.
            yield Fault(f"an answer bears the id {line.id!r}, and nobody asked that", (line,))


def unanswered(answers: Iterable[Answer], ended: str) -> Iterator[Fault]:
    """Find requests without an answer; `ended` says how the agent ended, if it did."""
    for answer in answers:
        if answer.line is None:
            why = f": {ended}" if ended else " in time"
            yield Fault(f"{answer.request.method} was not answered{why}", answer.lines)


def unknown_methods(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find calls that neither the protocol nor an extension has."""
    for line in lines:
        is_call = not line.is_sent and bool(line.method)
        if is_call and not (names.is_known_to_clients(line.method) or names.is_custom(line.method)):
            yield Fault(f"{line.method} is no method of the protocol's for clients", (line,))


def unasked_capabilities(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find requests and updates for which a client has to say that it knows them."""
    for line in lines:
        if line.is_sent:
            continue
        if line.is_request and names.needs_a_capability(line.method):
            yield Fault(f"{line.method} was called, and the client has no such capability", (line,))
        if protocol == 1 and line.kind in names.UPDATES_OF_SOME_CLIENTS:
            yield Fault(f"{line.kind} was sent, and the client has not said to know it", (line,))


def bad_ids(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find requests under ids that are none."""
    for line in lines:
        if line.is_sent or not line.is_request:
            continue
        is_number = isinstance(line.id, int) and not isinstance(line.id, bool)
        # Version 1 has null, and advises against it.
        if not is_number and not isinstance(line.id, str) and (protocol > 1 or line.id is not None):
            yield Fault(f"{line.method} is asked under the id {line.id!r}", (line,))


def unknown_kinds(lines: Iterable[Line], protocol: int) -> Iterator[Fault]:
    """Find updates of kinds that the version has not."""
    known = fields.UPDATES[protocol]
    for line in lines:
        if line.is_sent or line.method != methods.UPDATE:
            continue
        if not line.kind:
            yield Fault("an update does not say of which kind it is", (line,))
        elif line.kind not in known and not (protocol > 1 and names.is_custom(line.kind)):
            yield Fault(f"version {protocol} has no update {line.kind}", (line,))


def strange_sessions(lines: Iterable[Line], known: Iterable[str]) -> Iterator[Fault]:
    """Find updates of sessions that the client knows nothing of."""
    ids = {*known}
    for line in lines:
        if not line.is_sent and line.kind and line.session_id not in ids:
            words = f"an update is of session {line.session_id!r}, which nobody has opened"
            yield Fault(words, (line,))


def has_arrays(line: Line) -> bool:
    """Tell whether a line has options or commands."""
    return any(name in _values(line) for name in _ARRAYS)


def null_arrays(lines: Iterable[Line]) -> Iterator[Fault]:
    """Find options and commands that are there, but are no arrays."""
    for line in lines:
        values = _values(line)
        for name in _ARRAYS:
            if not line.is_sent and name in values and not isinstance(values[name], list):
                yield Fault(f"{name} is no array: leave it out if there are none", (line,))


def _values(line: Line) -> Json:
    return line.update if line.kind else as_object(line.message.get("result"))
