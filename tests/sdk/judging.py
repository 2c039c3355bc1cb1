"""The official Python SDK as a judge: what comes is held to its own models.

They take what is nearly right, mend what they can, and drop the rest without a word. So all that
comes is held to them once more: nothing may be wrong, mended or unknown. What the SDK logs, and
what it warns of, is a complaint as well.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from acp.connection import StreamDirection, StreamEvent
from acp.meta import PROTOCOL_VERSION
from acp.schema import CancelRequestNotification, Error, InitializeRequest
from pydantic import BaseModel, ValidationError

Json = dict[str, Any]
Models = Mapping[str, type[BaseModel]]
Verdict = Callable[[str | None, str | None], None]

DROPPED = object()
# The SDK has a model for it, but nothing that it would call, and logs that.
UNANSWERED = "$/cancel_request"


class Expected(NamedTuple):
    """What may come, by method."""

    requests: Models
    notifications: Models
    results: Models


class Judge(logging.Handler):
    """Observes a connection, and says of each message what is wrong with it, if anything."""

    def __init__(self, expected: Expected, verdict: Verdict) -> None:
        super().__init__(logging.WARNING)
        self._expected = expected
        self._notifications = {**expected.notifications, UNANSWERED: CancelRequestNotification}
        self._verdict = verdict
        self._asked: dict[object, str] = {}
        logging.captureWarnings(capture=True)
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Complain of what the SDK complains of."""
        if record.args != (UNANSWERED,):
            self._verdict(None, self.format(record))

    def __call__(self, event: StreamEvent) -> None:
        """Look at a message."""
        message = event.message
        if event.direction is StreamDirection.INCOMING:
            self._judge(message)
        elif "method" in message and "id" in message:
            self._asked[message["id"]] = message["method"]

    def _judge(self, message: Json) -> None:
        method, model, value = self._what_it_should_be(message)
        wrong = fault(model, value)
        self._verdict(method, wrong and f"{wrong} in {message}")

    def _what_it_should_be(self, message: Json) -> tuple[str, type[BaseModel] | None, object]:
        if method := message.get("method"):
            models = self._expected.requests if "id" in message else self._notifications
            return method, models.get(method), message.get("params")
        method = self._asked.pop(message["id"])
        if "result" in message:
            return method, self._expected.results.get(method), message["result"]
        return method, Error, message["error"]


def fault(model: type[BaseModel] | None, value: object) -> str | None:
    """Say what is wrong with what should be as `model` says."""
    if model is None:
        return "nothing that is known"
    try:
        parsed = model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return str(error)
    if isinstance(parsed, InitializeRequest) and parsed.protocol_version != PROTOCOL_VERSION:
        return None  # it greets in a version that this SDK does not have
    return lost(value, parsed.model_dump(mode="json", by_alias=True))


def lost(value: object, parsed: object, path: str = "") -> str | None:
    """Say what a model has dropped or mended. What it adds are defaults."""
    match value, parsed:
        case dict(), dict():
            pairs = [(key, inner, parsed.get(key, DROPPED)) for key, inner in value.items()]
        case list(), list() if len(value) == len(parsed):
            pairs = [(key, *both) for key, both in enumerate(zip(value, parsed, strict=True))]
        case _:
            is_same = type(value) is type(parsed) and value == parsed
            return None if is_same else f"{path} was dropped or mended"
    found = (lost(inner, kept, f"{path}/{key}") for key, inner, kept in pairs)
    return next(filter(None, found), None)
