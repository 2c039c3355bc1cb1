"""Whatever an agent tells, the client takes it, and events add up to what the transcript has."""

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st
from msgspec import Raw

from rekindle.acp.jsonrpc import notification, request, response
from rekindle.client import Question, Said
from rekindle.client.dispatcher import Sessions
from rekindle.client.handshake import Greeting
from rekindle.client.session import Session
from rekindle.client.session_channel import Talk
from rekindle.jsonvalue import encode
from rekindle.model import AgentIdentity
from test_selection import some

KINDS = [
    "agent_message",
    "agent_message_chunk",
    "agent_thought_chunk",
    "user_message",
    "user_message_chunk",
    "tool_call",
    "tool_call_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
    "plan",
    "plan_update",
    "session_info_update",
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    "usage_update",
    "state_update",
    "notice",
    "nonsense",
]
FIELDS = [
    "messageId", "content", "toolCallId", "title", "status", "locations", "terminalId", "data",
    "output", "plan", "entries", "currentModeId", "configOptions", "availableCommands", "_meta",
    "state", "stopReason", "error",
]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "options", "value"]), inner)
    ),
    max_leaves=6,
)
updates = st.builds(
    lambda kind, fields: {"sessionUpdate": kind, **fields},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=5),
)


def opened(protocol: int) -> tuple[Sessions, Session]:
    """Return a session of an agent that says nothing by itself."""
    sessions = Sessions()
    offered = frozenset({"close"})
    agent = Greeting(
        protocol=protocol,
        identity=AgentIdentity(),
        capabilities={},
        offered=offered,
        auth_methods=(),
    )
    talk = Talk("s", sessions.context(agent, Question.reject))
    sessions.add(talk)
    return sessions, Session(talk, "/")


def update(fields: Any) -> bytes:  # noqa: ANN401 - JSON
    return notification("session/update", {"sessionId": "s", "update": fields})


@settings(max_examples=some(60), deadline=None)
@given(st.integers(1, 2), st.lists(updates, max_size=12), anything)
def test_no_update_can_do_harm(protocol: int, told: list[Any], options: object) -> None:
    async def go_through() -> None:
        sessions, session = opened(protocol)
        before, during = told[: len(told) // 2], told[len(told) // 2 :]
        for fields in before:
            sessions.rpc.take(update(fields))
        session.prompt("Hello")
        for fields in during:
            sessions.rpc.take(update(fields))
        asked = {"sessionId": "s", "toolCall": options, "options": options}
        sessions.rpc.take(request(1, "session/request_permission", asked))
        _ = (session.history, session.options, session.mode, session.modes, session.commands)
        _ = (session.title, session.usage)

    asyncio.run(go_through())


pieces = st.lists(st.tuples(st.sampled_from([None, "m", "n"]), st.text(max_size=4)), max_size=30)


@settings(max_examples=some(50), deadline=None)
@given(pieces, st.integers(1, 7))
def test_events_add_up_to_what_was_said(said: list[tuple[str | None, str]], at_once: int) -> None:
    async def go_through() -> None:
        sessions, session = opened(1)
        turn = session.prompt("Hello")
        heard: list[Said] = []
        for start in range(0, len(said), at_once):
            lines = [
                update(
                    {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": words},
                        **({} if name is None else {"messageId": name}),
                    }
                )
                for name, words in said[start : start + at_once]
            ]
            sessions.rpc.take(b"\n".join(lines))
            while turn._course.events.waiting:  # noqa: SLF001 - as much as is there
                heard.append(await anext(aiter(turn)))
        sessions.rpc.take(response(Raw(b"1"), {"stopReason": "end_turn"}))
        heard += [it async for it in turn]
        for name in (None, "m", "n"):
            whole = "".join(words for its, words in said if its == name)
            assert "".join(it.text for it in heard if it.message_id == name) == whole
        assert encode(turn.text)

    asyncio.run(go_through())
