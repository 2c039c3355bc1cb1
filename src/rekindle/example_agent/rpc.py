"""JSON-RPC 2.0, one message a line. Knows nothing of ACP."""

import json
import math
import os
import threading
from typing import Any, NoReturn, cast

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
    """A request is answered with this error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def as_json(self) -> Json:
        """Return the error object of the answer."""
        error: Json = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return error


def as_rpc_error(error: Exception) -> RpcError:
    """Return `error` as something that a client can be told."""
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


def encode(message: Json) -> bytes:
    """Return `message` as one line."""
    try:
        return _encoder.encode(message).encode() + b"\n"
    except UnicodeEncodeError:
        # Half a surrogate pair is legal in JSON, but only as an escape.
        return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value on `line`.

    Raises:
        ValueError: the line is not JSON, or nested too deeply to be read.

    """
    try:
        return _decoder.decode(line.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Reply:
    """The client's answer to a request of ours, when it comes."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self._result: Any = None
        self._settled = threading.Event()

    def settle(self, result: object) -> None:
        """Wake whoever waits."""
        self._result = result
        self._settled.set()

    def wait(self) -> Any:  # noqa: ANN401 - whatever the client answered
        """Return the result, or None for an error or a reply that was given up."""
        self._settled.wait()
        return self._result


class Connection:
    """The way to the client. Any thread may send; one thread settles replies."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._writing = threading.Lock()
        # Our own requests count from 0, as the official SDKs' do.
        self._asked = 0
        self._pending: dict[int, Reply] = {}

    def send(self, message: Json) -> None:
        """Write one line. Returns when the operating system has all of it."""
        rest = memoryview(encode(message))
        with self._writing:
            while rest:
                rest = rest[os.write(self._output, rest) :]

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Json) -> Reply:
        """Send a request."""
        with self._writing:
            reply = self._pending[self._asked] = Reply(self._asked)
            self._asked += 1
        self.send({"jsonrpc": "2.0", "id": reply.request_id, "method": method, "params": params})
        return reply

    def give_up(self, reply: Reply) -> bool:
        """Wait for a reply no longer. Returns whether it was still to come."""
        return self._pending.pop(reply.request_id, None) is not None

    def settle(self, response: Json) -> None:
        """Hand the client's response to whoever waits for it, if anyone does."""
        request_id = response.get("id")
        # `True == 1`, and a list is no key: only a plain integer can be an id of ours.
        if type(request_id) is int and (reply := self._pending.pop(request_id, None)):
            reply.settle(response.get("result"))


class Request:
    """A request of the client, to be answered once."""

    def __init__(self, connection: Connection, message: Json) -> None:
        self._connection = connection
        self._id = message["id"]
        self.method: str = message["method"]
        self._params = message.get("params")

    @property
    def params(self) -> Json:
        """The request's parameters. Raises RpcError where they are no object."""
        params = self._params
        if params is None:
            return {}
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object", {"field": "params"})
        return cast("Json", params)

    def answer(self, outcome: Json | RpcError) -> None:
        """Answer with a result, or with an error."""
        answer: Json = {"jsonrpc": "2.0", "id": self._id}
        if isinstance(outcome, RpcError):
            answer["error"] = outcome.as_json()
        else:
            answer["result"] = outcome
        self._connection.send(answer)
