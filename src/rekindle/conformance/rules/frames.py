"""Rules for all lines of a connection: JSON-RPC, names, and allowed calls."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import fields, vocabulary
from rekindle.conformance.trace import Exchange, TraceLine, id_key, same_id
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode

_MAX_SHOWN = 60
_FREE_FORM = ("rawInput", "rawOutput", "data")
"""Fields that hold any JSON."""
_ARRAYS = ("configOptions", "availableCommands")


def invalid_messages(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find lines of the agent that are not JSON-RPC messages.

    In version 2 the answers to a batch may be an array.
    """
    for line in lines:
        if line.is_sent or not line.data.strip():
            continue
        members = as_array(decode(line.data))
        if protocol > 1 and members and all(map(_is_response, members)):
            continue
        if isinstance(decode(line.data), list):
            yield Fault("a batch was sent, but ACP has no batches", (line,))
        elif not line.message:
            begin = line.data[:_MAX_SHOWN].decode("utf-8", "replace")
            yield Fault(f"a line on stdout is not a JSON-RPC message: {begin!r}", (line,))
        elif line.message.get("jsonrpc") != "2.0":
            yield Fault('a message has no `jsonrpc` of "2.0"', (line,))
        elif not _is_utf8(line.data):
            yield Fault("a message is not in UTF-8", (line,))


def _is_response(member: object) -> bool:
    message = as_object(member)
    return "id" in message and "method" not in message


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
                yield Fault("a method is not a text", (line,))
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
            yield Fault("an error has no integer code", (line,))
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
            yield Fault(f"{matching[0].method} was answered twice", (matching[0], line))
        elif line.id is not None:
            # A response without an id belongs to a line that could not be parsed.
            yield Fault(f"an answer has the id {line.id!r}, which no request has", (line,))


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
            yield Fault(f"{line.method} is not a client method of the protocol", (line,))


def unsupported_calls(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find requests and updates that need a capability of the client."""
    for line in lines:
        if line.is_sent:
            continue
        if line.is_request and vocabulary.needs_a_capability(line.method):
            yield Fault(
                f"{line.method} was called, but the client does not have this capability", (line,)
            )
        if protocol == 1 and line.kind in vocabulary.UPDATES_FOR_SOME_CLIENTS:
            yield Fault(
                f"{line.kind} was sent, but the client has not announced that it knows it", (line,)
            )


def bad_ids(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find requests with an invalid id."""
    for line in lines:
        if line.is_sent or not line.is_request:
            continue
        is_number = isinstance(line.id, int) and not isinstance(line.id, bool)
        # Version 1 allows null, but advises against it.
        if not is_number and not isinstance(line.id, str) and (protocol > 1 or line.id is not None):
            yield Fault(f"{line.method} has the id {line.id!r}", (line,))


def unknown_kinds(lines: Iterable[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find updates of kinds that the version does not have."""
    known = fields.UPDATES[protocol]
    for line in lines:
        if line.is_sent or line.method != methods.UPDATE:
            continue
        if not line.kind:
            yield Fault("an update has no kind", (line,))
        elif line.kind == vocabulary.HISTORY_TRUNCATED:
            continue
        elif line.kind not in known and not (protocol > 1 and vocabulary.is_custom(line.kind)):
            yield Fault(f"version {protocol} has no update {line.kind}", (line,))


def unknown_sessions(lines: Iterable[TraceLine], known: Iterable[str]) -> Iterator[Fault]:
    """Find updates of sessions that the client has not opened, and that are no sub-agents."""
    ids = {*known}
    for line in lines:
        if line.kind == vocabulary.SUBAGENT_UPDATE:
            ids.add(as_str(line.update.get("sessionId")) or "")
        if not line.is_sent and line.kind and line.session_id not in ids:
            message = f"an update is for session {line.session_id!r}, which is not open"
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
                message = f"{line.kind} of one session was also sent with the id of another"
                yield Fault(message, (before, line))
            before = line


def bad_subagents(lines: Iterable[TraceLine], known: Iterable[str]) -> Iterator[Fault]:
    """Find sub-agents without an id, and messages of sub-agents that are announced too late.

    `known` are the sessions of the client. Lines of a session that is never announced belong to no
    sub-agent: `unknown_sessions` finds them.
    """
    received = [it for it in lines if not it.is_sent]
    announcements = [it for it in received if it.kind == vocabulary.SUBAGENT_UPDATE]
    children = {as_str(it.update.get("sessionId")) or "" for it in announcements} - {*known}
    announced: set[str] = set()
    for line in received:
        if line.kind == vocabulary.SUBAGENT_UPDATE:
            child = as_str(line.update.get("sessionId")) or ""
            if not child:
                yield Fault("subagent_update has no `sessionId`", (line,))
            cwd = line.update.get("cwd")
            if cwd is not None and not (isinstance(cwd, str) and PurePath(cwd).is_absolute()):
                yield Fault(f"the folder of a sub-agent is not absolute: {cwd!r}", (line,))
            announced.add(child)
        named = {line.session_id, *map(_text, _named_sessions(line))}
        if named & children - announced:
            what = line.kind or line.method
            yield Fault(f"{what} names a sub-agent before it is announced", (line,))


def _named_sessions(line: TraceLine) -> list[object]:
    if line.kind not in vocabulary.SESSION_MESSAGES:
        return []
    return [line.update.get(it) for it in ("senderSessionId", "recipientSessionId")]


def _text(value: object) -> str:
    return as_str(value) or ""


def bad_error_messages(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find errors without a message, or with one of several lines."""
    for line in lines:
        if line.is_sent or not line.is_response or line.message.get("error") is None:
            continue
        message = as_object(line.message["error"]).get("message")
        if not isinstance(message, str) or not message.strip() or "\n" in message.strip():
            yield Fault(f"the message of an error is {message!r}", (line,))


def bad_meta(lines: Iterable[TraceLine]) -> Iterator[Fault]:
    """Find `_meta` that is neither an object nor null."""
    for line in lines:
        if not line.is_sent:
            for value in _find_meta(line.message):
                if value is not None and not isinstance(value, dict):
                    yield Fault(f"`_meta` is {value!r}", (line,))


def _find_meta(value: object) -> Iterator[object]:
    """Yield each `_meta` in a message. The contents of `_meta` are the agent's own."""
    for name, inner in as_object(value).items():
        if name == "_meta":
            yield inner
        elif name not in _FREE_FORM:
            yield from _find_meta(inner)
    for inner in as_array(value):
        yield from _find_meta(inner)


def late_exits(lines: Sequence[TraceLine], *, exited_in_time: bool) -> Iterator[Fault]:
    """Check that a process exited when its input was closed."""
    if not exited_in_time:
        message = "the agent did not exit when its input was closed, and had to be stopped"
        yield Fault(message, tuple(lines[-1:]))


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
                yield Fault(f"{name} is not an array; omit it if there are none", (line,))


def _fields_of(line: TraceLine) -> Json:
    return line.update if line.kind else as_object(line.message.get("result"))
