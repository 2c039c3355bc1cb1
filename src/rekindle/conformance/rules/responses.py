"""Judges of answers: whether a result has what its method promises, and an error its code."""

from collections.abc import Iterable, Iterator, Sequence

from rekindle.acp.jsonrpc import METHOD_NOT_FOUND
from rekindle.conformance.report import Fault
from rekindle.conformance.rules.updates import has_zone, is_absolute, is_id, is_time
from rekindle.conformance.trace import Answer, Json
from rekindle.jsonvalue import as_array, as_object

_V1_ID, _V2_ID = "id", "methodId"


def bad_greeting(answer: Answer, protocol: int) -> Iterator[Fault]:
    """Judge the answer to `initialize`, by the version that it tells."""
    result = answer.result
    if result.get("protocolVersion", protocol) == 1:
        yield from _bad_v1_greeting(answer)
        return
    if is_of_v1(result):
        yield Fault("the answer says version 2, but is one of version 1", answer.lines)
        return
    info = as_object(result.get("info"))
    if not all(isinstance(info.get(name), str) for name in ("name", "version")):
        yield Fault("`info` lacks the agent's name or version", answer.lines)
    if not _is_object(result.get("capabilities")):
        yield Fault("`capabilities` is missing", answer.lines)
    told = as_object(result.get("capabilities"))
    yield from _not_objects(answer, "capabilities", told, {"session", "auth"})
    session = as_object(told.get("session"))
    yield from _not_objects(answer, "capabilities.session", session, set(session))


def is_of_v1(greeting: Json) -> bool:
    """Tell whether an answer to `initialize` is one of version 1, whatever it says."""
    return "agentCapabilities" in greeting


def _bad_v1_greeting(answer: Answer) -> Iterator[Fault]:
    told = as_object(answer.result.get("agentCapabilities"))
    if not told and not _is_object(answer.result.get("agentCapabilities", {})):
        yield Fault("`agentCapabilities` is no object", answer.lines)
    if not isinstance(told.get("loadSession", False), bool):
        yield Fault("`loadSession` is neither true nor false", answer.lines)
    parts = {"promptCapabilities", "mcpCapabilities", "sessionCapabilities"}
    yield from _not_objects(answer, "agentCapabilities", told, parts)
    for part in ("promptCapabilities", "mcpCapabilities"):
        for name, value in as_object(told.get(part)).items():
            if name != "_meta" and not isinstance(value, bool):
                yield Fault(f"`{part}.{name}` is neither true nor false", answer.lines)
    session = as_object(told.get("sessionCapabilities"))
    yield from _not_objects(answer, "sessionCapabilities", session, set(session))


def _not_objects(answer: Answer, where: str, values: Json, names: set[str]) -> Iterator[Fault]:
    for name in sorted(names & values.keys()):
        if values[name] is not None and not _is_object(values[name]):
            yield Fault(f"`{where}.{name}` is no object: `{{}}` means yes", answer.lines)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_array(value: object) -> bool:
    return isinstance(value, list)


def bad_auth_methods(answer: Answer, protocol: int) -> Iterator[Fault]:
    """Judge the ways to sign in that an agent names, by the version that it means."""
    told = answer.result.get("protocolVersion", protocol)
    name_of_id = _V1_ID if told == 1 or is_of_v1(answer.result) else _V2_ID
    if not _is_array(answer.result.get("authMethods") or []):
        yield Fault("`authMethods` is no array", answer.lines)
    for method in map(as_object, as_array(answer.result.get("authMethods"))):
        if not is_id(method.get(name_of_id)) or not isinstance(method.get("name"), str):
            yield Fault(f"a way to sign in lacks its `{name_of_id}` or its name", answer.lines)


def no_session(answer: Answer) -> Iterator[Fault]:
    """Judge an answer that has to name a session."""
    if not answer.is_result or not is_id(answer.result.get("sessionId")):
        yield Fault(f"no session id was given: {answer.in_words()}", answer.lines)


def not_an_object(answer: Answer, *, or_null: bool = False) -> Iterator[Fault]:
    """Judge an answer that has to be an object."""
    if not answer.is_result:
        yield Fault(f"{answer.request.method} does not work: {answer.in_words()}", answer.lines)
        return
    result = answer.line.message.get("result") if answer.line else None
    if not _is_object(result) and not (or_null and result is None):
        yield Fault(f"{answer.request.method} is answered with {result!r}", answer.lines)


