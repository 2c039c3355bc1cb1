"""What went over the wire, line by line, and what can be asked of it. Knows no process."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import as_object, as_str, decode, encode

Json = dict[str, Any]


class Line(Struct, frozen=True, eq=False):
    """One line: who wrote it, when (in seconds since the start), and what it says, if anything.

    Two that look the same are still two.
    """

    is_sent: bool
    at: float
    data: bytes
    message: Json
    """Empty if the line is no JSON object."""

    @property
    def method(self) -> str:
        """The method that is called; empty in an answer."""
        return as_str(self.message.get("method")) or ""

    @property
    def id(self) -> object:
        """The request's id, or None."""
        return self.message.get("id")

    @property
    def is_request(self) -> bool:
        """Whether an answer is due."""
        return "method" in self.message and "id" in self.message

    @property
    def is_answer(self) -> bool:
        """Whether it answers something."""
        return "id" in self.message and "method" not in self.message

    @property
    def params(self) -> Json:
        """The parameters of a call."""
        return as_object(self.message.get("params"))

    @property
    def session_id(self) -> str:
        """The session that a call is about; empty if it names none."""
        return as_str(self.params.get("sessionId")) or ""

    @property
    def update(self) -> Json:
        """What a `session/update` tells; empty in any other line."""
        return as_object(self.params.get("update")) if self.method == methods.UPDATE else {}

    @property
    def kind(self) -> str:
        """The kind of an update; empty in any other line."""
        return as_str(self.update.get("sessionUpdate")) or ""


def sent(message: Json, at: float = 0.0) -> Line:
    """Return a line that the client writes."""
    return Line(is_sent=True, at=at, data=encode(message), message=message)


def received(data: bytes, at: float = 0.0) -> Line:
    """Return a line as it came."""
    return Line(is_sent=False, at=at, data=data, message=as_object(decode(data)))


class Answer(Struct, frozen=True, eq=False):
    """A request, and what became of it. `line` is None if no answer came in time."""

    request: Line
    line: Line | None

    @property
    def is_result(self) -> bool:
        """Whether the agent did what it was asked for."""
        return self.line is not None and self.line.message.get("error") is None

    @property
    def is_refused(self) -> bool:
        """Whether the agent answered with an error."""
        return self.line is not None and self.line.message.get("error") is not None

    @property
    def result(self) -> Json:
        """The result; empty where it is no object, or there is none."""
        return as_object(self.line.message.get("result")) if self.line else {}

    @property
    def error(self) -> Json:
        """The error; empty if there is none."""
        return as_object(self.line.message.get("error")) if self.line else {}

    @property
    def code(self) -> object:
        """The error's code."""
        return self.error.get("code")

    @property
    def lines(self) -> tuple[Line, ...]:
        """The request and its answer, as far as there is one."""
        return (self.request,) if self.line is None else (self.request, self.line)

    def in_words(self) -> str:
        """Say what came back."""
        if self.line is None:
            return "no answer came"
        if self.is_refused:
            return f"it was refused with {self.code}: {_reason(self.error)}"
        reason = as_str(self.result.get("stopReason"))
        return f"it was answered with the `stopReason` {reason}" if reason else "it was answered"


def _reason(error: Json) -> str:
    """Return what an error says; many agents have the real reason in `data`."""
    data = error.get("data")
    detail = (
        as_str(data)
        or as_str(as_object(data).get("details"))
        or as_str(as_object(data).get("message"))
    )
    said = as_str(error.get("message")) or ""
    return f"{said} ({detail})" if detail and detail != said else said


def same_id(one: object, other: object) -> bool:
    """Tell whether two ids are the same: `1` is neither `"1"` nor true."""
    return type(one) is type(other) and one == other


def id_key(value: object) -> tuple[str, str]:
    """Return an id as a key: two are equal if they are the same id."""
    return type(value).__name__, repr(value)


def updates(lines: Iterable[Line], session_id: str) -> Iterator[Line]:
    """Yield the updates of one session."""
    return (it for it in lines if it.kind and it.session_id == session_id)
