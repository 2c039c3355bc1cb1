"""Sub-agents in documents: their conversations, states and secrets."""

import base64
import json
from collections.abc import Callable, Iterator

import pytest

from rekindle.export.acp import as_acp
from rekindle.export.html import as_html
from rekindle.export.json import as_json
from rekindle.export.labels import subagent_label
from rekindle.export.markdown import as_markdown
from rekindle.export.redact_transcript import redact_turn
from rekindle.model import AgentIdentity, Entry, Kind, Session, Side
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.subagents import attach, subagents_in

Json = dict[str, object]
TOKEN = "ghp_" + "aB3dE5gH7jK9" * 3
SESSION = Session(
    id="s",
    agent_session_id="s",
    agent=AgentIdentity(name="Fake"),
    cwd="/p",
    directories=(),
    title="T",
    title_source=None,
    created_us=1,
    updated_us=1,
    parent_id=None,
    archived_us=None,
    deleted_us=None,
    last_seq=1,
    turns=1,
    messages=1,
)


def folded(*updates: Json) -> Transcript:
    lines = [json.dumps({"params": {"update": it}}).encode() for it in updates]
    return fold(
        Entry(seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=seq, line=line, protocol=2)
        for seq, line in enumerate(lines, 1)
    )


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def transcript(*, has_child: bool = True, **fields: object) -> Transcript:
    announced = {"sessionUpdate": "subagent_update", "sessionId": "c", "title": "Tester", **fields}
    message = {
        "sessionUpdate": "session_message",
        "messageId": "m",
        "senderSessionId": "s",
        "recipientSessionId": "c",
        "content": [text(f"use {TOKEN}")],
    }
    output = base64.b64encode(f"the output {TOKEN}".encode()).decode()
    child = folded(
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [text(f"on it {TOKEN}")]},
        {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": output}},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": "make",
            "content": [{"type": "terminal", "terminalId": "t"}],
        },
    )
    parent = folded(announced, message)
    attach(parent, "s", lambda record_id: child if has_child and record_id == "s.c" else None)
    return parent


Render = Callable[[Session, Transcript, list[object]], Iterator[str]]
DOCUMENTS: list[Render] = [
    as_markdown,
    as_html,
    as_json,
    lambda session, it, turns: as_acp(session, it, turns, 1),  # type: ignore[arg-type]
    lambda session, it, turns: as_acp(session, it, turns, 2),  # type: ignore[arg-type]
]  # type: ignore[list-item]


@pytest.mark.parametrize("render", DOCUMENTS, ids=["markdown", "html", "json", "acp1", "acp2"])
def test_every_document_has_the_conversation_of_a_sub_agent(render: Render) -> None:
    found = transcript(state={"state": "idle"})
    document = "".join(render(SESSION, found, list(found.turns)))
    assert document.index("Tester") < document.index("on it")
    assert "make" in document
    assert "use ghp_" in document


@pytest.mark.parametrize("render", DOCUMENTS[:3], ids=["markdown", "html", "json"])
def test_secrets_of_sub_agents_are_masked(render: Render) -> None:
    found = transcript(description=f"has {TOKEN}")
    for turn in found.turns:
        redact_turn(turn)
    document = "".join(render(SESSION, found, list(found.turns)))
    assert TOKEN not in document
    assert "on it" in document


@pytest.mark.parametrize("render", DOCUMENTS[:3], ids=["markdown", "html", "json"])
def test_a_sub_agent_without_a_record_has_its_title(render: Render) -> None:
    found = transcript(has_child=False)
    for turn in found.turns:
        redact_turn(turn)
    assert "Tester" in "".join(render(SESSION, found, list(found.turns)))


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (None, ""),
        ({"state": "running"}, " (interrupted, or still running)"),
        ({"state": "idle", "stopReason": "cancelled"}, " (cancelled)"),
        ({"state": "idle", "stopReason": "end_turn"}, ""),
    ],
)
def test_labels(state: object, end: str) -> None:
    (item,) = subagents_in(transcript(state=state, description="D").turns)
    assert subagent_label(item) == f"Sub-agent Tester: D{end}"
