"""The agent that a client connects to: the main loop, and the choice of a protocol version."""

import sys
from collections.abc import Sequence
from typing import Any

from rekindle.example_agent.handlers import Handlers
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_version
from rekindle.example_agent.rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Batch,
    Connection,
    Request,
    Responder,
    RpcError,
    as_rpc_error,
    decode,
)
from rekindle.example_agent.session import SessionRegistry
from rekindle.example_agent.version_1 import HandlersV1
from rekindle.example_agent.version_2 import HandlersV2

_STDOUT = 1
_VERSIONS = {1: HandlersV1, 2: HandlersV2}


class Agent:
    """Serves one client. One thread calls `receive`; every turn has its own thread."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._sessions = SessionRegistry(connection, options)
        self._versions = {it: _VERSIONS[it](self._sessions, options) for it in options.versions}
        self._handlers: Handlers = self._versions[max(self._versions)]

    def receive(self, line: bytes) -> None:
        """Handle one line of the client. Raises only BrokenPipeError, for any input."""
        if not line.strip():
            return
        try:
            message = decode(line)
        except ValueError as error:
            _send_error(self._connection, PARSE_ERROR, f"not JSON: {error}")
            return
        match message:
            case [_, *_] as members if self._handlers.has_batches:
                self._receive_batch(members)
            case _:
                self._handle(message, self._connection)

    def _receive_batch(self, members: Sequence[Any]) -> None:
        batch = Batch(self._connection, sum(map(_needs_response, members)))
        for member in members:
            self._handle(member, batch)

    def _handle(self, message: Any, responder: Responder) -> None:  # noqa: ANN401 - any JSON value
        match message:
            case {"method": str(), "id": request_id} if not self._handlers.accepts_id(request_id):
                _send_error(responder, INVALID_REQUEST, f"{request_id!r} cannot be an id")
            case {"method": str(), "id": _}:
                self._serve(Request(responder, message))
            case {"method": "session/cancel", "params": {"sessionId": str(session_id)}}:
                self._sessions.cancel(session_id)
            case {"method": str()}:
                pass  # an unknown notification
            case {"result": _} | {"error": _}:
                self._connection.resolve(message)
            case _:
                _send_error(responder, INVALID_REQUEST, "not a JSON-RPC message")

    def stop(self) -> None:
        """Cancel all turns, and wait a short time for their end."""
        self._sessions.stop()

    def _serve(self, request: Request) -> None:
        try:
            handlers = (
                self._negotiate(request) if request.method == "initialize" else self._handlers
            )
            handlers.methods.get(request.method, _refuse)(request)
            self._handlers = handlers
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the client receives an error response
            request.respond(as_rpc_error(error))

    def _negotiate(self, request: Request) -> Handlers:
        """Return the handlers of the highest version that is not above the client's."""
        if list(self._versions) == [1]:
            return self._handlers  # an agent of version 1 answers with 1 to any version
        requested = read_version(request.params)
        supported = sorted(self._versions)
        fitting = [version for version in supported if version <= requested]
        if not fitting:
            raise RpcError(
                UNSUPPORTED_VERSION,
                f"no version of the protocol up to {requested} is supported",
                {"requested": requested, "supported": supported},
            )
        return self._versions[fitting[-1]]


def _needs_response(message: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether a member of a batch is a request, or is not a message."""
    match message:
        case {"method": str(), "id": _}:
            return True
        case {"method": str()}:
            return False
        case {"result": _} | {"error": _}:
            return False
        case _:
            return True


def _send_error(responder: Responder, code: int, text: str) -> None:
    responder.send({"jsonrpc": "2.0", "id": None, "error": RpcError(code, text).as_json()})


def _refuse(request: Request) -> None:
    data = {"method": request.method}
    raise RpcError(METHOD_NOT_FOUND, f"no method {request.method!r}", data)


def serve(options: Options) -> int:
    """Serve one client on stdin and stdout until it disconnects; return the exit code."""
    try:
        agent = Agent(Connection(_STDOUT), options)
    except OSError as error:
        sys.stderr.write(f"rekindle: error: cannot use the memory folder: {error}\n")
        return 2
    try:
        for line in sys.stdin.buffer:
            agent.receive(line)
    except BrokenPipeError:
        pass  # the client has closed its input: the same as the end of ours
    except KeyboardInterrupt:
        return 130
    finally:
        agent.stop()
    return 0
