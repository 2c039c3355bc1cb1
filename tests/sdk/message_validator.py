"""Validate received messages with the models of the official Python SDK.

The models accept messages that are nearly right: they repair some fields, and drop others
silently. So each message is validated again, strictly: no field may be wrong, repaired or unknown.
Log messages and warnings of the SDK count as faults, too.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from acp.connection import StreamDirection, StreamEvent
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    CancelRequestNotification,
    Error,
    InitializeRequest,
    SessionCapabilities,
    SessionInfo,
)
from pydantic import BaseModel, ValidationError

Json = dict[str, Any]
Models = Mapping[str, type[BaseModel]]
Report = Callable[[str | None, str | None], None]

DROPPED = object()
# The SDK has a model for it, but no handler, and logs that.
NOT_DISPATCHED = "$/cancel_request"
# The unstable schema has these fields, but the models of the SDK do not.
UNKNOWN_CAPABILITIES = {"archive", "title", "status"}
assert UNKNOWN_CAPABILITIES.isdisjoint(SessionCapabilities.model_fields), "validate them, too"
assert "archived" not in SessionInfo.model_fields, "validate it, too"
UNKNOWN_PATH = re.compile(
    rf"/agentCapabilities/sessionCapabilities/({'|'.join(UNKNOWN_CAPABILITIES)})"
    r"|/sessions/\d+/archived"
)


class ExpectedModels(NamedTuple):
    """The models of the messages that may come, by method."""

    requests: Models
    notifications: Models
    results: Models


class Validator(logging.Handler):
    """Observes a connection, and reports each message with its fault, if any."""

    def __init__(self, expected: ExpectedModels, verdict: Report) -> None:
        super().__init__(logging.WARNING)
        self._expected = expected
        self._notifications = {**expected.notifications, NOT_DISPATCHED: CancelRequestNotification}
        self._report = verdict
        self._asked: dict[object, str] = {}
        logging.captureWarnings(capture=True)
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Report log messages of the SDK as faults."""
        if record.args != (NOT_DISPATCHED,):
            self._report(None, self.format(record))

    def __call__(self, event: StreamEvent) -> None:
        """Validate a message."""
        message = event.message
        if event.direction is StreamDirection.INCOMING:
            self._validate(message)
        elif "method" in message and "id" in message:
            self._asked[message["id"]] = message["method"]

    def _validate(self, message: Json) -> None:
        method, model, value = self._find_model(message)
        wrong = find_fault(model, value)
        self._report(method, wrong and f"{wrong} in {message}")

    def _find_model(self, message: Json) -> tuple[str, type[BaseModel] | None, object]:
        if method := message.get("method"):
            models = self._expected.requests if "id" in message else self._notifications
            return method, models.get(method), message.get("params")
        method = self._asked.pop(message["id"])
        if "result" in message:
            return method, self._expected.results.get(method), message["result"]
        return method, Error, message["error"]


def find_fault(model: type[BaseModel] | None, value: object) -> str | None:
    """Return the first difference between a value and its model, if any."""
    if model is None:
        return "nothing that is known"
    try:
        parsed = model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return str(error)
    if isinstance(parsed, InitializeRequest) and parsed.protocol_version != PROTOCOL_VERSION:
        return None  # the SDK does not have that version
    return find_lost(value, parsed.model_dump(mode="json", by_alias=True))


def find_lost(value: object, parsed: object, path: str = "") -> str | None:
    """Return a field that the model has dropped or repaired, if any. Added defaults are allowed."""
    match value, parsed:
        case dict(), dict():
            pairs = [(key, inner, parsed.get(key, DROPPED)) for key, inner in value.items()]
        case list(), list() if len(value) == len(parsed):
            pairs = [(key, *both) for key, both in enumerate(zip(value, parsed, strict=True))]
        case _:
            is_same = type(value) is type(parsed) and value == parsed
            is_unknown = parsed is DROPPED and UNKNOWN_PATH.fullmatch(path)
            return None if is_same or is_unknown else f"{path} was dropped or mended"
    found = (find_lost(inner, kept, f"{path}/{key}") for key, inner, kept in pairs)
    return next(filter(None, found), None)
