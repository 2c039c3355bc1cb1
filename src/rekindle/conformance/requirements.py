"""The requirements as data. `docs/reference/check.md` describes them; a test compares the two.

`numbers` refer to the checklist of the specification in `tests/requirements.py`. Numbers with a D
are changes of version 2 in the latest schemas, with an E further rules of the pages, and with a U
rules of the unstable schema. Some requirements follow from the specification
without being in it: for example, a session that can be loaded outlives the process.
"""

from enum import StrEnum

from msgspec import Struct

_BOTH = (1, 2)
_V1 = (1,)
_V2 = (2,)


class RequirementLevel(StrEnum):
    """The level of a requirement: as in RFC 2119, or not judged."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    RECORDED = "RECORDED"
    """The specification has no rule. The behaviour is reported, and not judged."""


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


def _recorded(name: str, title: str, versions: tuple[int, ...] = _BOTH) -> Requirement:
    return Requirement(name, RequirementLevel.RECORDED, (), title, versions)


# One line for each, so that neighbours can be compared.
# fmt: off
REQUIREMENTS = (
    _must("greeting.version", "2", "the agent answers with the requested version, or with its own"),
    _must("greeting.higher", "2 D14", "for a higher version, the agent answers with its highest"),
    _should("greeting.odd", "2 38 D8", "an invalid version is refused, or gets the agent's own"),
    _must("greeting.shape", "3 41", "`initialize` announces capabilities in the protocol's form"),
    _must("greeting.auth", "40", "each authentication method has an id and a name"),
    _must("greeting.login", "60", "an agent with authentication methods has `auth/login`", _V2),
    _must("greeting.unknown-method", "7 38", "an unknown method is refused with -32601"),
    _should("greeting.unknown-notification", "7", "an unknown notification is ignored"),
    _should("greeting.parse", "38", "a line that is not JSON is answered with -32700"),
    _must("greeting.gone", "42", "methods removed in version 2 are refused with -32601", _V2),
    _should("greeting.lower", "2 D14", "a lower version is answered with it or with the own", _V2),
    _should("greeting.info", "E1", "`initialize` has the agent's name and version", _V1),
    _should("greeting.auth-ids", "E2", "no two authentication methods have the same id"),
    _must("greeting.auth-types", "E3", "authentication methods have a type of the protocol", _V2),
    _must("greeting.terminal-login", "E4", "only clients with a terminal get a terminal login"),
    _must("greeting.terminal-fields", "E4", "a terminal login has valid arguments and variables"),
    _must("greeting.logout", "E5", "the announced logout works"),
    _must("greeting.text-id", "E6", "a request with a text id gets an answer with that id"),

    _must("session.works", "4 9", "`session/new` returns an id"),
    _must("session.unique", "9", "every session has its own id, also after a restart"),
    _must("session.no-servers", "43", "`mcpServers` may be omitted", _V2),
    _should("session.relative", "6 10", "a relative working folder is refused"),
    _should("session.params", "38", "a request without a required field is refused with -32602"),
    _must("session.options", "36", "options have a value, and setting one returns all of them"),
    _must("session.withdrawn", "34", "a cancelled request is answered: with data, or with -32800"),
    _should("session.unknown", "39", "a prompt for an unknown session is refused"),
    _should("session.unknown-code", "39 D8", "an unknown session is refused with -32002"),
    _must("session.modes", "E8", "the mode of a session is one of its modes", _V1),
    _must("session.set-mode", "E8", "another mode can be set", _V1),

    _must("turn.works", "4 31", "a text prompt is accepted, and its turn ends"),
    _must("turn.link", "4", "a prompt may link to a file"),
    _must("turn.reason", "31", "a turn ends with a stop reason of the protocol"),
    _should("turn.why", "49", "the state idle has the reason why the turn ended", _V2),
    _must("turn.message-id", "49 D1", "the answer to a prompt has the user message's id", _V2),
    _must("turn.states", "49", "a turn starts with the state running, and ends with idle", _V2),
    _should("turn.over", "31", "no update of a turn follows its answer", _V1),
    _must("turn.message-ids", "35 46", "no two messages have the same id"),
    _should("turn.asking", "49", "during a permission request, the state is requires_action", _V2),
    _must("turn.image", "E7", "a prompt may have an image, if the agent announces that"),
    _must("turn.audio", "E7", "a prompt may have audio, if the agent announces that"),
    _must("turn.embedded", "E7", "a prompt may embed a file, if the agent announces that"),
    _should("turn.meta", "E10", "a prompt may have `_meta`"),
    _should("turn.outcome", "E11", "a turn survives an unknown answer to its question", _V2),

    _must("cancel.ends", "32 50", "a cancelled turn ends as `cancelled`"),
    _must("cancel.over", "32 50", "no update of the turn follows its end"),
    _must("cancel.next", "4 32", "afterwards, the session accepts a prompt"),
    _should("cancel.silent", "E12", "no update of any kind follows the answer to the prompt", _V1),
    _must("cancel.meta", "E10 32 50", "a cancel may have `_meta`"),

    _must("list.works", "8 20 41", "`session/list` works without parameters"),
    _must("list.shape", "6 22 26 D9", "each session has an id and an absolute folder"),
    _should("list.times", "22", "times have the form of ISO 8601, with a time zone", _V1),
    _must("list.zones", "56", "times have the form of RFC 3339", _V2),
    _must("list.all", "20", "the list has the sessions of all folders"),
    _must("list.folder", "21 D5", "a list of a folder has the sessions of that folder only"),
    _must("list.cwd", "10", "a session has the folder that it was created with"),
    _should("list.relative", "6 21", "a relative folder is refused"),
    _should("list.cursor", "23", "an invented cursor is refused"),
    _must("list.pages", "23", "pages end, and no session is on two of them"),
    _must("list.unchanged", "24", "listing changes no session, and sends no updates"),

    _must("replay.works", "8 12 13 44", "a session can be replayed after a restart"),
    _should("replay.killed", "13", "also after the agent was killed in a turn"),
    _should("replay.listed", "20", "a session that can be replayed is listed"),
    _must("replay.whole", "13", "the replay has the whole conversation, unchanged", _V1),
    _should("replay.retained", "44 47", "the replay has the whole conversation, unchanged", _V2),
    _must("replay.answer", "14 44", "the answer follows the end of the replay"),
    _must("replay.session", "15", "the replay has the requested session id"),
    _must("replay.user", "15", "the user's messages are replayed as the user's"),
    _must("replay.ids", "46", "every replayed message has an id", _V2),
    _should("replay.same-ids", "35", "ids are the same in each replay"),
    _should("replay.again", "13", "each replay is the same"),
    _should("replay.notices", "61", "notices are not replayed", _V2),
    _must("replay.state", "D2", "the state follows the replay, and precedes the answer", _V2),
    _must("replay.cursor", "45 D3", "an unknown or malformed cursor is refused with -32602", _V2),
    _must("replay.goes-on", "16", "afterwards, the session accepts a prompt, and keeps it"),
    _should("replay.unknown", "39", "an unknown session is refused", _V1),
    _must("replay.prompt-ids", "E15", "a replayed prompt has the id of its answer", _V2),
    _should("replay.subagents", "U6", "no sub-agent of an earlier process is replayed as running"),

    _must("resume.works", "8 17 44", "a session can be resumed after a restart"),
    _should("resume.killed", "16", "also after the agent was killed in a turn"),
    _must("resume.silent", "18 44", "no part of the conversation is replayed"),
    _must("resume.state", "D2", "the state precedes the answer", _V2),
    _must("resume.goes-on", "16", "afterwards, the session accepts a prompt, and keeps it"),
    _should("resume.unknown", "39", "an unknown session is refused"),

    _must("close.works", "8 19 41", "`session/close` is answered with an object"),
    _must("close.cancels", "19 D4", "closing cancels the running turn"),
    _must("close.silent", "D4", "no update of the session follows the answer", _V2),
    _should("close.frees", "19", "a closed session accepts no prompt"),
    _should("close.keeps", "19", "a closed session can be opened again"),
    _should("close.unknown", "D4", "closing an unknown session succeeds", _V2),

    _must("fork.works", "8 28", "`session/fork` returns a session"),
    _must("fork.id", "28", "the fork has its own id"),
    _must("fork.goes-on", "4 28", "the fork accepts a prompt"),
    _must("fork.source", "29", "the source does not change"),
    _should("fork.history", "28", "the fork begins with the conversation of its source"),
    _should("fork.unknown", "39", "an unknown session is refused"),

    _must("delete.works", "8 27 56", "`session/delete` is answered with an object"),
    _must("delete.gone", "27", "a deleted session is not listed, also after a restart"),
    _should("delete.twice", "27", "deleting it again succeeds"),
    _should("delete.unknown", "27", "deleting an unknown session succeeds"),

    _must("roots.works", "8 30", "`session/new` accepts additional directories"),
    _must("roots.relative", "6 30", "a relative additional directory is refused"),
    _must("roots.empty", "30", "an empty additional directory is refused"),
    _must("roots.listed", "26", "a list that has them has all of them, in order"),
    _should("roots.reopened", "30 D6", "a session opened again without them has none"),
    _must("roots.forked", "29", "a fork does not inherit them"),
    _must("roots.opened", "E18", "a session can be opened with additional directories"),

    _must("archive.works", "U1", "`session/archive` is answered with an object"),
    _must("archive.again", "U1", "archiving an archived session succeeds"),
    _must("archive.unknown", "U1", "an unknown session is refused with -32002"),
    _must("archive.cancels", "U1", "archiving cancels the running turn"),
    _should("archive.frees", "U1", "an archived session accepts no prompt"),
    _must("archive.keeps", "U1", "the session stays archived with its id, also after a restart"),
    _must("archive.undone", "U1", "`session/unarchive` lists the session again"),
    _must("archive.unopened", "U1", "`session/unarchive` does not open the session"),
    _must("archive.undone-again", "U1", "unarchiving a session that is not archived succeeds"),
    _must("archive.list", "U2", "an agent with `archive` has `session/list`", _V1),
    _must("archive.hidden", "U2", "the list has no archived session by default"),
    _must("archive.filter", "U2", "`archived` selects sessions: `exclude`, `include` or `only`"),
    _must("archive.folder", "U2", "`archived` combines with `cwd`"),
    _must("archive.field", "U2", "every listed session has `archived`, which is true or false"),
    _must("archive.value", "U2", "any other value of `archived` is refused with -32602"),

    _must("title.works", "U3", "`session/set_title` returns the title"),
    _must("title.listed", "U3", "the list has the returned title"),
    _must("title.stored", "U3", "the title is stored before the answer, so a kill keeps it"),
    _must("title.saved", "U3", "a session that is not open can be retitled"),
    _must("title.empty", "U3", "an empty title is refused with -32602"),
    _must("title.missing", "U3", "a missing title is refused with -32602"),
    _must("title.unknown", "U3", "an unknown session is refused with -32002"),
    _should("title.stays", "U3", "the agent does not replace the title later"),

    _must("status.works", "U4", "`session/status` returns a status of the protocol"),
    _must("status.open", "U4", "a session in use is `open`"),
    _must("status.saved", "U4", "a session of an earlier process is `saved`"),
    _should("status.state", "U4", "the status of an open session has its state", _V2),
    _must("status.unchanged", "U4", "asking for the status changes nothing, and opens nothing"),
    _must("status.unknown", "U4", "an unknown session is refused with -32002 and its id"),

    _must("system.works", "U5", "`session/new` accepts a system prompt to append"),
    _must("system.override", "U5", "a system prompt to override is accepted only if announced"),
    _must("system.mode", "U5", "an unknown mode is refused"),
    _must("system.content", "U5", "content that is not text is refused"),
    _must("system.reopened", "U5", "a session can be opened again with a system prompt"),

    _must("rewind.works", "U7", "`session/rewind` is answered with an object"),
    _must("rewind.notified", "U7", "`history_truncated` is sent before the answer"),
    _must("rewind.history", "U7", "a replay ends at the message"),
    _must("rewind.goes-on", "U7", "afterwards, the session accepts a prompt"),
    _must("rewind.edit", "U7", "`session/edit_prompt` replaces a prompt, and runs a turn"),
    _must("rewind.unknown", "U7", "an unknown session is refused with -32002"),
    _must("rewind.message", "U7", "an unknown message is refused"),

    _must("batch.empty", "E19", "an empty batch is answered with one -32600, without an id", _V2),
    _must("batch.silent", "E19", "a batch of notifications is not answered", _V2),
    _should("batch.members", "E19", "an invalid member gets a -32600, and the others work", _V2),
    _should("batch.array", "E19", "the answers to a batch are one array, with the ids", _V2),
    _should("batch.cancel", "E19", "a cancel in a batch cancels the turn", _V2),

    _recorded("recorded.start", "the time until `initialize` is answered"),
    _recorded("recorded.stderr", "the output on stderr"),
    _recorded("recorded.invalid-request", "the reaction to JSON that is not a message"),
    _recorded("recorded.protocol-notification", "the reaction to an unknown `$/` notification"),
    _recorded("recorded.second-prompt", "the reaction to a prompt while a turn runs"),
    _recorded("recorded.idle-cancel", "the reaction to a cancel without a turn"),
    _recorded("recorded.withdrawal", "whether a cancelled turn withdraws its open requests"),
    _recorded("recorded.stdio-server", "the reaction to an MCP server that does not start"),
    _recorded("recorded.http-server", "the reaction to an MCP server that does not answer"),
    _recorded("recorded.replay-chunks", "whether replayed messages are whole or in chunks", _V2),
    _recorded("recorded.broken-batch", "the reaction to a batch that is not JSON", _V2),
    _recorded("recorded.mixed-batch", "the reaction to a batch of a request and an answer", _V2),

    _must("wire.json", "5 58", "stdout has only JSON-RPC in UTF-8, one message per line"),
    _must("wire.frames", "38", "each message is a call, or an answer with a result or an error"),
    _must("wire.once", "38", "each answer has the id of its request, and comes once"),
    _must("wire.ids", "59", "the ids of requests are texts or integers"),
    _must("wire.answered", "4", "every request is answered"),
    _must("wire.capabilities", "3 15 61", "the agent uses only capabilities that the client has"),
    _should("wire.methods", "7", "methods are the protocol's, or begin with `_`"),
    _must("wire.fields", "7 43 48", "the protocol's types have no additional fields but `_meta`"),
    _must("wire.kinds", "51 55 D12", "updates have the protocol's kinds"),
    _must("wire.arrays", "D11", "options and commands are arrays", _V2),
    _should("wire.sessions", "15", "updates belong to sessions that the client knows"),
    _must("wire.leaks", "15", "an update is sent with the id of its own session only"),
    _must("wire.tool-calls", "6 33 51", "tool calls have an id, a known status and absolute paths"),
    _should("wire.titles", "33 51", "the first update of a tool call is complete, with its title"),
    _must("wire.plans", "36 53", "plans are sent as a whole"),
    _must("wire.terminals", "52", "terminals have an id, and output in base64", _V2),
    _must("wire.info", "25", "an information update has a title and a time only"),
    _must("wire.questions", "54", "permission requests have a subject and options"),
    _should("wire.errors", "E13", "the message of an error is one line, and not empty"),
    _should("wire.meta", "E10", "`_meta` is an object or null"),
    _should("wire.exits", "E14", "the agent exits when its input is closed"),
    _should("wire.tool-names", "E17", "the name of a tool call does not change"),
    _must("wire.terminal-folders", "E16", "a terminal has one absolute folder", _V2),
    _must("wire.choices", "E9", "the value of an option is one of its choices"),
    _must("wire.option-updates", "E9", "an update of the options has all of them"),
    _must("wire.subagents", "U6", "a sub-agent is announced before its own messages"),
)
# fmt: on

NOT_JUDGED = {
    "1": "the client has to begin with `initialize`",
    "11": "agents may connect to MCP servers later, so a missing connection cannot be observed",
    "37": "the order is Rekindle's own, not the protocol's",
    "57": "the client sends the type of MCP servers",
    "D7": "an agent may refuse batches, as the SDKs do; E19 checks those that accept them",
    "D10": "the client merges `_meta`",
    "D13": "the client displays states",
    "D15": "an agent may send updates before the answer to `session/new`, or not",
}
"""The numbers of the checklist without a requirement here, and the reasons."""

NOT_WHOLE = {
    "2": "whether it is the highest version, unless that is below the checked version",
    "7": "the contents of a capability that is an empty object",
    "10": "the folder in which the agent works, because it cannot be observed",
    "16": "the memory of the model, because it cannot be observed",
    "23": "the length of pages, and whether cursors stay the same",
    "25": "that null clears a value, because the client does that",
    "28": "another folder, which an agent may refuse",
    "30": "the folders of a fork, and a dropped folder that no list shows",
    "32": "that permission requests are answered as cancelled, because the client does that",
    "33": "the status of an interrupted call, which the agent decides",
    "36": "whether modes and options agree",
    "39": "`data.sessionId`, which is the SDK's own",
    "40": "logging in, unless --login is used",
    "42": "`logout`, which might take effect",
    "47": "replaced or cleared messages, because no request causes them",
    "52": "that ids are never used again, and the replay of terminals",
    "54": "that an unknown answer is not an approval, because that cannot be observed",
    "55": "that kinds are kept, because the client does that",
    "61": "the replay of a compaction, because no request causes one",
    "D4": "the answer to a prompt that has not started yet, because that depends on chance",
    "D6": "MCP servers, because the agent's connections cannot be observed",
    "D8": "the code for an unsupported version, because an agent may answer with its own",
    "E5": "unless --allow-logout is used, because the logout takes effect",
    "E14": "a process that the check kills",
    "U2": "that the filter applies before paging, because the length of pages is the agent's",
    "U5": "the precedence of the text, because it cannot be observed",
    "U6": "sub-agents that the prompts do not start",
    "D14": "whether it is the highest version, unless that is below the checked version",
}
"""The parts of other numbers that no requirement checks."""

SCENARIOS = tuple(dict.fromkeys(it.scenario for it in REQUIREMENTS))


def of_version(protocol: int) -> list[Requirement]:
    """Return the requirements of a version of the protocol."""
    return [it for it in REQUIREMENTS if protocol in it.versions]
