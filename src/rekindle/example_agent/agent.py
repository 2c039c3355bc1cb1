"""The agent as one client meets it: it reads lines, and agrees on a version of the protocol."""

from rekindle.example_agent.form import Form
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_version
from rekindle.example_agent.rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Connection,
    Request,
    RpcError,
    as_rpc_error,
    decode,
)
from rekindle.example_agent.sessions import Sessions
from rekindle.example_agent.v1 import FormV1
from rekindle.example_agent.v2 import FormV2

_FORMS = {1: FormV1, 2: FormV2}


class Agent:
    """Answers one client. One thread calls `receive`; every turn has a thread of its own."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._sessions = Sessions(connection, options)
        self._forms = {it: _FORMS[it](self._sessions, options) for it in options.versions}
        self._form: Form = self._forms[max(self._forms)]

    def receive(self, line: bytes) -> None:
        """Handle one line of the client's. Whatever it holds, it raises only BrokenPipeError."""
        if not line.strip():
            return
        try:
            message = decode(line)
        except ValueError as error:
            self._complain(RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        match message:
            case {"method": str(), "id": request_id} if not self._form.accepts_id(request_id):
                self._complain(RpcError(INVALID_REQUEST, f"{request_id!r} cannot be an id"))
            case {"method": str(), "id": _}:
                self._serve(Request(self._connection, message))
            case {"method": "session/cancel", "params": {"sessionId": str(session_id)}}:
                self._sessions.cancel(session_id)
            case {"method": str()}:
                pass  # a notification we do not know
            case {"result": _} | {"error": _}:
                self._connection.settle(message)
            case _:
                self._complain(RpcError(INVALID_REQUEST, "not a JSON-RPC message"))

    def stop(self) -> None:
        """Cancel every turn, and wait a moment for them to end."""
        self._sessions.stop()

    def _complain(self, error: RpcError) -> None:
        self._connection.send({"jsonrpc": "2.0", "id": None, "error": error.as_json()})

    def _serve(self, request: Request) -> None:
        try:
            form = self._agreed(request) if request.method == "initialize" else self._form
            form.methods.get(request.method, _refuse)(request)
            self._form = form
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets an answer, never a traceback
            request.answer(as_rpc_error(error))

    def _agreed(self, request: Request) -> Form:
        """Return the highest form that is not above the client's version."""
        if list(self._forms) == [1]:
            return self._form  # in version 1 an agent answers whatever version it is asked for
        requested = read_version(request.params)
        supported = sorted(self._forms)
        fitting = [version for version in supported if version <= requested]
        if not fitting:
            raise RpcError(
                UNSUPPORTED_VERSION,
                f"no version of the protocol up to {requested} is supported",
                {"requested": requested, "supported": supported},
            )
        return self._forms[fitting[-1]]


def _refuse(request: Request) -> None:
    data = {"method": request.method}
    raise RpcError(METHOD_NOT_FOUND, f"no method {request.method!r}", data)
