"""Conversations between any two versions through the engine, and strategies for their updates."""

import json
from typing import Any

from hypothesis import strategies as st

from playbook import CLIENT, Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.proxy.peers import AGENT

Json = dict[str, Any]

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
TEXT = st.builds(lambda words: {"type": "text", "text": words}, WORDS)
BLOCK = TEXT | st.just({"type": "resource_link", "name": "a", "uri": "file:///a"})
NAMES = st.sampled_from(["1", "2"])
KINDS = st.sampled_from(["agent_message_chunk", "agent_thought_chunk"])
CONTENT = {"type": "content", "content": {"type": "text", "text": "x"}}


def chunk(kind: str, block: Json, name: str | None) -> Json:
    given_id = {} if name is None else {"messageId": f"{kind}-{name}"}
    return {"sessionUpdate": kind, **given_id, "content": block}


def call(kind: str, name: str, more: Json) -> Json:
    return {"sessionUpdate": kind, "toolCallId": name, **more}


DONE = {"title": "T", "status": "completed"}
OPEN = {"title": "T", "status": "in_progress"}
SHARED = [
    st.just({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
    st.just({"sessionUpdate": "session_info_update", "title": "Of the agent"}),
    st.just({"sessionUpdate": "notice", "title": "x"}),
    st.just({"sessionUpdate": "_own", "x": 1}),
]
PLAIN_V1 = [
    st.builds(chunk, KINDS, BLOCK, st.none() | NAMES),
    st.builds(lambda kind, block: {**chunk(kind, block, None), "messageId": None}, KINDS, BLOCK),
    st.builds(
        call,
        st.sampled_from(["tool_call", "tool_call_update"]),
        NAMES,
        st.sampled_from(
            [
                DONE,
                {**DONE, "kind": None, "content": [CONTENT]},
                {**DONE, "content": [{"type": "diff", "path": "/a", "newText": "x"}]},
                {**DONE, "locations": [{"path": "/a", "line": 3}]},
            ]
        ),
    ),
    st.builds(
        lambda words: {
            "sessionUpdate": "plan",
            "entries": [{"content": words, "priority": "low", "status": "pending"}],
        },
        WORDS,
    ),
    st.just({"sessionUpdate": "current_mode_update", "currentModeId": "code"}),
    st.just(
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "c", "description": "C", "input": {"hint": "h"}}],
        }
    ),
    *SHARED,
]
ASKING = st.builds(
    lambda name, is_allowed: {"ask": name, "is_allowed": is_allowed},
    st.sampled_from(["1", "3"]),
    st.booleans(),
)
"""A permission request about a known or an unknown tool call."""
ASKING_ABOUT_NOTHING = st.just({"ask": None, "is_allowed": True})
COMPACTION = st.just(
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}
)
ODD = st.just({"sessionUpdate": "odd", "x": 1})
"""An unknown kind. A version 1 client does not receive it, and joins the text around it."""
PLAN_V2 = st.builds(
    lambda words: {
        "sessionUpdate": "plan_update",
        "plan": {
            "type": "items",
            "planId": "p",
            "entries": [{"content": words, "priority": "low", "status": "pending"}],
        },
    },
    WORDS,
)
"""A plan. A version 2 client has one in each session, a version 1 client one in each turn."""
ADDED_V2 = [
    st.builds(chunk, KINDS, BLOCK, NAMES),
    st.builds(
        call,
        st.just("tool_call_update"),
        NAMES,
        st.sampled_from(
            [DONE, {**DONE, "content": [CONTENT]}, {**DONE, "locations": [{"path": "/a"}]}]
        ),
    ),
    st.builds(call, st.just("tool_call_content_chunk"), NAMES, st.just({"content": CONTENT})),
    st.just(
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"type": "command", "name": "c", "description": "C"}],
        }
    ),
    *SHARED,
]
PATCHED = st.builds(
    lambda kind, name, meta: {
        "sessionUpdate": kind.removesuffix("_chunk"),
        "messageId": f"{kind}-{name}",
        "_meta": meta,
    },
    KINDS,
    NAMES,
    st.sampled_from([{"a": 1, "b": 2}, {"a": None}, {"b": 3}, None]),
)
"""Changes of the `_meta` of a message; null removes a field."""
TAKING_BACK_V2 = [
    st.builds(
        lambda kind, name, blocks: {
            "sessionUpdate": kind.removesuffix("_chunk"),
            "messageId": f"{kind}-{name}",
            "content": blocks,
        },
        KINDS,
        NAMES,
        st.none() | st.lists(BLOCK, max_size=2),
    ),
    st.builds(call, st.just("tool_call_update"), NAMES, st.just({"content": None, "title": None})),
]


