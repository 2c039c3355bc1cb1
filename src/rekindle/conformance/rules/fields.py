"""The fields of the protocol's types, and the rule that finds others.

Each line of the tables is a type: its name and its fields. A colon after a field is followed by
the type of that field, if it has fields of its own. A type with several forms has the fields of
all of them. Unstable fields are included. A test compares the tables with the published schemas.
"""

from collections.abc import Iterable, Iterator, Sequence

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.trace import TraceLine, id_key
from rekindle.jsonvalue import Json, as_array, as_object

Types = dict[str, dict[str, str]]

_BOTH = """
Annotations audience lastModified priority
Cost amount currency
EmbeddedResourceResource blob mimeType text uri
Implementation name title version
ListSessionsResponse nextCursor sessions:SessionInfo
PermissionOption kind name optionId
PlanEntry content priority status
PlanUpdateContent content entries:PlanEntry planId type uri
SessionInfo additionalDirectories archived cwd sessionId title updatedAt
SetSessionConfigOptionResponse configOptions:SessionConfigOption
ToolCallLocation line path
Usage cachedReadTokens cachedWriteTokens inputTokens outputTokens thoughtTokens totalTokens
"""
# Drafts had `models`, and many agents still send it. A proposal has `rewind`.
_V1 = """
AgentCapabilities auth loadSession mcpCapabilities:McpCapabilities \
promptCapabilities:PromptCapabilities providers sessionCapabilities:SessionCapabilities
AuthMethod args description env id name type
AvailableCommand description input:AvailableCommandInput name
AvailableCommandInput hint
ContentBlock annotations:Annotations data description mimeType name \
resource:EmbeddedResourceResource size text title type uri
ForkSessionResponse configOptions:SessionConfigOption models modes:SessionModeState sessionId
InitializeResponse agentCapabilities:AgentCapabilities agentInfo:Implementation \
authMethods:AuthMethod protocolVersion
LoadSessionResponse configOptions:SessionConfigOption models modes:SessionModeState
McpCapabilities acp http sse
NewSessionResponse configOptions:SessionConfigOption models modes:SessionModeState sessionId
PromptCapabilities audio embeddedContext image
PromptResponse stopReason usage:Usage
RequestPermissionRequest options:PermissionOption sessionId toolCall:ToolCallUpdate
ResumeSessionResponse configOptions:SessionConfigOption models modes:SessionModeState
SessionCapabilities additionalDirectories archive close delete fork list resume rewind status \
systemPrompt title
SessionConfigOption category currentValue description id name options type
SessionMode description id name
SessionModeState availableModes:SessionMode currentModeId
ToolCallContent content:ContentBlock newText oldText path terminalId type
ToolCallUpdate content:ToolCallContent kind locations:ToolCallLocation name rawInput rawOutput \
status title toolCallId
"""
_V2 = """
AgentCapabilities auth providers session:SessionCapabilities
AuthMethod args description env methodId name type
AvailableCommand description input:AvailableCommandInput name type
AvailableCommandInput hint type
BackgroundWork sessionId terminalId toolCallId type
ContentBlock annotations:Annotations data description icons:Icon mimeType name \
resource:EmbeddedResourceResource size text title type uri
DiffChange fileType mimeType oldPath operation path
DiffPatch format text
ForkSessionResponse availableCommands:AvailableCommand configOptions:SessionConfigOption sessionId
Icon mimeType sizes src theme
InitializeResponse authMethods:AuthMethod capabilities:AgentCapabilities info:Implementation \
protocolVersion
McpCapabilities acp http stdio
NewSessionResponse availableCommands:AvailableCommand configOptions:SessionConfigOption sessionId
PromptCapabilities audio embeddedContext image
PromptResponse messageId
RequestPermissionRequest description options:PermissionOption sessionId \
subject:RequestPermissionSubject title
RequestPermissionSubject command cwd terminalId toolCall:ToolCallUpdate toolCallId type
ResumeSessionResponse availableCommands:AvailableCommand configOptions:SessionConfigOption
SessionCapabilities additionalDirectories archive delete fork mcp:McpCapabilities \
prompt:PromptCapabilities rewind status systemPrompt title
SessionConfigOption category configId currentValue description name options type
TerminalExitStatus exitCode signal
TerminalOutput data
TerminalSize cols rows
ToolCallContent changes:DiffChange content:ContentBlock patch:DiffPatch terminalId type
ToolCallUpdate capabilities content:ToolCallContent kind locations:ToolCallLocation name rawInput \
rawOutput status title toolCallId
"""
_MESSAGE = "content:ContentBlock messageId"
_CALL = """content:ToolCallContent kind locations:ToolCallLocation name rawInput rawOutput status \
title toolCallId"""
_BOTH_UPDATES = f"""
agent_message_chunk {_MESSAGE}
agent_thought_chunk {_MESSAGE}
available_commands_update availableCommands:AvailableCommand
compaction_summary_chunk compactionId content:ContentBlock
compaction_update compactionId error status summary:ContentBlock
config_option_update configOptions:SessionConfigOption
notice description severity title
plan_removed planId
plan_update plan:PlanUpdateContent
session_info_update title updatedAt
session_message {_MESSAGE} recipientMessageId recipientSessionId senderMessageId senderSessionId
session_message_chunk {_MESSAGE}
subagent_update additionalDirectories capabilities cwd description sessionId state title
usage_update cost:Cost size used
user_message_chunk {_MESSAGE}
"""
_V1_UPDATES = f"""
current_mode_update currentModeId
plan entries:PlanEntry
tool_call {_CALL}
tool_call_update {_CALL}
"""
_V2_UPDATES = f"""
agent_message {_MESSAGE}
agent_thought {_MESSAGE}
state_update background:BackgroundWork error state stopReason usage:Usage
terminal_output_chunk data terminalId
terminal_update capabilities command cwd exitStatus:TerminalExitStatus output:TerminalOutput \
size:TerminalSize terminalId
tool_call_content_chunk content:ToolCallContent toolCallId
tool_call_update capabilities {_CALL}
user_message {_MESSAGE}
"""


