"""`initialize`, and unknown methods, versions and lines."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, UNSUPPORTED_VERSION
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import responses
from rekindle.conformance.session_runner import HIGHEST_VERSION, SessionRunner, initialize_params
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_array, as_object

_UNKNOWN = "_rekindle/check"
_NO_METHOD = "rekindle-check-has-none"
_TEXT_ID = "rekindle-check"
_NO_AUTH = "the agent has no authentication methods"
_LOGOUT = {1: methods.LOGOUT, 2: methods.AUTH_LOGOUT}
_INVALID_JSON = b'{"jsonrpc": "2.0", "id": '


async def check_greeting(runner: SessionRunner) -> None:
    """Check the handshake, and how the agent handles unknown input."""
    try:
        await runner.processes.current()
    finally:
        _check_handshake(runner)
    await _check_unknown_messages(runner)
    await _check_text_id(runner)
    await _check_other_versions(runner)
    await _check_terminal_login(runner)
    await _check_logout(runner)


def _check_handshake(runner: SessionRunner) -> None:
    exchange = runner.processes.handshake
    if exchange is None or exchange.response is None:
        return
    if exchange.code != UNSUPPORTED_VERSION:  # such an agent names the versions that it speaks
        runner.results.check("greeting.version", _wrong_version(exchange))
    if exchange.is_result:
        runner.results.check("greeting.shape", responses.bad_initialize(exchange, runner.protocol))
        runner.results.check("greeting.auth", responses.bad_auth_methods(exchange, runner.protocol))
        _check_identity(runner, exchange)


def _check_identity(runner: SessionRunner, exchange: Exchange) -> None:
    check, protocol = runner.results.check, runner.protocol
    check("greeting.info", responses.missing_info(exchange))
    check("greeting.terminal-login", responses.unrequested_terminal_login(exchange))
    if responses.auth_methods(exchange):
        check("greeting.auth-ids", responses.repeated_auth_ids(exchange, protocol))
        check("greeting.auth-types", responses.bad_auth_types(exchange))
    else:
        for name in ("greeting.auth-ids", "greeting.auth-types"):
            runner.results.not_offered(name, _NO_AUTH)


def _wrong_version(exchange: Exchange) -> Iterator[Fault]:
    if not exchange.is_result:
        yield Fault(f"`initialize` failed: {exchange.describe()}", exchange.lines)
    elif not _is_version(exchange.result.get("protocolVersion")):
        yield Fault("the answer to `initialize` has no `protocolVersion`", exchange.lines)


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


async def _check_unknown_messages(runner: SessionRunner) -> None:
    unknown = await runner.probe(_UNKNOWN, {})
    faults = responses.not_refused(unknown, METHOD_NOT_FOUND, "an unknown method")
    runner.results.check("greeting.unknown-method", faults)
    peer = await runner.processes.current()
    since = len(peer.lines)
    peer.notify(_UNKNOWN, {"about": "nothing"})
    # A response to this means that the agent has read the notification.
    await runner.probe(_UNKNOWN, {})
    runner.results.check("greeting.unknown-notification", _answered_notification(peer, since))
    if runner.protocol > 1:
        await _check_removed_methods(runner)
        await _check_login(runner)


async def _check_text_id(runner: SessionRunner) -> None:
    peer = await runner.processes.current()
    request = peer.request(_UNKNOWN, {}, _TEXT_ID)
    await runner.probe(_UNKNOWN, {})
    # The next request is answered, so this answer is at most a moment behind.
    exchange = await peer.response_to(request, runner.settings.quiet_seconds)
    faults: list[Fault] = []
    if exchange.response is None:
        message = f"the request with the id {_TEXT_ID!r} got no answer with that id"
        later = peer.lines[peer.lines.index(request) + 1 :]
        answers = [it for it in later if it.is_response and not it.is_sent]
        faults.append(Fault(message, (request, *answers)))
    runner.results.check("greeting.text-id", faults)


def _answered_notification(peer: Peer, since: int) -> Iterator[Fault]:
    lines = peer.lines[since:]
    for line in lines:
        if not line.is_sent and line.is_response and line.id is None:
            yield Fault("an unknown notification is answered", (lines[0], line))
    if how := peer.describe_exit():
        yield Fault(f"after an unknown notification {how}", (lines[0],))


async def _check_removed_methods(runner: SessionRunner) -> None:
    session: Json = {"sessionId": "nobody", "cwd": str(runner.settings.folder), "mcpServers": []}
    removed: dict[str, Json] = {
        methods.LOAD: session,
        methods.SET_MODE: {"sessionId": "nobody", "modeId": "none"},
        methods.AUTHENTICATE: {"methodId": _NO_METHOD},
    }
    for method, params in removed.items():
        exchange = await runner.probe(method, params)
        faults = responses.not_refused(exchange, METHOD_NOT_FOUND, f"{method}, of version 1,")
        runner.results.check("greeting.gone", faults)


async def _check_login(runner: SessionRunner) -> None:
    """Log in with an unknown method, because that is the only harmless attempt."""
    if runner.processes.handshake is None or not as_array(
        runner.processes.handshake.result.get("authMethods")
    ):
        runner.results.not_offered("greeting.login", _NO_AUTH)
        return
    exchange = await runner.probe(methods.AUTH_LOGIN, {"methodId": _NO_METHOD})
    runner.results.check("greeting.login", responses.missing_method(exchange))


async def _check_other_versions(runner: SessionRunner) -> None:
    """Ask for invalid versions, each in its own process, because the agent may exit."""
    peer = await runner.processes.start()
    request = peer.request(methods.INITIALIZE, initialize_params(str(runner.protocol)))
    invalid = await peer.response_to(request, runner.settings.timeout)
    runner.results.check("greeting.odd", _accepted_version(invalid, str(runner.protocol)))
    await peer.kill()
    peer = await runner.processes.start()
    higher = await runner.processes.ask(
        peer, methods.INITIALIZE, initialize_params(HIGHEST_VERSION)
    )
    runner.results.check("greeting.higher", _wrong_highest_version(higher, runner.protocol))
    if runner.protocol > 1:
        await _check_lower_version(runner)
    own = peer if higher.is_result else await runner.processes.current()
    await _check_invalid_json(runner, own)
    await peer.kill()
    if own is not peer:
        # After invalid JSON, the agent may not read any more.
        await runner.processes.stop(kill=True)


async def _check_lower_version(runner: SessionRunner) -> None:
    """Ask for version 1. An agent of version 2 only may answer with that."""
    peer = await runner.processes.start()
    # An agent of version 2 only needs its own fields.
    params = initialize_params(2) | initialize_params(1)
    request = peer.request(methods.INITIALIZE, params)
    lower = await peer.response_to(request, runner.settings.timeout)
    runner.results.check("greeting.lower", _wrong_lower_version(lower))
    await peer.kill()


def _wrong_lower_version(exchange: Exchange) -> Iterator[Fault]:
    version = exchange.result.get("protocolVersion")
    if not exchange.is_result:
        yield Fault(f"version 1 was asked for: {exchange.describe()}", exchange.lines)
    elif not _is_version(version) or version not in (1, 2):
        yield Fault(f"version 1 was asked for, and {version!r} was returned", exchange.lines)


async def _check_terminal_login(runner: SessionRunner) -> None:
    """Announce a terminal in another process, and check the terminal logins."""
    peer = await runner.processes.start()
    params = initialize_params(runner.protocol, has_terminal=True)
    exchange = await runner.processes.ask(peer, methods.INITIALIZE, params)
    if any(map(responses.is_terminal_login, responses.auth_methods(exchange))):
        faults = responses.bad_terminal_login(exchange, runner.protocol)
        runner.results.check("greeting.terminal-fields", faults)
    else:
        runner.results.not_offered("greeting.terminal-fields", "the agent has no terminal login")
    await peer.kill()


async def _check_logout(runner: SessionRunner) -> None:
    """Log out in the current process, which ends then."""
    name = "greeting.logout"
    if not _offers_logout(runner):
        runner.results.not_offered(name, "the agent announces no logout")
        return
    if not runner.settings.allow_logout:
        runner.results.not_seen(name, "pass --allow-logout to log out: it takes effect")
        return
    peer = await runner.processes.current()
    exchange = await runner.processes.ask(peer, _LOGOUT[runner.protocol], {})
    runner.results.check(name, responses.not_an_object(exchange))
    await runner.processes.stop()


def _offers_logout(runner: SessionRunner) -> bool:
    """Return whether the agent announces a logout: in version 2, by any login."""
    handshake = runner.processes.handshake
    if handshake is None:
        return False
    if runner.protocol > 1:
        return bool(responses.auth_methods(handshake))
    capabilities = as_object(handshake.result.get("agentCapabilities"))
    return as_object(capabilities.get("auth")).get("logout") is not None


def _accepted_version(exchange: Exchange, version: str) -> Iterator[Fault]:
    if exchange.response is None:
        yield Fault(f"an invalid version: {exchange.describe()}", exchange.lines)
    elif exchange.is_result and not _is_version(exchange.result.get("protocolVersion")):
        yield Fault(f"the invalid version {version!r} was accepted", exchange.lines)


def _wrong_highest_version(exchange: Exchange, spoken: int) -> Iterator[Fault]:
    version = exchange.result.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        yield Fault(
            f"a higher version has no version in its answer: {exchange.describe()}", exchange.lines
        )
    elif version == HIGHEST_VERSION:
        yield Fault(f"the agent claims to support version {version}", exchange.lines)
    elif version < spoken:
        message = f"a higher version is answered with {version}, but the agent supports {spoken}"
        yield Fault(message, exchange.lines)


async def _check_invalid_json(runner: SessionRunner, peer: Peer) -> None:
    since = len(peer.lines)
    broken = peer.write(_INVALID_JSON)
    # A response to this means that the agent has read the line before it.
    await peer.response_to(peer.request(_UNKNOWN, {}), runner.settings.timeout)
    received = [line for line in peer.lines[since:] if not line.is_sent and line.is_response]
    errors = [Exchange(broken, line) for line in received if line.id is None]
    runner.results.check(
        "greeting.parse", _invalid_json_unreported(peer, errors or [Exchange(broken, None)])
    )


def _invalid_json_unreported(peer: Peer, exchanges: list[Exchange]) -> Iterator[Fault]:
    if how := peer.describe_exit():
        yield Fault(f"after a line that is not JSON {how}", exchanges[0].lines)
    elif exchanges[0].response is None:
        yield Fault("a line that is not JSON was not answered", exchanges[0].lines)
    else:
        yield from responses.not_refused(exchanges[0], PARSE_ERROR, "a line that is not JSON")
