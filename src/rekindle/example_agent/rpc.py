"""JSON-RPC 2.0, one message per line. Knows nothing of ACP."""

import json
import math
import os
import threading
from typing import Any, NoReturn, Protocol, cast

Json = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022
REQUEST_CANCELLED = -32800


class RpcError(Exception):
    """The error response to a request."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def as_json(self) -> Json:
        """Return the error object of the response."""
        error: Json = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return error


def as_rpc_error(error: Exception) -> RpcError:
    """Return an exception as an error for the client."""
    if isinstance(error, RpcError):
        return error
    return RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large to be written again")
    return number


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def encode(message: Json | list[Json]) -> bytes:
    """Return `message` as one line."""
    try:
        return _encoder.encode(message).encode() + b"\n"
    except UnicodeEncodeError:
        # JSON allows half a surrogate pair only as an escape.
        return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value on `line`.

    Raises:
        ValueError: the line is not JSON, or nested too deeply to be read.

    """
    try:
        return _decoder.decode(line.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Reply:
    """The client's response to a request of the agent, which may still be pending."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self._result: Any = None
        self._settled = threading.Event()

    def resolve(self, result: object) -> None:
        """Set the result, and wake the waiting thread."""
        self._result = result
        self._settled.set()

    def wait(self) -> Any:  # noqa: ANN401 - any JSON value
        """Wait, and return the result; None for an error or an abandoned request."""
        self._settled.wait()
        return self._result


class Connection:
    """The connection to the client. Any thread may send; one thread resolves replies."""

    def __init__(self, output: int) -> None:
        self._terminal_output = output
        self._writing = threading.Lock()
        # Ids start at 0, as in the official SDKs.
        self._next_id = 0
        self._pending: dict[int, Reply] = {}

    def send(self, message: Json | list[Json]) -> None:
        """Write one line. Returns when the operating system has accepted all of it."""
        rest = memoryview(encode(message))
        with self._writing:
            while rest:
                rest = rest[os.write(self._terminal_output, rest) :]

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send_request(self, method: str, params: Json) -> Reply:
        """Send a request."""
        with self._writing:
            reply = self._pending[self._next_id] = Reply(self._next_id)
            self._next_id += 1
        self.send({"jsonrpc": "2.0", "id": reply.request_id, "method": method, "params": params})
        return reply

    def abandon(self, reply: Reply) -> bool:
        """Drop a pending reply; return whether it was still pending."""
        return self._pending.pop(reply.request_id, None) is not None

    def resolve(self, response: Json) -> None:
        """Pass a response of the client to the thread that waits for it, if any."""
        request_id = response.get("id")
        # Only a plain integer can be an id of ours: `True == 1`, and a list is not hashable.
        if type(request_id) is int and (reply := self._pending.pop(request_id, None)):
            reply.resolve(response.get("result"))


class Responder(Protocol):
    """Receives the responses to requests."""

    def send(self, message: Json) -> None:
        """Send a response, or keep it until others have come."""


class Batch:
    """Collects the responses to a batch, and sends them as one array. Any thread may respond."""

    def __init__(self, connection: Connection, expected: int) -> None:
        self._connection = connection
        self._expected = expected
        self._responses: list[Json] = []
        self._collecting = threading.Lock()

    def send(self, message: Json) -> None:
        """Add a response. The last one sends all of them."""
        with self._collecting:
            self._responses.append(message)
            is_complete = len(self._responses) == self._expected
        if is_complete:
            self._connection.send(self._responses)


class Request:
    """A request of the client, which needs exactly one response."""

    def __init__(self, responder: Responder, message: Json) -> None:
        self._responder = responder
        self._id = message["id"]
        self.method: str = message["method"]
        self._params = message.get("params")

    @property
    def params(self) -> Json:
        """The parameters. Raises RpcError if they are not an object."""
        params = self._params
        if params is None:
            return {}
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object", {"field": "params"})
        return cast("Json", params)

    def respond(self, outcome: Json | RpcError) -> None:
        """Send the response: a result or an error."""
        response: Json = {"jsonrpc": "2.0", "id": self._id}
        if isinstance(outcome, RpcError):
            response["error"] = outcome.as_json()
        else:
            response["result"] = outcome
        self._responder.send(response)
