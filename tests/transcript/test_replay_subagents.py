"""The replay of sub-agents: after their announcement, with a state of the past."""

import json

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_subagents import with_subagents, without_subagents
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2
from rekindle.transcript.subagents import attach

Json = dict[str, object]
CALL: Json = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}


def folded(*updates: Json) -> Transcript:
    lines = [json.dumps({"params": {"update": it}}).encode() for it in updates]
    return fold(
        Entry(seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=seq, line=line, protocol=2)
        for seq, line in enumerate(lines, 1)
    )


def parent(**fields: object) -> Transcript:
    announced = {"sessionUpdate": "subagent_update", "sessionId": "c", **fields}
    message = {"sessionUpdate": "session_message", "messageId": "m", "content": []}
    transcript = folded(announced, message)
    attach(transcript, "s", lambda record_id: folded(CALL) if record_id == "s.c" else None)
    return transcript


def replayed(transcript: Transcript, version: int, *running: str) -> list[tuple[str, str, object]]:
    turns = transcript.turns
    updates = replay_v1(transcript) if version == 1 else replay_v2(turns, transcript)
    replay = with_subagents("s", updates, turns, version, running=running)
    return [(id_, it["sessionUpdate"], it.get("status", it.get("state"))) for id_, it in replay]


def test_a_conversation_follows_its_announcement_and_its_state_follows_that() -> None:
    transcript = parent(state={"state": "running"}, capabilities={"cancel": {}})
    assert replayed(transcript, 1) == [
        ("s", "subagent_update", None),
        ("c", "tool_call", "failed"),
        ("s", "subagent_update", {"state": "unknown"}),
        ("s", "session_message", None),
    ]
    assert replayed(parent(state={"state": "running"}), 2, "c") == [
        ("s", "subagent_update", None),
        ("c", "tool_call_update", "in_progress"),
        ("s", "subagent_update", {"state": "unknown"}),
        ("c", "state_update", "unknown"),
        ("s", "session_message", None),
    ]


def test_a_sub_agent_without_a_state_or_a_record_is_only_announced() -> None:
    transcript = folded({"sessionUpdate": "subagent_update", "sessionId": "c"})
    assert replayed(transcript, 2) == [("s", "subagent_update", None)]


def test_a_client_without_sub_agents_receives_the_rest() -> None:
    said = {"sessionUpdate": "agent_message", "messageId": "a", "content": []}
    updates = [said, {"sessionUpdate": "subagent_update"}, {"sessionUpdate": "session_message"}]
    assert list(without_subagents("s", updates)) == [("s", said)]