def not_refused(answer: Answer, code: int | None = None, what: str = "it") -> Iterator[Fault]:
    """Judge an answer that has to be an error, with that code if one is given."""
    if not answer.is_refused:
        yield Fault(f"{what} is not refused with an error: {answer.in_words()}", answer.lines)
    elif code is not None and answer.code != code:
        words = f"{what} is refused with {answer.code}, and not with {code}"
        yield Fault(words, answer.lines)


def not_there(answer: Answer) -> Iterator[Fault]:
    """Judge a method that has to be there, whatever else it says."""
    if answer.line is None:
        yield Fault(f"{answer.request.method} is advertised: {answer.in_words()}", answer.lines)
    elif answer.code == METHOD_NOT_FOUND:
        yield Fault(f"{answer.request.method} is advertised, and is not there", answer.lines)


def shared_ids(answers: Iterable[Answer]) -> Iterator[Fault]:
    """Find sessions with an id that another has already."""
    first: dict[object, Answer] = {}
    for answer in answers:
        session_id = answer.result.get("sessionId")
        if session_id in first:
            lines = (*first[session_id].lines, *answer.lines)
            yield Fault(f"two sessions have the id {session_id!r}", lines)
        elif is_id(session_id):
            first[session_id] = answer


def bad_list(answer: Answer) -> Iterator[Fault]:
    """Judge a page of a list, but for its times."""
    if not _is_array(answer.result.get("sessions")):
        yield Fault("`sessions` is no array: where there are none, it is empty", answer.lines)
    if not isinstance(answer.result.get("nextCursor"), str | None):
        yield Fault("`nextCursor` is no text", answer.lines)
    for entry in map(as_object, as_array(answer.result.get("sessions"))):
        yield from (Fault(words, answer.lines) for words in _bad_entry(entry))


def _bad_entry(entry: Json) -> Iterator[str]:
    if not is_id(entry.get("sessionId")):
        yield "a session in the list has no id"
    if not is_absolute(entry.get("cwd")):
        yield f"a session in the list has no absolute folder: {entry.get('cwd')!r}"
    if not isinstance(entry.get("title"), str | None):
        yield "a session in the list has a title that is no text"
    roots: object = entry.get("additionalDirectories")
    if roots is not None and not (_is_array(roots) and all(map(is_absolute, as_array(roots)))):
        yield "a session in the list has `additionalDirectories` that are not absolute paths"


def bad_times(answer: Answer, protocol: int) -> Iterator[Fault]:
    """Find times in a list that are none, or have no zone."""
    for entry in map(as_object, as_array(answer.result.get("sessions"))):
        time = entry.get("updatedAt")
        if time is not None and not (is_time(time, protocol) and has_zone(time)):
            form = "ISO 8601 with a zone" if protocol == 1 else "RFC 3339"
            yield Fault(f"`updatedAt` is {time!r}: no time of {form}", answer.lines)


def bad_options(options: Sequence[Json], answer: Answer, protocol: int) -> Iterator[Fault]:
    """Judge the options of a session."""
    name_of_id = "id" if protocol == 1 else "configId"
    for option in options:
        if not is_id(option.get(name_of_id)) or not isinstance(option.get("name"), str):
            yield Fault(f"an option lacks its `{name_of_id}` or its name", answer.lines)
        if "currentValue" not in option:
            yield Fault("an option has no `currentValue`", answer.lines)
        if protocol == 1 and option.get("type") == "boolean":
            words = "an option is of type boolean, which the client has not said to know"
            yield Fault(words, answer.lines)


def incomplete_options(before: Sequence[Json], answer: Answer, protocol: int) -> Iterator[Fault]:
    """Judge the answer to an option that was set to the value it had."""
    name_of_id = "id" if protocol == 1 else "configId"
    if not answer.is_result:
        yield Fault(f"an option cannot be set: {answer.in_words()}", answer.lines)
        return
    had = [it.get(name_of_id) for it in before]
    has = [as_object(it).get(name_of_id) for it in as_array(answer.result.get("configOptions"))]
    if missing := [it for it in had if it not in has]:
        yield Fault(f"the answer lacks the options {missing}", answer.lines)