def _read(*written: str) -> Types:
    types: Types = {}
    for line in filter(None, "".join(written).splitlines()):
        name, *fields = line.split()
        split = (it.partition(":") for it in fields)
        types[name] = {field: of for field, _, of in split}
    return types


TYPES = {1: _read(_BOTH, _V1), 2: _read(_BOTH, _V2)}
UPDATES = {1: _read(_BOTH_UPDATES, _V1_UPDATES), 2: _read(_BOTH_UPDATES, _V2_UPDATES)}
"""The fields of each update kind, except `sessionUpdate`."""
RESULT_TYPES = {
    methods.INITIALIZE: "InitializeResponse",
    methods.NEW: "NewSessionResponse",
    methods.LOAD: "LoadSessionResponse",
    methods.RESUME: "ResumeSessionResponse",
    methods.FORK: "ForkSessionResponse",
    methods.LIST: "ListSessionsResponse",
    methods.PROMPT: "PromptResponse",
    methods.SET_CONFIG_OPTION: "SetSessionConfigOptionResponse",
    methods.CLOSE: "",
    methods.DELETE: "",
}
"""The type of each method's result; empty if it has no fields."""
_SELECTORS = ("type", "operation", "state", "format")
"""The fields that select the form of a type."""


def extra_fields(lines: Sequence[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find fields that the protocol's types do not have."""
    requests = {id_key(it.id): it for it in lines if it.is_sent and it.is_request}
    for line in lines:
        if line.is_sent:
            continue
        if line.kind in UPDATES[protocol]:
            yield from _check_update(line, protocol)
        elif line.method == methods.REQUEST_PERMISSION:
            found = _extra(line.params, "RequestPermissionRequest", protocol)
            yield from _faults("a permission request", found, (line,))
        elif line.is_response and (request := requests.get(id_key(line.id))):
            yield from _check_result(request, line, protocol)


def _check_update(line: TraceLine, protocol: int) -> Iterator[Fault]:
    fields = UPDATES[protocol][line.kind] | {"sessionUpdate": ""}
    yield from _faults(f"the update {line.kind}", _within(line.update, fields, protocol), (line,))
    around = {"sessionId": "", "update": ""}
    yield from _faults("session/update", _within(line.params, around, protocol), (line,))


def _check_result(request: TraceLine, line: TraceLine, protocol: int) -> Iterator[Fault]:
    result = as_object(line.message.get("result"))
    version = result.get("protocolVersion")
    if request.method == methods.INITIALIZE and isinstance(version, int) and version in TYPES:
        # A scenario may have asked for another version, and the agent may use another form.
        protocol = 1 if "agentCapabilities" in result else version
    name = RESULT_TYPES.get(request.method)
    if name is not None and (not name or name in TYPES[protocol]):
        found = _extra(result, name, protocol)
        yield from _faults(f"the answer to {request.method}", found, (request, line))


def _extra(value: Json, name: str, protocol: int) -> Iterator[tuple[str, str]]:
    return _within(value, TYPES[protocol].get(name, {}), protocol)


def _within(value: Json, fields: dict[str, str], protocol: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each additional field."""
    if any(vocabulary.is_custom(value.get(kind)) for kind in _SELECTORS):
        return  # a form of an extension may have any fields
    for name, inner in value.items():
        if name == "_meta":
            continue
        if name not in fields:
            yield "", name
        elif fields[name]:
            for it in map(as_object, as_array(inner) or [inner]):
                deeper = _extra(it, fields[name], protocol)
                yield from ((f".{name}{where}", extra) for where, extra in deeper)


def _faults(
    what: str, found: Iterable[tuple[str, str]], lines: tuple[TraceLine, ...]
) -> Iterator[Fault]:
    for where, extra in dict.fromkeys(found):
        place = f" (in `{where[1:]}`)" if where else ""
        message = f"{what} has `{extra}`{place}, which is not in the protocol; use `_meta`"
        yield Fault(message, lines)