def shown_by(message: Json) -> list[Json]:
    """Return the updates that a client shows for a message: also the call of a request."""
    params = message.get("params", {})
    if message.get("method") == "session/update":
        return [params["update"]]
    if message.get("method") == "session/request_permission":
        call = params.get("toolCall") or params.get("subject", {}).get("toolCall")
        return [{"sessionUpdate": "tool_call_update", **call}] if call else []
    return []


def output(data: str) -> Json:
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data}


SAID = chunk("agent_message_chunk", {"type": "text", "text": "a"}, "1")
AAA = {"type": "text", "text": "aaa"}
SHOWING = call("tool_call_update", "9", {"content": [{"type": "terminal", "terminalId": "t"}]})
TERMINAL = [
    st.just(SHOWING),
    st.builds(
        output,
        st.sampled_from(["b25lCg==", "dHdv", "not base64!", "A" * 8000]),
    ),
    st.just({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}}),
]


CHILDREN = st.sampled_from(["c1", "c2"])
SUBAGENT = st.builds(
    lambda name, fields: {"sessionUpdate": "subagent_update", "sessionId": name, **fields},
    CHILDREN,
    st.sampled_from(
        [
            {},
            {"title": "T", "description": "D"},
            {"title": None, "capabilities": {"cancel": {}}},
            {"state": {"state": "running"}, "capabilities": None},
            {"state": {"state": "idle", "stopReason": "end_turn"}},
            {"cwd": "/q", "additionalDirectories": ["/r"]},
        ]
    ),
)
SESSION_MESSAGE = st.one_of(
    st.builds(
        lambda name, more: {"sessionUpdate": "session_message", "messageId": name, **more},
        NAMES,
        st.sampled_from(
            [
                {"senderSessionId": "s", "recipientSessionId": "c1"},
                {"content": [{"type": "text", "text": "x"}]},
            ]
        ),
    ),
    st.builds(
        lambda name, block: {
            "sessionUpdate": "session_message_chunk",
            "messageId": name,
            "content": block,
        },
        NAMES,
        BLOCK,
    ),
)


