"""What version 1 of the protocol demands of whoever stands between a client and an agent.

The numbers are those of our checklist of the specification. Tests name them with
`@pytest.mark.requirement(13, 14)`, golden transcripts with `meets 13 14`; `test_requirements.py`
proves that every one has a test, and that no test names one that is not here.
"""

REQUIREMENTS = {
    1: "a session comes after `initialize`",
    2: "the version that was asked for is answered, or the agent's own",
    3: "a capability that is left out is not there",
    4: "`session/new`, `prompt`, `cancel` and `update` always work",
    5: "UTF-8, one message a line, and nothing else on stdout",
    6: "paths are absolute",
    7: "nothing is added to the protocol's types but `_meta`; unknown extensions pass",
    8: "what is advertised works; roots are advertised only if the agent has them",
    9: "every session has an id of its own",
    10: "a session's folder is absolute, and never changes",
    11: "the agent gets the MCP servers that were given",
    12: "a load names a session and a folder",
    13: "a load replays the whole conversation",
    14: "and is answered after the last update of it",
    15: "under the id that was asked for, with the user's turns as `user_message_chunk`",
    16: "after it, the conversation goes on as if never interrupted",
    17: "a resume names a session and a folder",
    18: "and replays nothing",
    19: "a close cancels the work, frees the session, and keeps the record",
    20: "a list without parameters is the first page of all sessions",
    21: "a list by folder has that folder's sessions only",
    22: "each with id and absolute folder; none is an empty list",
    23: "no cursor means the end; a bad one is an error; pages are bounded and stable",
    24: "a list changes nothing",
    25: "an information update leaves alone what it leaves out, and null clears",
    26: "additional roots are told whole and in order",
    27: "a deleted session is not listed again; deleting an unknown one succeeds",
    28: "a fork has an id of its own",
    29: "and leaves its source alone, and inherits no roots",
    30: "additional roots are absolute and not empty, and are never restored from the record",
    31: "a prompt is answered with a reason to stop",
    32: "a cancel reaches the agent, and what it asked is answered as cancelled",
    33: "a tool call that was interrupted is replayed as failed",
    34: "`$/cancel_request` passes",
    35: "message ids are kept, the same for all chunks, and stable from load to load",
    36: "a plan replaces the one before; options are told whole",
    37: "the present state is told once, after the history",
    38: "errors have the codes of the specification",
    39: "an unknown session is -32002, whatever the agent calls it",
    40: "authentication passes untouched, and its demand reaches the client",
}
