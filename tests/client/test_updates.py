"""Arbitrary updates raise no exception, and events add up to the transcript."""

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st
from msgspec import Raw

from rekindle.acp.jsonrpc import notification, request, response
from rekindle.client import MessageChunk, PermissionRequest, TurnEnded
from rekindle.client.dispatcher import SessionDispatcher
from rekindle.client.handshake import Handshake
from rekindle.client.session import ClientSession
from rekindle.client.session_channel import SessionChannel
from rekindle.jsonvalue import encode
from rekindle.model import AgentIdentity
from selection import some

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


def open_session(protocol: int) -> tuple[SessionDispatcher, ClientSession]:
    """Return a session without an agent process."""
    sessions = SessionDispatcher()
    offered = frozenset({"close"})
    agent = Handshake(
        protocol=protocol,
        identity=AgentIdentity(),
        capabilities={},
        offered=offered,
        auth_methods=(),
    )
    channel = SessionChannel("s", sessions.context(agent, PermissionRequest.reject))
    sessions.add(channel)
    return sessions, ClientSession(channel, "/")


def update(fields: Any) -> bytes:  # noqa: ANN401 - JSON
    return notification("session/update", {"sessionId": "s", "update": fields})


@settings(max_examples=some(60), deadline=None)
@given(st.integers(1, 2), st.lists(updates, max_size=12), anything)
def test_arbitrary_updates_raise_nothing(
    protocol: int, received: list[Any], options: object
) -> None:
    async def receive_all() -> None:
        sessions, session = open_session(protocol)
        before, during = (
            received[: len(received) // 2],
            received[len(received) // 2 :],
        )
        for fields in before:
            sessions.rpc.receive(update(fields))
        session.prompt("Hello")
        for fields in during:
            sessions.rpc.receive(update(fields))
        asked = {"sessionId": "s", "toolCall": options, "options": options}
        sessions.rpc.receive(request(1, "session/request_permission", asked))
        _ = (session.history, session.options, session.mode, session.modes, session.commands)
        _ = (session.title, session.usage)

    asyncio.run(receive_all())


chunks = st.lists(st.tuples(st.sampled_from([None, "m", "n"]), st.text(max_size=4)), max_size=30)


@settings(max_examples=some(50), deadline=None)
@given(chunks, st.integers(1, 7))
def test_chunk_events_add_up_to_the_messages(
    sent: list[tuple[str | None, str]], batch_size: int
) -> None:
    async def receive_all() -> None:
        sessions, session = open_session(1)
        turn = session.prompt("Hello")
        events: list[MessageChunk] = []
        for start in range(0, len(sent), batch_size):
            lines = [
                update(
                    {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": text},
                        **({} if name is None else {"messageId": name}),
                    }
                )
                for name, text in sent[start : start + batch_size]
            ]
            sessions.rpc.receive(b"\n".join(lines))
            while turn._stream.events.unread:  # noqa: SLF001 - all unread events
                events.append(await anext(aiter(turn)))
        sessions.rpc.receive(response(Raw(b"1"), {"stopReason": "end_turn"}))
        events += [it async for it in turn if not isinstance(it, TurnEnded)]
        for name in (None, "m", "n"):
            whole = "".join(text for message_id, text in sent if message_id == name)
            assert "".join(it.text for it in events if it.message_id == name) == whole
        assert encode(turn.text)

    asyncio.run(receive_all())
