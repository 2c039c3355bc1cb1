"""The requirements as data. `docs/check.md` describes them; a test compares the two.

`numbers` refer to the checklist of the specification in `tests/requirements.py`. Numbers with a D
are changes of version 2 in the latest schemas. Some requirements follow from the specification
without being in it: for example, a session that can be loaded outlives the process.
"""

from enum import StrEnum

from msgspec import Struct

_BOTH = (1, 2)
_V1 = (1,)
_V2 = (2,)


class RequirementLevel(StrEnum):
    """The level of a requirement, as in RFC 2119."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class Requirement(Struct, frozen=True):
    """One requirement. The first part of its name is the scenario that checks it."""

    name: str
    level: RequirementLevel
    numbers: tuple[str, ...]
    title: str
    versions: tuple[int, ...]

    @property
    def scenario(self) -> str:
        """The scenario that checks it."""
        return self.name.partition(".")[0]


def _must(name: str, numbers: str, title: str, versions: tuple[int, ...] = _BOTH) -> Requirement:
    return Requirement(name, RequirementLevel.MUST, tuple(numbers.split()), title, versions)


def _should(name: str, numbers: str, title: str, versions: tuple[int, ...] = _BOTH) -> Requirement:
    return Requirement(name, RequirementLevel.SHOULD, tuple(numbers.split()), title, versions)


# One line for each, so that neighbours can be compared.
# fmt: off
REQUIREMENTS = (
    _must("greeting.version", "2", "the version that is asked for is answered, or the agent's own"),
    _must("greeting.higher", "2 D14", "a version above the agent's own gets its highest"),
    _should("greeting.odd", "2 38 D8", "a version that there is not is refused, or gets its own"),
    _must("greeting.shape", "3 41", "`initialize` tells capabilities as the protocol has them"),
    _must("greeting.auth", "40", "each way to sign in has an id and a name"),
    _must("greeting.login", "60", "whoever names ways to sign in has `auth/login`", _V2),
    _must("greeting.unknown-method", "7 38", "an unknown method is refused with -32601"),
    _should("greeting.unknown-notification", "7", "an unknown notification is ignored"),
    _should("greeting.parse", "38", "a line that is no JSON is answered with -32700"),
    _must("greeting.gone", "42", "methods that version 2 has not are refused with -32601", _V2),

    _must("session.works", "4 9", "`session/new` gives an id"),
    _must("session.unique", "9", "every session has an id of its own, also after a restart"),
    _must("session.no-servers", "43", "`mcpServers` may be left out", _V2),
    _should("session.relative", "6 10", "a working folder that is not absolute is refused"),
    _should("session.params", "38", "a request without what it needs is refused with -32602"),
    _must("session.options", "36", "options have a value, and setting one answers with them all"),
    _must("session.withdrawn", "34", "a request that is withdrawn is answered: data, or -32800"),
    _should("session.unknown", "39", "a prompt for an unknown session is refused"),
    _should("session.unknown-code", "39 D8", "an unknown session is refused with -32002"),

    _must("turn.works", "4 31", "a prompt of text is taken, and its turn ends"),
    _must("turn.link", "4", "a prompt may link to a file"),
    _must("turn.reason", "31", "a turn ends with a reason to stop that the protocol has"),
    _should("turn.why", "49", "the state idle says why the turn ended", _V2),
    _must("turn.message-id", "49 D1", "a prompt's answer has the id of the user's message", _V2),
    _must("turn.states", "49", "a turn is told as the state running, and ends with idle", _V2),
    _should("turn.over", "31", "nothing of a turn comes after its answer", _V1),
    _must("turn.message-ids", "35 46", "no two messages have the same id"),
    _should("turn.asking", "49", "while a question is open the state is requires_action", _V2),

    _must("cancel.ends", "32 50", "a turn that is cancelled ends as `cancelled`"),
    _must("cancel.over", "32 50", "nothing of it comes after its end"),
    _must("cancel.next", "4 32", "after it, the session takes a prompt"),

    _must("list.works", "8 20 41", "`session/list` works without parameters"),
    _must("list.shape", "6 22 26 D9", "each session has an id and an absolute folder"),
    _should("list.times", "22", "times are of ISO 8601, with a zone", _V1),
    _must("list.zones", "56", "times are of RFC 3339", _V2),
    _must("list.all", "20", "it has the sessions of all folders"),
    _must("list.folder", "21 D5", "by folder, it has that folder's sessions and no others"),
    _must("list.cwd", "10", "a session's folder is the one that it was made with"),
    _should("list.relative", "6 21", "to list by a folder that is not absolute is refused"),
    _should("list.cursor", "23", "a cursor that was never given is refused"),
    _must("list.pages", "23", "pages end, and no session is on two of them"),
    _must("list.unchanged", "24", "to list changes nothing, and tells nothing"),

    _must("replay.works", "8 12 13 44", "a session can be told again after a restart"),
    _should("replay.killed", "13", "also after the agent was killed in a turn"),
    _should("replay.listed", "20", "what can be told again is listed"),
    _must("replay.whole", "13", "the whole conversation is told, as it was", _V1),
    _should("replay.retained", "44 47", "the whole conversation is told, as it was", _V2),
    _must("replay.answer", "14 44", "the answer comes after the last of it"),
    _must("replay.session", "15", "it is told under the id that was asked for"),
    _must("replay.user", "15", "the user's turns are told as the user's"),
    _must("replay.ids", "46", "every message of it has an id", _V2),
    _should("replay.same-ids", "35", "ids are the same each time"),
    _should("replay.again", "13", "it is the same each time"),
    _should("replay.notices", "61", "notices are not told again", _V2),
    _must("replay.state", "D2", "the state comes after it, and before the answer", _V2),
    _must("replay.cursor", "45 D3", "an unknown or malformed cursor is refused with -32602", _V2),
    _must("replay.goes-on", "16", "after it, the session takes a prompt, and keeps it"),
    _should("replay.unknown", "39", "an unknown session is refused", _V1),

    _must("resume.works", "8 17 44", "a session can be resumed after a restart"),
    _should("resume.killed", "16", "also after the agent was killed in a turn"),
    _must("resume.silent", "18 44", "nothing of the conversation is told"),
    _must("resume.state", "D2", "the state comes before the answer", _V2),
    _must("resume.goes-on", "16", "after it, the session takes a prompt, and keeps it"),
    _should("resume.unknown", "39", "an unknown session is refused"),

    _must("close.works", "8 19 41", "`session/close` is answered with an object"),
    _must("close.cancels", "19 D4", "it cancels what is running"),
    _must("close.silent", "D4", "nothing of the session comes after its answer", _V2),
    _should("close.frees", "19", "a closed session takes no prompt"),
    _should("close.keeps", "19", "a closed session can be opened again"),
    _should("close.unknown", "D4", "closing an unknown session succeeds", _V2),

    _must("fork.works", "8 28", "`session/fork` gives a session"),
    _must("fork.id", "28", "it has an id of its own"),
    _must("fork.goes-on", "4 28", "it takes a prompt"),
    _must("fork.source", "29", "the source is as it was"),
    _should("fork.history", "28", "it begins with the source's conversation"),
    _should("fork.unknown", "39", "an unknown session is refused"),

    _must("delete.works", "8 27 56", "`session/delete` is answered with an object"),
    _must("delete.gone", "27", "a deleted session is not listed, also after a restart"),
    _should("delete.twice", "27", "deleting it again succeeds"),
    _should("delete.unknown", "27", "deleting an unknown session succeeds"),

    _must("roots.works", "8 30", "`session/new` takes further folders"),
    _must("roots.relative", "6 30", "one that is not absolute is refused"),
    _must("roots.empty", "30", "one that is empty is refused"),
    _must("roots.listed", "26", "where a list has them, they are whole and in order"),
    _should("roots.reopened", "30 D6", "opened again without them, a session has none"),
    _must("roots.forked", "29", "a fork does not inherit them"),

    _must("wire.json", "5 58", "stdout has JSON-RPC in UTF-8, one message a line, and no more"),
    _must("wire.frames", "38", "each message is a call or an answer, with a result or an error"),
    _must("wire.once", "38", "an answer bears the id of what was asked, and comes once"),
    _must("wire.ids", "59", "requests have ids that are text or whole numbers"),
    _must("wire.answered", "4", "every request is answered"),
    _must("wire.capabilities", "3 15 61", "the client is told and asked nothing that it has not"),
    _should("wire.methods", "7", "methods are the protocol's, or begin with `_`"),
    _must("wire.fields", "7 43 48", "nothing is added to the protocol's types but `_meta`"),
    _must("wire.kinds", "51 55 D12", "updates are of the protocol's kinds"),
    _must("wire.arrays", "D11", "options and commands are arrays", _V2),
    _should("wire.sessions", "15", "updates are of sessions that the client knows"),
    _must("wire.leaks", "15", "an update comes under the id of its own session only"),
    _must("wire.tool-calls", "6 33 51", "tool calls have an id, a known status, absolute paths"),
    _should("wire.titles", "33 51", "a tool call is first told whole, with its title"),
    _must("wire.plans", "36 53", "plans are told whole"),
    _must("wire.terminals", "52", "terminals have an id, and output in base64", _V2),
    _must("wire.info", "25", "an information update has a title and a time, and no more"),
    _must("wire.questions", "54", "questions have what they are about, and options"),
)
# fmt: on

NOT_JUDGED = {
    "1": "it is the client that has to begin with `initialize`",
    "11": "agents may connect to MCP servers when they need them, so it cannot be seen when not",
    "37": "the order is our own way to do it, and not the protocol's",
    "57": "it is the client that says of which type MCP servers are",
    "D7": "what becomes of a batch is left open; that none is sent is judged with 58",
    "D10": "it is the client that puts `_meta` together",
    "D13": "it is the client that shows states",
    "D15": "an agent may tell things before the answer to `session/new`, or not",
}
"""The numbers of the checklist without a requirement here, and the reasons."""

NOT_WHOLE = {
    "2": "whether it is the highest, unless that is below the version that it is checked in",
    "7": "the choices of an option, and what stands in a capability that is an empty object",
    "10": "in which folder the agent works, as that cannot be seen from outside",
    "16": "what the model still knows, as that cannot be seen from outside",
    "23": "how long pages are, and whether cursors stay the same",
    "25": "that null clears, as it is the client that does that",
    "28": "another folder, which an agent may refuse",
    "30": "the folders of a fork, and whether one is dropped that no list tells",
    "32": "that questions are answered as cancelled, as it is the client that does that",
    "33": "which status a call has that was cut off: that is the agent's to say",
    "36": "whether modes and options agree",
    "39": "`data.sessionId`, which is the SDK's way to say which",
    "40": "signing in, unless there is a --login",
    "42": "`logout`, which might be done",
    "47": "messages that are replaced or cleared, as nothing makes an agent do so",
    "52": "that ids are never used again, and what a replay tells of terminals",
    "54": "what is made of an answer that is not known, as none is given",
    "55": "that kinds are kept, as it is the client that does that",
    "58": "what becomes of a batch, as none is sent to the agent",
    "60": "`auth/logout`, which might be done",
    "61": "how a compaction is told again, as nothing makes an agent do one",
    "D4": "the answer to a prompt that was not taken up yet, as that is left to chance",
    "D6": "MCP servers, as nobody sees which an agent is connected to",
    "D8": "which code a version has that is not served, as an agent may answer with its own",
    "D14": "whether it is the highest, unless that is below the version that it is checked in",
}
"""The parts of other numbers that no requirement checks."""

SCENARIOS = tuple(dict.fromkeys(it.scenario for it in REQUIREMENTS))


def of_version(protocol: int) -> list[Requirement]:
    """Return the requirements of a version of the protocol."""
    return [it for it in REQUIREMENTS if protocol in it.versions]