def of_child(*updates: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Return updates of a sub-agent. Its parent announces it first."""
    return st.builds(lambda name, update: {"of": name, **update}, CHILDREN, st.one_of(*updates))


class Conversation:
    """A session between a client and an agent of these versions."""

    def __init__(self, client: int, agent: int, *offered: str) -> None:
        self.announced: set[str] = set()
        self.client, self.agent = client, agent
        self.agent_id = "s"
        """The agent's own id of the session."""
        self.is_quick = False
        """Whether all updates of a turn arrive in one read; otherwise each arrives by itself."""
        self.unsent: list[str] = []
        self.book = Playbook()
        self.book.client_capabilities = {"subagents": {}}
        self.book.do_speaks(f"{client} {agent}")
        self.book.do_agent(" ".join(["Fake", *offered]))
        modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "A"}]}
        opened = {"sessionId": "s"} | ({"modes": modes} if agent == 1 else {})
        self.book.exchange("session/new", {"cwd": "/p", "mcpServers": []}, opened)

    def received_updates(self, root_id: str = "s") -> list[Json]:
        """Return the updates that the client received since the last call.

        An update of a sub-agent has the name of its session in `of`.
        """
        lines = [line[3:] for line in self.book.out if line.startswith("<c ")]
        self.book.out.clear()
        updates: list[Json] = []
        for message in map(json.loads, lines):
            session_id = message.get("params", {}).get("sessionId", root_id)
            of = {} if session_id == root_id else {"of": session_id}
            updates += [{**update, **of} for update in shown_by(message)]
        return updates

    def request(self, method: str, session_id: str = "s", **params: object) -> None:
        """Let the client send a request."""
        request = {"id": 1, "method": method, "params": {"sessionId": session_id, **params}}
        self.book.receive(CLIENT, [json.dumps(request)])

    def answer_until(self, method: str = "") -> object:
        """Answer the engine's own requests; return the id of the request with a method."""
        answered: set[object] = set()
        while True:
            lines = [line[3:] for line in self.book.out if line.startswith("<a {")]
            requests = [it for it in map(json.loads, lines) if "id" in it and "method" in it]
            waiting = [it for it in requests if it["id"] not in answered]
            if not waiting or waiting[0]["method"] == method:
                return waiting[0]["id"] if waiting else None
            request = waiting[0]
            answered.add(request["id"])
            result: Json = {}
            if request["method"] in ("session/new", "session/fork"):
                self.agent_id = f"{self.agent_id}+"
                result = {"sessionId": self.agent_id}
            elif request["method"] == "session/rewind":
                last = {"lastMessageId": request["params"]["toMessageId"]}
                self.update(sessionUpdate="history_truncated", **last)
                result = last
            self.send({"id": request["id"], "result": result})

    def rewind(self, message_id: str) -> list[Json]:
        """Let the client rewind the session; return the updates that it received."""
        self.book.out.clear()
        self.request("session/rewind", toMessageId=message_id)
        self.answer_until()
        # The agent announces its sub-agents again: the rewind may have removed them.
        self.announced.clear()
        return self.received_updates()

    def turn(self, number: int, updates: list[Json], edited: str | None = None) -> list[Json]:
        """Run a turn; return the updates that the client received.

        `edited` is the id of the prompt that the turn replaces.
        """
        self.book.out.clear()
        blocks = [{"type": "text", "text": f"prompt {number}"}]
        if edited is None:
            self.request("session/prompt", prompt=blocks)
        else:
            self.announced.clear()
            self.request("session/edit_prompt", messageId=edited, content=blocks)
        own_id = self.answer_until("session/prompt")
        if self.agent == 2:
            self.send({"id": own_id, "result": {"messageId": f"u{number}"}})
            self.update(sessionUpdate="user_message", messageId=f"u{number}", content=blocks)
            self.update(sessionUpdate="state_update", state="running")
        for update in updates:
            if "ask" in update:
                self.permission(update["ask"], is_allowed=update["is_allowed"])
            else:
                self.update(**update)
        # Send every title: otherwise only a permission request may have it.
        names = [it.get("toolCallId", it.get("ask")) for it in updates if "of" not in it]
        for name in sorted({it for it in names if isinstance(it, str)}):
            self.update(**call("tool_call_update", name, OPEN))
        self.flush()
        if self.agent == 2:
            self.update(sessionUpdate="state_update", state="idle", stopReason="end_turn")
            self.flush()
        else:
            self.send({"id": own_id, "result": {"stopReason": "end_turn"}})
        return self.received_updates()

    def permission(self, name: str | None, *, is_allowed: bool) -> None:
        """Let the agent request permission, and the client respond."""
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": name, "title": "T"}
        params: Json = {"sessionId": self.agent_id, "options": options}
        if self.agent == 1:
            params["toolCall"] = call
        else:
            subject = {"subject": {"type": "tool_call", "toolCall": call}} if name else {}
            params |= {"title": "T", **subject}
        self.send({"id": 90, "method": "session/request_permission", "params": params})
        yes = {"outcome": "selected", "optionId": "y"}
        outcome = yes if is_allowed else {"outcome": "cancelled"}
        self.book.receive(CLIENT, [json.dumps({"id": 90, "result": {"outcome": outcome}})])

    def send(self, message: Json) -> None:
        """Let the agent send a message."""
        self.flush()
        self.book.receive(AGENT, [json.dumps(message)])

    def update(self, **update: object) -> None:
        """Let the agent send an update of the session, or of the sub-agent that `of` names."""
        session_id = str(update.pop("of", self.agent_id))
        if session_id != self.agent_id and session_id not in self.announced:
            self.update(sessionUpdate="subagent_update", sessionId=session_id)
        self.announced.add(str(update.get("sessionId")))
        self.unsent.append(update_line(session_id, update).decode())
        if not self.is_quick:
            # After input from the client, the engine parses the next line again.
            self.book.receive(CLIENT, [""])
            self.flush()

    def flush(self) -> None:
        """Deliver the updates that the agent has sent."""
        if self.unsent:
            self.book.receive(AGENT, self.unsent)
            self.unsent = []

    def fork(self, session_id: str = "s", message_id: str | None = None) -> str:
        """Let the client fork a session, at a message or as a whole; return the fork's id."""
        self.book.out.clear()
        meta = {} if message_id is None else {"_meta": {"rekindle": {"messageId": message_id}}}
        self.request("session/fork", session_id, cwd="/p", mcpServers=[], **meta)
        self.answer_until()
        lines = [line[3:] for line in self.book.out if line.startswith("<c ")]
        (answer,) = [it for it in map(json.loads, lines) if it.get("id") == 1]
        return answer["result"]["sessionId"]

    def replayed(self, session_id: str = "s") -> list[Json]:
        """Let the client load a session; return the updates that it receives."""
        self.book.out.clear()
        if self.client == 1:
            self.request("session/load", session_id, cwd="/p", mcpServers=[])
        else:
            self.request("session/resume", session_id, cwd="/p", replayFrom={"type": "start"})
        self.answer_until()
        return self.received_updates(session_id)
