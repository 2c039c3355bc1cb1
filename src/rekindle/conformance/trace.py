"""The lines between client and agent, and views of them. Knows no process."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode, encode


class TraceLine(Struct, frozen=True, eq=False):
    """One line: its direction, its time in seconds since the start, and its message.

    Lines are compared by identity: two with the same content are still two.
    """

    is_sent: bool
    at: float
    data: bytes
    message: Json
    """The message, or an empty object if the line is not a JSON object."""
    is_member: bool = False
    """Whether the message is a member of a batch, which is the line before its members."""

    @property
    def method(self) -> str:
        """The method; empty in a response."""
        return as_str(self.message.get("method")) or ""

    @property
    def id(self) -> object:
        """The id of the request, or None."""
        return self.message.get("id")

    @property
    def is_request(self) -> bool:
        """Whether the line needs a response."""
        return "method" in self.message and "id" in self.message

    @property
    def is_response(self) -> bool:
        """Whether the line is a response."""
        return "id" in self.message and "method" not in self.message

    @property
    def params(self) -> Json:
        """The parameters of a request or notification."""
        return as_object(self.message.get("params"))

    @property
    def session_id(self) -> str:
        """The session id in the parameters, or an empty string."""
        return as_str(self.params.get("sessionId")) or ""

    @property
    def update(self) -> Json:
        """The content of a `session/update`; empty in any other line."""
        return as_object(self.params.get("update")) if self.method == methods.UPDATE else {}

    @property
    def kind(self) -> str:
        """The kind of an update; empty in any other line."""
        return as_str(self.update.get("sessionUpdate")) or ""


def sent(message: Json, at: float = 0.0) -> TraceLine:
    """Return a line of the client."""
    return TraceLine(is_sent=True, at=at, data=encode(message), message=message)


def received(data: bytes, at: float = 0.0) -> TraceLine:
    """Return a line of the agent."""
    return TraceLine(is_sent=False, at=at, data=data, message=as_object(decode(data)))


def members(line: TraceLine) -> list[TraceLine]:
    """Return the members of a batch that are objects, each as a line."""
    found = [as_object(it) for it in as_array(decode(line.data))]
    return [
        TraceLine(line.is_sent, line.at, data=encode(it), message=it, is_member=True)
        for it in found
        if it
    ]


class Exchange(Struct, frozen=True, eq=False):
    """A request and its response. Without a response in time, `response` is None."""

    request: TraceLine
    response: TraceLine | None

    @property
    def is_result(self) -> bool:
        """Whether the response is a result."""
        return self.response is not None and self.response.message.get("error") is None

    @property
    def is_refused(self) -> bool:
        """Whether the response is an error."""
        return self.response is not None and self.response.message.get("error") is not None

    @property
    def result(self) -> Json:
        """The result, if it is an object; otherwise an empty object."""
        return as_object(self.response.message.get("result")) if self.response else {}

    @property
    def error(self) -> Json:
        """The error, or an empty object."""
        return as_object(self.response.message.get("error")) if self.response else {}

    @property
    def code(self) -> object:
        """The code of the error."""
        return self.error.get("code")

    @property
    def lines(self) -> tuple[TraceLine, ...]:
        """The request, and the response if there is one."""
        return (self.request,) if self.response is None else (self.request, self.response)

    def describe(self) -> str:
        """Describe the response for people."""
        if self.response is None:
            return "it was not answered"
        if self.is_refused:
            return f"it was refused with {self.code}: {_reason(self.error)}"
        reason = as_str(self.result.get("stopReason"))
        return f"it was answered with the `stopReason` {reason}" if reason else "it was answered"


def _reason(error: Json) -> str:
    """Return the text of an error. Many agents put the real reason into `data`."""
    data = error.get("data")
    detail = (
        as_str(data)
        or as_str(as_object(data).get("details"))
        or as_str(as_object(data).get("message"))
    )
    message = as_str(error.get("message")) or ""
    return f"{message} ({detail})" if detail and detail != message else message


def same_id(one: object, other: object) -> bool:
    """Return whether two ids are the same: `1` is neither `"1"` nor true."""
    return type(one) is type(other) and one == other


def id_key(value: object) -> tuple[str, str]:
    """Return a key for an id. Two keys are equal if `same_id` holds for the ids."""
    return type(value).__name__, repr(value)


def updates(lines: Iterable[TraceLine], session_id: str) -> Iterator[TraceLine]:
    """Yield the updates of one session."""
    return (it for it in lines if it.kind and it.session_id == session_id)
