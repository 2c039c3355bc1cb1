"""JSON-RPC with an agent: requests, and exactly one response to each. Knows no session.

Each line is handled completely before the next one. So a callback that receives a response has
seen the effects of everything before it, and of nothing after it.
"""

import asyncio
from collections.abc import Callable

from msgspec import UNSET, Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Envelope,
    error_response,
    notification,
    read_envelope,
    request,
    request_key,
    response,
    split_batch,
)
from rekindle.client.process import ProcessExit
from rekindle.errors import AgentGone, AgentRefused, AuthRequired, ClientError
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, encode


class RpcResponse(Struct, frozen=True):
    """The result of a request, or its error. The line is empty if none came."""

    line: bytes
    result: Json
    error: ClientError | None = None


class _OpenCall(Struct, frozen=True):
    method: str
    on_response: Callable[[RpcResponse], None]


class RpcConnection:
    """The client's end of a connection. The owner sets `write`, which sends a line."""

    def __init__(
        self,
        on_update: Callable[[str, bytes], None],
        on_permission_request: Callable[[str, Raw, bytes], None],
        on_withdrawn: Callable[[Raw], None],
    ) -> None:
        self._on_update = on_update
        self._on_permission_request = on_permission_request
        self._on_withdrawn = on_withdrawn
        self._last_id = 0
        self._open: dict[object, _OpenCall] = {}
        self._exit: ProcessExit | None = None
        self.write: Callable[[bytes], None] = _discard

    # -- sending ------------------------------------------------------------------------

    def send_request(
        self, method: str, params: Json, on_response: Callable[[RpcResponse], None]
    ) -> bytes:
        """Send a request, and return its line.

        `on_response` is called exactly once, before any later line is handled. Raises AgentGone.
        """
        if self._exit is not None:
            raise _agent_gone(method, self._exit)
        self._last_id += 1
        line = request(self._last_id, method, params)
        self._open["number", self._last_id] = _OpenCall(method, on_response)
        self.write(line)
        return line

    async def call(
        self,
        method: str,
        params: Json,
        on_result: Callable[[RpcResponse], object] | None = None,
        on_sent: Callable[[bytes], object] | None = None,
    ) -> Json:
        """Send a request, and return its result.

        `on_result` is called with the response before any later line is handled, and `on_sent`
        with the line of the request. Raises AgentRefused, AgentGone, and exceptions of both.
        """
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        def settle(received: RpcResponse) -> None:
            error = received.error
            if error is None and on_result is not None:
                try:
                    on_result(received)
                except ClientError as invalid:
                    error = invalid
            if answered.done():
                return  # the caller was cancelled
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(received.result)

        line = self.send_request(method, params, settle)
        if on_sent is not None:
            on_sent(line)
        return await answered

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.write(notification(method, params))

    def respond(self, request_id: Raw, result: Json) -> bytes:
        """Respond to a request of the agent; return the line."""
        line = response(request_id, result)
        self.write(line)
        return line

    def respond_error(self, request_id: Raw, code: int, message: str) -> bytes:
        """Respond to a request of the agent with an error; return the line."""
        line = error_response(request_id, code, message)
        self.write(line)
        return line

    # -- receiving ----------------------------------------------------------------------

    def receive(self, lines: bytes) -> None:
        """Handle lines of the agent. Lines that are not JSON are ignored: some print a banner."""
        for line in lines.split(b"\n"):
            message = read_envelope(line)
            if message is not None:
                self._receive(line, message)
            else:
                for member in split_batch(line) or []:
                    self.receive(member)

    def _receive(self, line: bytes, message: Envelope) -> None:
        if message.is_update:
            if message.session_id is not None:
                self._on_update(message.session_id, line)
        elif isinstance(message.id, Raw) and message.method is not UNSET:
            self._receive_request(line, message, message.id, message.method)
        elif isinstance(message.id, Raw) and message.is_response:
            self._receive_response(line, message.id)
        elif message.method == methods.CANCEL_REQUEST:
            withdrawn = as_object(as_object(decode_object(line)).get("params")).get("requestId")
            self._on_withdrawn(Raw(encode(withdrawn)))

    def _receive_request(
        self, line: bytes, message: Envelope, request_id: Raw, method: str
    ) -> None:
        if method == methods.REQUEST_PERMISSION and message.session_id is not None:
            self._on_permission_request(message.session_id, request_id, line)
        else:
            self.respond_error(
                request_id, METHOD_NOT_FOUND, f"this client does not support {method}"
            )

    def _receive_response(self, line: bytes, request_id: Raw) -> None:
        call = self._open.pop(request_key(request_id), None)
        if call is None:
            return
        message = as_object(decode_object(line))
        error = message.get("error")
        raised = read_error(call.method, as_object(error)) if error is not None else None
        call.on_response(RpcResponse(line, as_object(message.get("result")), raised))

    def close(self, process_exit: ProcessExit) -> None:
        """Fail all open requests: the agent has exited or closed its output."""
        self._exit = process_exit
        waiting, self._open = self._open, {}
        for call in waiting.values():
            call.on_response(RpcResponse(b"", {}, _agent_gone(call.method, process_exit)))


def _discard(line: bytes) -> None:
    del line


def _agent_gone(method: str, process_exit: ProcessExit) -> AgentGone:
    return AgentGone(method, process_exit.exit_code, process_exit.signal, process_exit.stderr)


def read_error(method: str, error: Json) -> ClientError:
    """Return the exception for a JSON-RPC error of the agent, or of Rekindle."""
    data = as_object(error.get("data"))
    if data.get("agentEnded") is True:
        # Rekindle reports the exit of its agent, and is still running.
        code, signal = data.get("exitCode"), as_str(data.get("signal"))
        stderr = [line for line in map(as_str, as_array(data.get("stderr"))) if line]
        exit_code = code if isinstance(code, int) else None
        return AgentGone(method, exit_code, signal, stderr, is_final=False)
    code = error.get("code")
    number = code if isinstance(code, int) else INTERNAL_ERROR
    kind = AuthRequired if number == AUTH_REQUIRED else AgentRefused
    message = as_str(error.get("message")) or "no reason given"
    return kind(method, number, message, error.get("data"))
