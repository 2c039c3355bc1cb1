"""Rules for responses: the fields of a result, and the code of an error."""

from collections.abc import Iterable, Iterator, Sequence

from rekindle.acp.jsonrpc import METHOD_NOT_FOUND
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.rules.updates import has_zone, is_absolute, is_id, is_time
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_array, as_object

_V1_ID, _V2_ID = "id", "methodId"


def bad_initialize(exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Check the response to `initialize`, by the version in it."""
    result = exchange.result
    if result.get("protocolVersion", protocol) == 1:
        yield from _bad_v1_initialize(exchange)
        return
    if has_v1_form(result):
        yield Fault("the answer has version 2, but the form of version 1", exchange.lines)
        return
    info = as_object(result.get("info"))
    if not all(isinstance(info.get(name), str) for name in ("name", "version")):
        yield Fault("`info` lacks the agent's name or version", exchange.lines)
    if not _is_object(result.get("capabilities")):
        yield Fault("`capabilities` is missing", exchange.lines)
    capabilities = as_object(result.get("capabilities"))
    yield from _not_objects(exchange, "capabilities", capabilities, {"session", "auth"})
    session = as_object(capabilities.get("session"))
    yield from _not_objects(exchange, "capabilities.session", session, set(session))


def has_v1_form(result: Json) -> bool:
    """Return whether a response to `initialize` has the form of version 1, whatever it claims."""
    return "agentCapabilities" in result


def _bad_v1_initialize(exchange: Exchange) -> Iterator[Fault]:
    capabilities = as_object(exchange.result.get("agentCapabilities"))
    if not capabilities and not _is_object(exchange.result.get("agentCapabilities", {})):
        yield Fault("`agentCapabilities` is not an object", exchange.lines)
    if not isinstance(capabilities.get("loadSession", False), bool):
        yield Fault("`loadSession` is neither true nor false", exchange.lines)
    parts = {"promptCapabilities", "mcpCapabilities", "sessionCapabilities"}
    yield from _not_objects(exchange, "agentCapabilities", capabilities, parts)
    for part in ("promptCapabilities", "mcpCapabilities"):
        for name, value in as_object(capabilities.get(part)).items():
            if name != "_meta" and not isinstance(value, bool):
                yield Fault(f"`{part}.{name}` is neither true nor false", exchange.lines)
    session = as_object(capabilities.get("sessionCapabilities"))
    yield from _not_objects(exchange, "sessionCapabilities", session, set(session))


def _not_objects(exchange: Exchange, where: str, values: Json, names: set[str]) -> Iterator[Fault]:
    for name in sorted(names & values.keys()):
        if values[name] is not None and not _is_object(values[name]):
            yield Fault(f"`{where}.{name}` is not an object; `{{}}` means yes", exchange.lines)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_array(value: object) -> bool:
    return isinstance(value, list)


def bad_auth_methods(exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Check the login methods, by the version that the response has the form of."""
    version = exchange.result.get("protocolVersion", protocol)
    id_field = _V1_ID if version == 1 or has_v1_form(exchange.result) else _V2_ID
    if not _is_array(exchange.result.get("authMethods") or []):
        yield Fault("`authMethods` is not an array", exchange.lines)
    for method in map(as_object, as_array(exchange.result.get("authMethods"))):
        if not is_id(method.get(id_field)) or not isinstance(method.get("name"), str):
            yield Fault(
                f"an authentication method lacks its `{id_field}` or its name", exchange.lines
            )


def repeated_auth_ids(exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Find authentication methods that share an id."""
    ids = [it.get(_V1_ID if protocol == 1 else _V2_ID) for it in auth_methods(exchange)]
    for one in dict.fromkeys(it for it in ids if isinstance(it, str) and ids.count(it) > 1):
        yield Fault(f"two authentication methods have the id {one!r}", exchange.lines)


def bad_auth_types(exchange: Exchange) -> Iterator[Fault]:
    """Find authentication methods of unknown types."""
    for method in auth_methods(exchange):
        kind = method.get("type")
        if not (vocabulary.is_custom(kind) or kind in vocabulary.AUTH_TYPES):
            yield Fault(f"version 2 has no authentication method of type {kind!r}", exchange.lines)


def auth_methods(exchange: Exchange) -> list[Json]:
    """Return the authentication methods of a response to `initialize`."""
    return [as_object(it) for it in as_array(exchange.result.get("authMethods"))]


def is_terminal_login(method: Json) -> bool:
    """Return whether an authentication method runs in a terminal."""
    return method.get("type") == "terminal"


def unrequested_terminal_login(exchange: Exchange) -> Iterator[Fault]:
    """Find terminal logins for a client that does not announce a terminal."""
    if any(map(is_terminal_login, auth_methods(exchange))):
        message = "a terminal login is offered, but the client has not announced a terminal"
        yield Fault(message, exchange.lines)


def bad_terminal_login(exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Check the arguments and the variables of terminal logins."""
    for method in filter(is_terminal_login, auth_methods(exchange)):
        arguments, variables = method.get("args"), method.get("env")
        if arguments is not None and not (
            _is_array(arguments) and all(isinstance(it, str) for it in as_array(arguments))
        ):
            yield Fault("`args` of a terminal login is not an array of texts", exchange.lines)
        if variables is not None and not _are_variables(variables, protocol):
            form = "an object of texts" if protocol == 1 else "an array of names with values"
            yield Fault(f"`env` of a terminal login is not {form}", exchange.lines)


def _are_variables(variables: object, protocol: int) -> bool:
    if protocol == 1:
        values = as_object(variables).values()
        return _is_object(variables) and all(isinstance(it, str) for it in values)
    pairs = [as_object(it) for it in as_array(variables)]
    names = [it.get("name") for it in pairs]
    are_texts = all(is_id(it.get("name")) and isinstance(it.get("value"), str) for it in pairs)
    return _is_array(variables) and are_texts and len(names) == len({*map(str, names)})


def missing_info(exchange: Exchange) -> Iterator[Fault]:
    """Check that an agent of version 1 has a name and a version."""
    info = as_object(exchange.result.get("agentInfo"))
    if not all(is_id(info.get(name)) for name in ("name", "version")):
        yield Fault("`agentInfo` lacks the agent's name or version", exchange.lines)


def bad_status(exchange: Exchange) -> Iterator[Fault]:
    """Check the response to `session/status`."""
    yield from not_an_object(exchange)
    status = exchange.result.get("status")
    if exchange.is_result and not (
        vocabulary.is_custom(status) or status in vocabulary.SESSION_STATUSES
    ):
        yield Fault(f"`session/status` returns {status!r}", exchange.lines)


def other_status(exchange: Exchange, expected: str) -> Iterator[Fault]:
    """Check that a response has the expected status."""
    status = exchange.result.get("status")
    if status != expected:
        yield Fault(f"the session is {expected}, but its status is {status!r}", exchange.lines)


def missing_session_id(exchange: Exchange) -> Iterator[Fault]:
    """Check that a response has a session id."""
    if not exchange.is_result or not is_id(exchange.result.get("sessionId")):
        yield Fault(f"no session id was returned: {exchange.describe()}", exchange.lines)


def not_an_object(exchange: Exchange, *, or_null: bool = False) -> Iterator[Fault]:
    """Check that a result is an object, or also null if `or_null` is set."""
    if not exchange.is_result:
        yield Fault(
            f"{exchange.request.method} does not work: {exchange.describe()}", exchange.lines
        )
        return
    result = exchange.response.message.get("result") if exchange.response else None
    if not _is_object(result) and not (or_null and result is None):
        yield Fault(f"{exchange.request.method} is answered with {result!r}", exchange.lines)


def not_refused(exchange: Exchange, code: int | None = None, what: str = "it") -> Iterator[Fault]:
    """Check that a response is an error, with this code if one is given."""
    if not exchange.is_refused:
        yield Fault(f"{what} is not refused with an error: {exchange.describe()}", exchange.lines)
    elif code is not None and exchange.code != code:
        message = f"{what} is refused with {exchange.code} instead of {code}"
        yield Fault(message, exchange.lines)


def missing_method(exchange: Exchange) -> Iterator[Fault]:
    """Check that a method exists, whatever its response is."""
    if exchange.response is None:
        yield Fault(
            f"{exchange.request.method} is advertised: {exchange.describe()}", exchange.lines
        )
    elif exchange.code == METHOD_NOT_FOUND:
        yield Fault(f"{exchange.request.method} is advertised, but not implemented", exchange.lines)


def shared_ids(exchanges: Iterable[Exchange]) -> Iterator[Fault]:
    """Find two sessions with the same id."""
    first: dict[object, Exchange] = {}
    for exchange in exchanges:
        session_id = exchange.result.get("sessionId")
        if session_id in first:
            lines = (*first[session_id].lines, *exchange.lines)
            yield Fault(f"two sessions have the id {session_id!r}", lines)
        elif is_id(session_id):
            first[session_id] = exchange


def bad_list(exchange: Exchange) -> Iterator[Fault]:
    """Check a page of a list, except its times."""
    if not _is_array(exchange.result.get("sessions")):
        yield Fault("`sessions` is not an array; without sessions, it is empty", exchange.lines)
    if not isinstance(exchange.result.get("nextCursor"), str | None):
        yield Fault("`nextCursor` is not a text", exchange.lines)
    for entry in map(as_object, as_array(exchange.result.get("sessions"))):
        yield from (Fault(message, exchange.lines) for message in _bad_entry(entry))


def _bad_entry(entry: Json) -> Iterator[str]:
    if not is_id(entry.get("sessionId")):
        yield "a session in the list has no id"
    if not is_absolute(entry.get("cwd")):
        yield f"a session in the list has no absolute folder: {entry.get('cwd')!r}"
    if not isinstance(entry.get("title"), str | None):
        yield "a session in the list has a title that is not a text"
    roots: object = entry.get("additionalDirectories")
    if roots is not None and not (_is_array(roots) and all(map(is_absolute, as_array(roots)))):
        yield "a session in the list has `additionalDirectories` that are not absolute paths"


def bad_times(exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Find times in a list that are invalid or have no zone."""
    for entry in map(as_object, as_array(exchange.result.get("sessions"))):
        time = entry.get("updatedAt")
        if time is not None and not (is_time(time, protocol) and has_zone(time)):
            form = "ISO 8601 with a time zone" if protocol == 1 else "RFC 3339"
            yield Fault(f"`updatedAt` is {time!r}, which is not {form}", exchange.lines)


def bad_options(options: Sequence[Json], exchange: Exchange, protocol: int) -> Iterator[Fault]:
    """Check the config options of a session."""
    id_field = "id" if protocol == 1 else "configId"
    for option in options:
        if not is_id(option.get(id_field)) or not isinstance(option.get("name"), str):
            yield Fault(f"an option lacks its `{id_field}` or its name", exchange.lines)
        if "currentValue" not in option:
            yield Fault("an option has no `currentValue`", exchange.lines)
        if protocol == 1 and option.get("type") == "boolean":
            message = "an option has the type boolean, which the client has not announced"
            yield Fault(message, exchange.lines)


def incomplete_options(
    before: Sequence[Json], exchange: Exchange, protocol: int
) -> Iterator[Fault]:
    """Check the response after an option was set to its own value."""
    id_field = "id" if protocol == 1 else "configId"
    if not exchange.is_result:
        yield Fault(f"an option cannot be set: {exchange.describe()}", exchange.lines)
        return
    had = [it.get(id_field) for it in before]
    has = [as_object(it).get(id_field) for it in as_array(exchange.result.get("configOptions"))]
    if missing := [it for it in had if it not in has]:
        yield Fault(f"the answer lacks the options {missing}", exchange.lines)
