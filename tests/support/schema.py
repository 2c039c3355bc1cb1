"""Judges messages by the protocol's published schemas, of version 1 and 2.

The schemas come with the TypeScript SDK, which `make sdk` installs. Of each version there is a
stable one and an unstable one that knows more, such as `session/fork`: a message is held to
each of them that knows it. What extensions say (`_…`) is free.
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
    """The schemas are not here, and must be."""


def why_missing() -> str | None:
    """Say why nothing can be judged; None if it can. Where CI is set, it must be possible."""
    if SDK.is_dir():
        return None
    why = "the protocol's schemas and SDK are not installed: `make sdk` does that, and needs npm"
    if os.environ.get("CI"):
        raise NotInstalled(why)
    return why


# -- one message ------------------------------------------------------------------------


def complaints(
    version: int, by: Side, message: Json, request: Json | None = None, kinds: Collection[str] = ()
) -> list[str]:
    """Say what is wrong with a message that `by` has written.

    `request` is what it answers, if it is a response. `kinds` are kinds of updates that may be
    sent although no schema knows them.
    """
    if message.get("jsonrpc") != "2.0":
        return ['jsonrpc: must be "2.0"']
    if "method" in message:
        return of_call(version, by, message, kinds)
    return of_response(version, by, message, request)


def of_call(version: int, by: Side, message: Json, kinds: Collection[str]) -> list[str]:
    """Say what is wrong with a request or a notification."""
    method, params = message["method"], message.get("params") or {}
    if "id" in message and (wrong := held_to(version, "RequestId", message["id"], "id")):
        return wrong
    if is_free(method):
        return []
    what = "Request" if "id" in message else "Notification"
    known = knowing(version, by.peer, method, what)
    if not known:
        return [f"{method}: version {version} has no such {what.lower()} by the {by}"]
    if kind := kind_of(message):
        known = [(it, name) for it, name in known if kind in it.kinds]
        if not known:
            may_be = is_made_up(kind) and (kind in kinds or (version > 1 and is_free(kind)))
            return [] if may_be else [f"params.update: version {version} has no {kind}"]
    return first(partial(it.wrong, name, params, "params") for it, name in known)


def of_response(version: int, by: Side, message: Json, request: Json | None) -> list[str]:
    """Say what is wrong with a response."""
    if ("result" in message) == ("error" in message) or "id" not in message:
        return ["a response has an id, and either a result or an error"]
    if request is None and (message["id"] is not None or "result" in message):
        return [f"id: {message['id']!r} was not asked"]
    if request is None or "error" in message:
        return held_to(version, "Error", message["error"], "error")
    method = request["method"]
    known = knowing(version, by, method, "Response")
    if is_free(method):
        return []
    if not known:
        return [f"{method}: version {version} has no such request to the {by}"]
    return first(partial(it.wrong, name, message["result"], "result") for it, name in known)


def is_free(name: object) -> bool:
    """Tell whether a method or a kind is left to those who use it."""
    return isinstance(name, str) and name.startswith(("_", "$/"))


def kind_of(message: Json) -> str | None:
    """Return the kind of an update."""
    match message:
        case {"method": "session/update", "params": {"update": {"sessionUpdate": str(kind)}}}:
            return kind
    return None


# -- the schemas ------------------------------------------------------------------------


class Schema:
    """One schema file. Compiling takes time, so a validator is made once, when it is needed."""

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
        """Return the name of what `side` is sent, or answers, with a method."""
        return self._names.get((side.value, method, what))

    def wrong(self, name: str, instance: object, at: str) -> list[str]:
        """Say what is wrong with what should be as `name` says."""
        if name not in self._validators:
            reference = {"$ref": f"urn:acp#/$defs/{name}"}
            self._validators[name] = Draft202012Validator(
                reference, registry=self._registry, validate_formats=True
            )
        errors = self._validators[name].iter_errors(instance)
        return [words for error in errors for words in explained(error, at)]


@cache
def schemas(version: int) -> tuple[Schema, ...]:
    """Return the schemas of a version, the stable one first."""
    return tuple(Schema(SDK / "schema" / f"v{version}" / file) for file in FILES)


def is_made_up(kind: str) -> bool:
    """Tell whether a kind of update is one of no version: one of another version is no excuse."""
    return not any(kind in it.kinds for version in (1, 2) for it in schemas(version))


def knowing(version: int, side: Side, method: str, what: str) -> list[tuple[Schema, str]]:
    """Return the schemas that know a method, each with the name it has there."""
    named = [(it, it.name(side, method, what)) for it in schemas(version)]
    return [(it, name) for it, name in named if name]


def held_to(version: int, name: str, instance: object, at: str) -> list[str]:
    """Say what is wrong with what should be as `name` says."""
    return schemas(version)[0].wrong(name, instance, at)


def first(judgements: Iterator[Callable[[], list[str]]]) -> list[str]:
    """Return the first words of complaint."""
    return next((wrong for judge in judgements if (wrong := judge())), [])


def explained(error: ValidationError, at: str) -> Iterator[str]:
    """Put an error into words; one of a union, in those of the variant that was meant."""
    variants = getattr(error.kind, "context", [])
    meant = [it for it in variants if not any(is_of_another(error, inner) for inner in it)]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from explained(inner, at)
    else:
        yield f"{'.'.join([at, *map(str, error.instance_path)])}: {error.message}"


def is_of_another(union: ValidationError, error: ValidationError) -> bool:
    """Tell whether a variant is wrong because another one was meant."""
    depth = len(error.instance_path) - len(union.instance_path)
    return (depth <= 1 and error.schema_path[-1] == "const") or (
        depth == 0 and error.schema_path[-1] in {"type", "not"}
    )


# -- a connection -----------------------------------------------------------------------


class Judge:
    """Follows what is said on one connection, to judge what one writes on it."""

    def __init__(self) -> None:
        self.version = 1
        self.kinds: set[str] = set()
        self._open: dict[tuple[Side, str], Json] = {}

    def hear(self, by: Side, message: object) -> None:
        """Take note of a message that is not to be judged, and may be none."""
        if isinstance(message, dict):
            self._note(by, message)
            if kind := kind_of(message):
                self.kinds.add(kind)

    def complaints(self, by: Side, message: object) -> list[str]:
        """Say what is wrong with a message, and take note of it."""
        if not isinstance(message, dict):
            return ["a message is an object"]
        request = self._request(by, message)
        version = self._version_of(message, request)
        self._note(by, message)
        return complaints(version, by, message, request, self.kinds)

    def _request(self, by: Side, message: Json) -> Json | None:
        if "method" in message:
            return None
        return self._open.get((by.peer, json.dumps(message.get("id"))))

    def _version_of(self, message: Json, request: Json | None) -> int:
        """Return the version that a message is in; what negotiates it says so itself."""
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
