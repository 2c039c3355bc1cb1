"""Every name of the published schemas is known here: methods, update kinds and capabilities.

A release of the schema with a new name fails these tests. Follow the new name, or add it to a table
below with the reason why it needs nothing. A name that the schema no longer has fails them too.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rekindle.acp import methods
from rekindle.acp.capabilities import CAPABILITY_METHODS
from rekindle.acp.methods import is_gone_in_v2
from rekindle.acp.translate.initialize import response_to_v1, response_to_v2
from rekindle.acp.update_kinds import KINDS
from rekindle.proxy.handlers.registry import HANDLERS, HANDLERS_V2
from schema import FILES, SDK

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("sdk")


def definitions(version: int, file: str) -> Json:
    path = SDK / "schema" / f"v{version}" / file
    found: Json = json.loads(path.read_bytes())["$defs"]
    return found


# -- methods ----------------------------------------------------------------------------------

KNOWN_METHODS = {
    value for name, value in vars(methods).items() if name.isupper() and isinstance(value, str)
}
"""The methods that the code names."""

PASSED_ON = {
    "auth/status": "a request that concerns no session",
    "auth/status_update": "a notification that concerns no session",
    "elicitation/complete": "a notification of the agent",
    "fs/read_text_file": "a request of the agent; refused for version 2 clients by its prefix",
    "fs/write_text_file": "a request of the agent; refused for version 2 clients by its prefix",
    "mcp/message": "belongs to a connection between the peers, not to a session",
    "providers/disable": "a request that concerns no session",
    "providers/list": "a request that concerns no session; not translated between versions",
    "providers/set": "a request that concerns no session; not translated between versions",
    "terminal/create": "a request of the agent; refused for version 2 clients by its prefix",
    "terminal/kill": "a request of the agent; refused for version 2 clients by its prefix",
    "terminal/release": "a request of the agent; refused for version 2 clients by its prefix",
    "terminal/wait_for_exit": "a request of the agent; refused for version 2 clients by its prefix",
    "tool_call/cancel": "a version 2 client's request about a tool call",
}
"""The methods that are forwarded without a row of their own, each with the reason."""

NOT_SERVED = {
    "proxy/initialize": "proxy chains are not supported yet: `rekindle run` is a plain agent",
    "proxy/successor": "proxy chains are not supported yet: `rekindle run` is a plain agent",
}

ABSENT_FROM_SCHEMA = {
    "session/set_model": "earlier unstable schemas had it, and agents still do",
    "session/rewind": "a proposal; announced in `_meta.rekindle.methods`",
    "session/edit_prompt": "a proposal; announced in `_meta.rekindle.methods`",
}


def schema_methods(version: int) -> set[str]:
    return {
        it["x-method"]
        for file in FILES
        for it in definitions(version, file).values()
        if "x-method" in it
    }


def test_every_method_is_known() -> None:
    published = schema_methods(1) | schema_methods(2)
    assert published - KNOWN_METHODS == {*PASSED_ON, *NOT_SERVED}
    assert KNOWN_METHODS - published == {*ABSENT_FROM_SCHEMA} | methods.HOST_METHODS


@pytest.mark.parametrize("version", [1, 2])
def test_every_session_method_of_the_agent_has_a_handler(version: int) -> None:
    served = {
        it["x-method"]
        for file in FILES
        for name, it in definitions(version, file).items()
        if it.get("x-side") == "agent" and name.endswith("Request")
    }
    about_sessions = {it for it in served if it.startswith("session/")}
    forwarded = methods.SETS_CONFIG | {methods.PROMPT}
    handlers = (HANDLERS if version == 1 else HANDLERS_V2).keys() - methods.HOST_METHODS
    assert about_sessions - handlers <= forwarded
    assert handlers - served <= {methods.LOAD} | methods.REWINDS


def test_methods_that_version_2_lacks_are_refused_there() -> None:
    assert {it for it in schema_methods(1) - schema_methods(2) if not is_gone_in_v2(it)} == set()
    assert {it for it in schema_methods(2) if is_gone_in_v2(it)} == set()


# -- update kinds -----------------------------------------------------------------------------

UNSTABLE_KINDS: dict[int, dict[str, str]] = {
    1: {
        "plan_removed": "for clients with the capability `plan`; kept as it came",
        "plan_update": "for clients with the capability `plan`; kept as it came",
    },
    2: {
        "plan_removed": "kept as it came",
    },
}
"""The kinds of the unstable schemas that have no row, each with the reason."""


@pytest.mark.parametrize("version", [1, 2])
def test_every_update_kind_is_known(version: int) -> None:
    published: set[str] = set()
    for file in FILES:
        updates = definitions(version, file)["SessionUpdate"]
        tags = [
            it["properties"]["sessionUpdate"] for it in updates.get("oneOf") or updates["anyOf"]
        ]
        published |= {tag["const"] for tag in tags if "const" in tag}
    rows = {name for name, kind in KINDS.items() if version in kind.versions}
    assert published == rows | UNSTABLE_KINDS[version].keys()
    assert not rows & UNSTABLE_KINDS[version].keys()


# -- capabilities -----------------------------------------------------------------------------

AGENT_V1 = {
    "auth": "translated",
    "auth.logout": "translated: version 2 agents with methods of authentication have it",
    "auth.status": "translated",
    "loadSession": "served",
    "mcpCapabilities": "translated",
    "mcpCapabilities.acp": "belongs to a connection between the peers",
    "mcpCapabilities.http": "translated",
    "mcpCapabilities.sse": "version 2 has no such servers",
    "promptCapabilities": "translated",
    "promptCapabilities.audio": "translated",
    "promptCapabilities.embeddedContext": "translated",
    "promptCapabilities.image": "translated",
    "providers": "the messages differ between the versions",
    "sessionCapabilities": "translated",
    "sessionCapabilities.additionalDirectories": "translated",
    "sessionCapabilities.archive": "served",
    "sessionCapabilities.close": "served",
    "sessionCapabilities.delete": "served",
    "sessionCapabilities.fork": "served",
    "sessionCapabilities.list": "served",
    "sessionCapabilities.resume": "served",
    "sessionCapabilities.status": "served",
    "sessionCapabilities.systemPrompt": "translated",
    "sessionCapabilities.systemPrompt.mode": "translated",
    "sessionCapabilities.systemPrompt.mode.override": "translated",
    "sessionCapabilities.title": "served",
}
AGENT_V2 = {
    "auth": "translated",
    "auth.status": "translated",
    "providers": "the messages differ between the versions",
    "session": "translated",
    "session.additionalDirectories": "translated",
    "session.archive": "served",
    "session.delete": "served",
    "session.fork": "served",
    "session.mcp": "translated",
    "session.mcp.acp": "belongs to a connection between the peers",
    "session.mcp.http": "translated",
    "session.mcp.stdio": "every version 1 agent has it",
    "session.prompt": "translated",
    "session.prompt.audio": "translated",
    "session.prompt.embeddedContext": "translated",
    "session.prompt.image": "translated",
    "session.status": "served",
    "session.systemPrompt": "translated",
    "session.systemPrompt.mode": "translated",
    "session.systemPrompt.mode.override": "translated",
    "session.title": "served",
}
CLIENT_V1 = {
    "auth": "translated",
    "auth.terminal": "translated",
    "elicitation": "translated",
    "elicitation.form": "translated",
    "elicitation.url": "translated",
    "fs": "version 2 agents do not use files of the client",
    "fs.readTextFile": "version 2 agents do not use files of the client",
    "fs.writeTextFile": "version 2 agents do not use files of the client",
    "plan": "several plans are reduced to the one plan of version 1",
    "session": "version 2 has all of it without a capability",
    "session.compaction": "compactions of a version 2 agent are left out",
    "session.configOptions": "read: boolean options are left out without it",
    "session.configOptions.boolean": "read: boolean options are left out without it",
    "session.notices": "notices of a version 2 agent are left out",
    "subagents": "read: sub-agents are left out without it",
    "terminal": "version 2 agents do not use terminals of the client",
}
CLIENT_V2 = {
    "auth": "translated",
    "auth.terminal": "translated",
    "elicitation": "translated",
    "elicitation.form": "translated",
    "elicitation.url": "translated",
}
TABLES = {
    (1, "AgentCapabilities"): AGENT_V1,
    (2, "AgentCapabilities"): AGENT_V2,
    (1, "ClientCapabilities"): CLIENT_V1,
    (2, "ClientCapabilities"): CLIENT_V2,
}


def references(schema: object) -> Iterator[str]:
    """Yield the names of the capabilities that a property may have as its value."""
    match schema:
        case {"$ref": str(reference)}:
            yield reference.rpartition("/")[2]
        case {"anyOf": list(parts)} | {"allOf": list(parts)}:
            for part in parts:
                yield from references(part)
        case _:
            pass


def paths(known: Json, name: str, prefix: str = "") -> Iterator[str]:
    for field, value in known[name].get("properties", {}).items():
        if field != "_meta":
            yield prefix + field
            for inner in references(value):
                yield from paths(known, inner, f"{prefix}{field}.")


@pytest.mark.parametrize(("version", "root"), TABLES)
def test_every_capability_is_known(version: int, root: str) -> None:
    published = {path for file in FILES for path in paths(definitions(version, file), root)}
    assert published == TABLES[version, root].keys()


def nested(path: str, value: object) -> Json:
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def find(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


RENAMED = {
    "sessionCapabilities": "session",
    "promptCapabilities": "session.prompt",
    "mcpCapabilities": "session.mcp",
}


def in_v2(path: str) -> str:
    first, dot, rest = path.partition(".")
    return RENAMED.get(first, first) + dot + rest


@pytest.mark.parametrize(
    "path", [it for it, how in AGENT_V1.items() if how == "translated" and "." in it]
)
def test_translated_capabilities_reach_the_other_version(path: str) -> None:
    is_flag = path.startswith(("promptCapabilities", "mcpCapabilities"))
    v1 = {"agentCapabilities": nested(path, value=True if is_flag else {})}
    assert find(response_to_v2(v1)["capabilities"], in_v2(path)) is not None
    assert find(response_to_v2({"agentCapabilities": {}})["capabilities"], in_v2(path)) is None
    v2 = {"capabilities": nested(in_v2(path), {})}
    assert find(response_to_v1(v2)["agentCapabilities"], path) is not None
    absent = find(response_to_v1({"capabilities": {"session": {}}})["agentCapabilities"], path)
    assert absent in {None, False}


@pytest.mark.parametrize("table", [AGENT_V1, AGENT_V2])
def test_served_capabilities_are_those_that_are_advertised(table: dict[str, str]) -> None:
    served = {path.rpartition(".")[2] for path, how in table.items() if how == "served"}
    assert served - {"loadSession"} <= CAPABILITY_METHODS.keys()
    assert CAPABILITY_METHODS.keys() - served <= {"list", "resume", "close"}
