"""Rules for all lines of a connection: JSON-RPC, names, and allowed calls."""

from collections.abc import Iterable, Iterator, Sequence

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import fields, vocabulary
from rekindle.conformance.trace import Exchange, TraceLine, id_key, same_id
from rekindle.jsonvalue import Json, as_object, decode

_MAX_SHOWN = 60
_ARRAYS = ("configOptions", "availableCommands")


def invalid_messages(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find lines of the agent that are not JSON-RPC messages."""
    for line in lines:
        if line.is_sent or not line.data.strip():
            continue
        if isinstance(decode(line.data), list):
            yield Fault("a batch was sent, and ACP has none", (line,))
        elif not line.message:
            begin = line.data[:_MAX_SHOWN].decode("utf-8", "replace")
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


def bad_frames(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find messages that are neither a valid call nor a valid response."""
    for line in lines:
        if line.is_sent or not line.message:
            continue
        if "method" in line.message:
            if not isinstance(line.message["method"], str):
                yield Fault("a method is no text", (line,))
        elif "id" not in line.message:
            yield Fault("a message has neither a method nor an id", (line,))
        else:
            yield from _bad_response(line)


def _bad_response(line: TraceLine) -> Iterator[Fault]:
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


def unexpected_responses(lines: Sequence[TraceLine]) -> Iterator[Fault]:
    """Find responses without a request, and second responses."""
    open_requests: list[TraceLine] = []
    answered: list[TraceLine] = []
    for line in lines:
        if line.is_sent and line.is_request:
            open_requests.append(line)
        elif line.is_sent or not line.is_response:
            continue
        elif matching := [it for it in open_requests if same_id(it.id, line.id)]:
            open_requests.remove(matching[0])
            answered.append(matching[0])
        elif matching := [it for it in answered if same_id(it.id, line.id)]:
            yield Fault(f"{matching[0].method} was answered a second time", (matching[0], line))
        elif line.id is not None:
            # A response without an id belongs to a line that could not be parsed.
            yield Fault(f"an answer bears the id {line.id!r}, and nobody asked that", (line,))


def unanswered_requests(exchanges: Iterable[Exchange], ended: str) -> Iterator[Fault]:
    """Find requests without a response. `ended` describes the agent's exit, if any."""
    for exchange in exchanges:
        if exchange.response is None:
            why = f": {ended}" if ended else " in time"
            yield Fault(f"{exchange.request.method} was not answered{why}", exchange.lines)


def unknown_methods(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find calls of methods that neither the protocol nor an extension has."""
    for line in lines:
        is_call = not line.is_sent and bool(line.method)
        if is_call and not (
            vocabulary.is_known_to_clients(line.method) or vocabulary.is_custom(line.method)
        ):
            yield Fault(f"{line.method} is no method of the protocol's for clients", (line,))


def unsupported_calls(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find requests and updates that need a capability of the client."""
    for line in lines:
        if line.is_sent:
            continue
        if line.is_request and vocabulary.needs_a_capability(line.method):
            yield Fault(f"{line.method} was called, and the client has no such capability", (line,))
        if protocol == 1 and line.kind in vocabulary.UPDATES_FOR_SOME_CLIENTS:
            yield Fault(f"{line.kind} was sent, and the client has not said to know it", (line,))


def bad_ids(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find requests with an invalid id."""
    for line in lines:
        if line.is_sent or not line.is_request:
            continue
        is_number = isinstance(line.id, int) and not isinstance(line.id, bool)
        # Version 1 allows null, but advises against it.
        if not is_number and not isinstance(line.id, str) and (protocol > 1 or line.id is not None):
            yield Fault(f"{line.method} is asked under the id {line.id!r}", (line,))


def unknown_kinds(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find updates of kinds that the version does not have."""
    known = fields.UPDATES[protocol]
    for line in lines:
        if line.is_sent or line.method != methods.UPDATE:
            continue
        if not line.kind:
            yield Fault("an update does not say of which kind it is", (line,))
        elif line.kind not in known and not (protocol > 1 and vocabulary.is_custom(line.kind)):
            yield Fault(f"version {protocol} has no update {line.kind}", (line,))


def unknown_sessions(lines: Iterable[TraceLine], known: Iterable[str]) -> Iterator[Fault]:
    """Find updates of sessions that the client has not opened."""
    ids = {*known}
    for line in lines:
        if not line.is_sent and line.kind and line.session_id not in ids:
            message = f"an update is of session {line.session_id!r}, which nobody has opened"
            yield Fault(message, (line,))


def leaked_updates(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find updates that come under the id of another session too.

    A copy stands right before or right after its original, and its session has no turn.
    """
    prompts: dict[tuple[str, str], str] = {}
    running: set[str] = set()
    before: TraceLine | None = None
    for line in lines:
        if line.is_sent:
            if line.method == methods.PROMPT:
                prompts[id_key(line.id)] = line.session_id
                running.add(line.session_id)
        elif line.is_response:
            prompted = prompts.pop(id_key(line.id), "")
            if protocol == 1 or "error" in line.message:
                running.discard(prompted)
        elif line.kind == vocabulary.STATE_UPDATE and line.update.get("state") == "idle":
            running.discard(line.session_id)
        elif line.kind in vocabulary.CONVERSATION:
            if before is not None and _is_leak(before, line, running):
                message = f"{line.kind} of one session came under the id of another too"
                yield Fault(message, (before, line))
            before = line


def _is_leak(one: TraceLine, other: TraceLine, running: set[str]) -> bool:
    ids = {one.session_id, other.session_id}
    return len(ids) > 1 and len(ids & running) == 1 and one.update == other.update


def has_arrays(line: TraceLine) -> bool:
    """Return whether a line has options or commands."""
    return any(name in _fields_of(line) for name in _ARRAYS)


def null_arrays(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find options and commands that are not arrays."""
    for line in lines:
        values = _fields_of(line)
        for name in _ARRAYS:
            if not line.is_sent and name in values and not isinstance(values[name], list):
                yield Fault(f"{name} is no array: leave it out if there are none", (line,))


def _fields_of(line: TraceLine) -> Json:
    return line.update if line.kind else as_object(line.message.get("result"))
