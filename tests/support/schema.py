"""Validate messages with the protocol's published schemas of versions 1 and 2.

The schemas come with the TypeScript SDK, which `make sdk` installs. Each version has a stable
schema and an unstable one with more methods, such as `session/fork`. A message must be valid in
each schema that defines its method. Extensions (`_…`) are not validated.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator, Registry, ValidationError

from rekindle.model import Side

Json = dict[str, Any]

SDK = Path(__file__).parents[1] / "sdk" / "node_modules" / "@agentclientprotocol" / "sdk"
FILES = ("schema.json", "schema.unstable.json")
MESSAGES = ("Request", "Response", "Notification")


class NotInstalled(Exception):
    """The schemas are not installed, but CI needs them."""


def why_missing() -> str | None:
    """Return why the schemas are missing, or None. Raises NotInstalled if `CI` is set."""
    if SDK.is_dir():
        return None
    why = "the protocol's schemas and SDK are not installed: `make sdk` does that, and needs npm"
    if os.environ.get("CI"):
        raise NotInstalled(why)
    return why


# -- one message ------------------------------------------------------------------------


PROPOSED_METHODS = ("session/rewind", "session/edit_prompt")
PROPOSED_KIND = "history_truncated"
"""The names of a proposal that no schema has yet. Their shapes are checked here."""


def proposed_problems(part: Json) -> list[str]:
    """Return the problems of a result of `session/rewind`, or of `history_truncated`."""
    is_known = "lastMessageId" in part and isinstance(part["lastMessageId"], str | None)
    return [] if is_known else ["lastMessageId: must be a message id or null"]


def problems(
    version: int, by: Side, message: Json, request: Json | None = None, kinds: Collection[str] = ()
) -> list[str]:
    """Return the problems of a message that `by` sent.

    `request` is the request of a response. `kinds` are update kinds that are allowed although no
    schema defines them.
    """
    if message.get("jsonrpc") != "2.0":
        return ['jsonrpc: must be "2.0"']
    if "method" in message:
        return call_problems(version, by, message, kinds)
    return response_problems(version, by, message, request)


def call_problems(version: int, by: Side, message: Json, kinds: Collection[str]) -> list[str]:
    """Return the problems of a request or a notification."""
    method, params = message["method"], message.get("params") or {}
    if "id" in message and (wrong := problems_in(version, "RequestId", message["id"], "id")):
        return wrong
    if is_extension(method) or method in PROPOSED_METHODS:
        return []
    if kind_of(message) == PROPOSED_KIND:
        return proposed_problems(params["update"])
    what = "Request" if "id" in message else "Notification"
    known = definitions(version, by.peer, method, what)
    if not known:
        return [f"{method}: version {version} has no such {what.lower()} by the {by}"]
    if kind := kind_of(message):
        known = [(it, name) for it, name in known if kind in it.kinds]
        if not known:
            may_be = is_unknown_kind(kind) and (
                kind in kinds or (version > 1 and is_extension(kind))
            )
            return [] if may_be else [f"params.update: version {version} has no {kind}"]
    return first_problems(partial(it.problems, name, params, "params") for it, name in known)


def response_problems(version: int, by: Side, message: Json, request: Json | None) -> list[str]:
    """Return the problems of a response."""
    if ("result" in message) == ("error" in message) or "id" not in message:
        return ["a response has an id, and either a result or an error"]
    if request is None and (message["id"] is not None or "result" in message):
        return [f"id: {message['id']!r} was not asked"]
    if request is None or "error" in message:
        return problems_in(version, "Error", message["error"], "error")
    method = request["method"]
    if method == "session/rewind" or is_extension(method):
        return [] if is_extension(method) else proposed_problems(message["result"])
    if method == "session/edit_prompt":
        method = "session/prompt"
    known = definitions(version, by, method, "Response")
    if not known:
        return [f"{method}: version {version} has no such request to the {by}"]
    return first_problems(
        partial(it.problems, name, message["result"], "result") for it, name in known
    )


def is_extension(name: object) -> bool:
    """Return whether the name of a method or kind marks an extension."""
    return isinstance(name, str) and name.startswith(("_", "$/"))


def kind_of(message: Json) -> str | None:
    """Return the kind of an update, or None."""
    match message:
        case {"method": "session/update", "params": {"update": {"sessionUpdate": str(kind)}}}:
            return kind
    return None


# -- the schemas ------------------------------------------------------------------------


class Schema:
    """One schema file. Compiling a validator is slow, so each is made once, on first use."""

    def __init__(self, path: Path) -> None:
        document: Json = json.loads(path.read_bytes())
        definitions: Json = document["$defs"]
        self._registry = Registry([("urn:acp", document)])
        self._validators: dict[str, Draft202012Validator] = {}
        self._names = {
            (it["x-side"], it["x-method"], what): name
            for name, it in definitions.items()
            for what in MESSAGES
            if "x-method" in it and name.endswith(what)
        }
        updates = definitions["SessionUpdate"]
        variants: list[Json] = updates.get("oneOf") or updates["anyOf"]
        tags = [it["properties"]["sessionUpdate"] for it in variants]
        self.kinds = {it["const"] for it in tags if "const" in it}

    def name(self, side: Side, method: str, what: str) -> str | None:
        """Return the definition of the message that `side` receives, or of its response."""
        return self._names.get((side.value, method, what))

    def problems(self, name: str, instance: object, at: str) -> list[str]:
        """Return how a value differs from the definition `name`."""
        if name not in self._validators:
            reference = {"$ref": f"urn:acp#/$defs/{name}"}
            self._validators[name] = Draft202012Validator(
                reference, registry=self._registry, validate_formats=True
            )
        errors = self._validators[name].iter_errors(instance)
        return [text for error in errors for text in explain(error, at)]


@cache
def schemas(version: int) -> tuple[Schema, ...]:
    """Return the schemas of a version, the stable schema first."""
    return tuple(Schema(SDK / "schema" / f"v{version}" / file) for file in FILES)


def is_unknown_kind(kind: str) -> bool:
    """Return whether no version defines this kind. A kind of another version is an error."""
    return not any(kind in it.kinds for version in (1, 2) for it in schemas(version))


def definitions(version: int, side: Side, method: str, what: str) -> list[tuple[Schema, str]]:
    """Return the schemas that define a method, each with the name of the definition."""
    named = [(it, it.name(side, method, what)) for it in schemas(version)]
    return [(it, name) for it, name in named if name]


def problems_in(version: int, name: str, instance: object, at: str) -> list[str]:
    """Return how a value differs from a definition of the stable schema."""
    return schemas(version)[0].problems(name, instance, at)


def first_problems(checks: Iterator[Callable[[], list[str]]]) -> list[str]:
    """Return the problems of the first check that finds any."""
    return next((found for check in checks if (found := check())), [])


def explain(error: ValidationError, at: str) -> Iterator[str]:
    """Describe an error. For a union, describe the errors of the variant that was meant."""
    variants = getattr(error.kind, "context", [])
    meant = [it for it in variants if not any(is_other_variant(error, inner) for inner in it)]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from explain(inner, at)
    else:
        yield f"{'.'.join([at, *map(str, error.instance_path)])}: {error.message}"


def is_other_variant(union: ValidationError, error: ValidationError) -> bool:
    """Return whether an error shows that another variant was meant."""
    depth = len(error.instance_path) - len(union.instance_path)
    return (depth <= 1 and error.schema_path[-1] == "const") or (
        depth == 0 and error.schema_path[-1] in {"type", "not"}
    )


# -- a connection -----------------------------------------------------------------------


class ConnectionValidator:
    """Follows one connection, to know the version and the request of each message."""

    def __init__(self) -> None:
        self.version = 1
        self.kinds: set[str] = set()
        self._open: dict[tuple[Side, str], Json] = {}

    def observe(self, by: Side, message: object) -> None:
        """Follow a message without validating it. It may be no message at all."""
        if isinstance(message, dict):
            self._note(by, message)
            if kind := kind_of(message):
                self.kinds.add(kind)

    def problems(self, by: Side, message: object) -> list[str]:
        """Follow a message, and return its problems."""
        if not isinstance(message, dict):
            return ["a message is an object"]
        request = self._request(by, message)
        version = self._version_of(message, request)
        self._note(by, message)
        return problems(version, by, message, request, self.kinds)

    def _request(self, by: Side, message: Json) -> Json | None:
        if "method" in message:
            return None
        return self._open.get((by.peer, json.dumps(message.get("id"))))

    def _version_of(self, message: Json, request: Json | None) -> int:
        """Return the version of a message. Messages of `initialize` name it themselves."""
        match (request or message).get("method"), message:
            case "initialize", {"params": {"protocolVersion": int(asked)}}:
                return min(max(asked, 1), 2)
            case "initialize", {"result": {"protocolVersion": int(agreed)}}:
                return min(max(agreed, 1), 2)
        return self.version

    def _note(self, by: Side, message: Json) -> None:
        request = self._request(by, message)
        if "method" in message and "id" in message:
            self._open[by, json.dumps(message["id"])] = message
        elif request:
            if "result" in message:
                self.version = self._version_of(message, request)
            del self._open[by.peer, json.dumps(message["id"])]
