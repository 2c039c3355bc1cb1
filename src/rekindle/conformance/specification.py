"""The sources of the rules: pages and types of the specification, at a certain revision.

The keys are the numbers of the checklist in `docs/reference/check.md`; a test compares the two.
"""

import re

from msgspec import Struct

PAGES_REVISION = "agent-client-protocol@b7f0005, 2026-08-22"
SCHEMA_REVISION = "@agentclientprotocol/sdk 2.4.0"
"""The schema is newer than the pages. Where the two differ, the schema is judged."""
_SITE = "https://agentclientprotocol.com"
_PAGE = re.compile(r"(v1|v2|rfds)/\S+")
_SCHEMA = re.compile(r"(?:(v1|v2|unstable) )?schema: (\w+)")

SOURCES = {
    "1": "v1/initialization",
    "2": "v1/initialization",
    "3": "v1/initialization",
    "4": "v1/initialization",
    "5": "v1/transports",
    "6": "v1/overview",
    "7": "v1/extensibility",
    "8": "v1/session-setup, v1/session-delete",
    "9": "v1/session-setup",
    "10": "v1/session-setup",
    "11": "v1/session-setup",
    "12": "v1/session-setup",
    "13": "v1/session-setup",
    "14": "v1/session-setup",
    "15": "v1/session-setup",
    "16": "v1/session-setup",
    "17": "v1/session-setup",
    "18": "v1/session-setup",
    "19": "v1/session-setup",
    "20": "v1/session-list",
    "21": "v1/session-list",
    "22": "v1/session-list",
    "23": "v1/session-list",
    "24": "v1/session-list",
    "25": "v1 schema: SessionInfoUpdate",
    "26": "v1/session-list",
    "27": "v1/session-delete",
    "28": "rfds/session-fork",
    "29": "rfds/additional-directories",
    "30": "rfds/additional-directories",
    "31": "v1/prompt-turn",
    "32": "v1/prompt-turn",
    "33": "v1 schema: ToolCallStatus",
    "34": "v1/cancellation",
    "35": "rfds/message-id",
    "36": "v1/agent-plan, v1/session-config-options",
    "37": "Rekindle's own",
    "38": "schema: ErrorCode, JSON-RPC 2.0",
    "39": "schema: ErrorCode, JSON-RPC 2.0",
    "40": "v1/initialization",
    "41": "v2/initialization, v2/session-setup",
    "42": "v2 schema: AgentRequest",
    "43": "v2 schema: NewSessionRequest",
    "44": "v2/session-setup",
    "45": "v2 schema: ReplayFrom",
    "46": "v2/session-setup, v2/prompt-lifecycle",
    "47": "v2/session-setup",
    "48": "v2 schema: ResumeSessionResponse",
    "49": "v2/prompt-lifecycle",
    "50": "v2/prompt-lifecycle",
    "51": "v2/tool-calls",
    "52": "v2/tool-calls",
    "53": "v2/agent-plan",
    "54": "v2/tool-calls",
    "55": "v2/extensibility",
    "56": "v2/session-list, v2/session-delete",
    "57": "v2/session-setup",
    "58": "v2/transports",
    "59": "v2 schema: RequestId",
    "60": "v2/initialization",
    "61": "rfds/session-notices, rfds/session-compaction",
    "D1": "v2 schema: PromptResponse",
    "D2": "v2 schema: StateUpdate",
    "D3": "v2 schema: ResumeSessionRequest",
    "D4": "v2 schema: CloseSessionRequest",
    "D5": "v2 schema: ListSessionsRequest",
    "D6": "v2 schema: ResumeSessionRequest",
    "D7": "v2/transports",
    "D8": "v2 schema: ErrorCode",
    "D9": "v2 schema: ListSessionsResponse",
    "D10": "v2/extensibility",
    "D11": "v2 schema: NewSessionResponse",
    "D12": "v2 schema: SessionUpdate",
    "D13": "v2 schema: StateUpdate",
    "D14": "v2 schema: InitializeRequest",
    "D15": "v2 schema: StateUpdate",
    "E1": "v1/initialization",
    "E2": "schema: AuthMethod",
    "E3": "v2/authentication, v2/extensibility",
    "E4": "v1/authentication, v2/authentication",
    "E5": "v1/authentication, v2/authentication",
    "E6": "schema: RequestId, JSON-RPC 2.0",
    "E7": "v1/initialization, v2/initialization",
    "E8": "v1/session-modes",
    "E9": "v1/session-config-options, v2/session-config-options",
    "E10": "v1/extensibility, v2/extensibility",
    "E11": "v2/extensibility",
    "E12": "v1/prompt-turn",
    "E13": "schema: Error",
    "E14": "v1/transports, v2/transports",
    "E15": "v2/prompt-lifecycle, v2 schema: PromptResponse",
    "E16": "v2/tool-calls",
    "E17": "v2/tool-calls, rfds/tool-call-name",
    "E18": "v1/session-setup, v2/session-setup",
    "E19": "v2/transports, JSON-RPC 2.0",
    "U1": "unstable schema: ArchiveSessionRequest, unstable schema: UnarchiveSessionRequest",
    "U2": "unstable schema: ListSessionsRequest, unstable schema: SessionInfo",
    "U3": "unstable schema: SetSessionTitleRequest",
    "U4": "unstable schema: SessionStatusRequest",
    "U5": "unstable schema: SystemPrompt",
    "U6": "unstable schema: SubagentUpdate",
    "U7": "proposal #1321",
}
"""The pages and types of each number. Pages of a version are below `/protocol` on the site."""


class Source(Struct, frozen=True):
    """A page or a type of the specification, and the revision that was read."""

    name: str
    address: str
    """Its address; empty if it has none."""
    revision: str


def find_sources(numbers: tuple[str, ...], protocol: int) -> tuple[Source, ...]:
    """Return the sources of rules. Those of the other version are left out if others remain."""
    names = [name for it in numbers for name in SOURCES.get(it, "").split(", ") if name]
    other = "v2" if protocol == 1 else "v1"
    fitting = [it for it in names if not it.startswith(other)] or names
    return tuple(_source(it, protocol) for it in dict.fromkeys(fitting))


def _source(name: str, protocol: int) -> Source:
    if page := _PAGE.fullmatch(name):
        below = name if page[1] == "rfds" else f"protocol/{name}"
        return Source(name, f"{_SITE}/{below}", PAGES_REVISION)
    if found := _SCHEMA.fullmatch(name):
        version = found[1] if found[1] in {"v1", "v2"} else f"v{protocol}"
        draft = "/draft" if found[1] == "unstable" else ""
        address = f"{_SITE}/protocol/{version}{draft}/schema#{found[2].lower()}"
        return Source(name, address, SCHEMA_REVISION)
    return Source(name, "", "")
