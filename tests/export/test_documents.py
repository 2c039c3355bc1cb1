"""A session with every kind of item, in every format of documents."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from full_session import KEY, SESSION, everything
from rekindle.export.acp import as_acp
from rekindle.export.description import describe
from rekindle.export.html import as_html
from rekindle.export.json import as_json
from rekindle.export.markdown import as_markdown
from rekindle.export.redact_transcript import redact_session, redact_terminal, redact_turn
from rekindle.model import Origin, Session
from rekindle.store.memory import MemoryStore
from rekindle.transcript.reducer import Transcript, fold

GOLDEN = Path(__file__).parent / "golden"


def recorded() -> tuple[Session, Transcript]:
    store = MemoryStore()
    store.write(everything())
    return store.session(SESSION), fold(store.read(SESSION))


def redacted() -> tuple[Session, Transcript]:
    session, transcript = recorded()
    for turn in transcript.turns:
        redact_turn(turn)
    for terminal in transcript.terminals.values():
        redact_terminal(terminal)
    return redact_session(session), transcript


def markdown(session: Session, transcript: Transcript) -> Iterator[str]:
    return as_markdown(session, transcript, transcript.turns)


def page(session: Session, transcript: Transcript) -> Iterator[str]:
    return as_html(session, transcript, transcript.turns)


def structured(session: Session, transcript: Transcript) -> Iterator[str]:
    return as_json(session, transcript, transcript.turns)


def replayed_v1(session: Session, transcript: Transcript) -> Iterator[str]:
    return as_acp(session, transcript, transcript.turns, 1)


def replayed_v2(session: Session, transcript: Transcript) -> Iterator[str]:
    return as_acp(session, transcript, transcript.turns, 2)


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("session.md", markdown),
        ("session.html", page),
        ("session.json", structured),
        ("session.v1.jsonl", replayed_v1),
        ("session.v2.jsonl", replayed_v2),
    ],
)
def test_documents_equal_their_golden_files(
    name: str, render: Callable[[Session, Transcript], Iterator[str]], *, update: bool
) -> None:
    document = "".join(render(*redacted()))
    path = GOLDEN / name
    if update:
        path.write_text(document, encoding="utf-8")
    assert document == path.read_text(encoding="utf-8")
    assert KEY not in document
    assert "abcd1234efgh" not in document


@pytest.mark.parametrize("render", [markdown, page, structured])
def test_secrets_are_masked_only_on_request(
    render: Callable[[Session, Transcript], Iterator[str]],
) -> None:
    assert KEY in "".join(render(*recorded()))


def test_the_json_document_can_be_parsed() -> None:
    document = json.loads("".join(structured(*redacted())))
    assert (document["format"], document["version"]) == ("rekindle-session", 1)
    assert [turn["turn"] for turn in document["conversation"]] == [1, 2, 3]
    (terminal,) = document["terminals"].values()
    assert terminal["output"] == "red <out>"
    docs = Path(__file__).parents[2] / "docs" / "reference"
    documented = "".join(
        (docs / name).read_text(encoding="utf-8") for name in ("formats.md", "json.md")
    )
    assert [name for name in document if f"`{name}`" not in documented] == []
    kinds = {item["type"] for turn in document["conversation"] for item in turn["items"]}
    assert kinds == {"message", "tool_call", "plan", "update", "handover", "reminder", "gap"}


@pytest.mark.parametrize("render", [replayed_v1, replayed_v2])
def test_the_replay_consists_of_notifications(
    render: Callable[[Session, Transcript], Iterator[str]],
) -> None:
    for line in render(*recorded()):
        assert line.endswith("\n")
        message = json.loads(line)
        assert message["method"] == "session/update"
        assert message["params"]["sessionId"] == SESSION


def test_an_empty_session_has_documents() -> None:
    session, _ = recorded()
    for render in (markdown, page, structured):
        assert "".join(render(session, Transcript()))
    assert json.loads("".join(structured(session, Transcript())))["conversation"] == []


def test_the_origin_of_an_imported_session_is_described() -> None:
    session, _ = recorded()
    origin = Origin(tool="codex", path="/f", sha256="x", entries=3)
    fields = describe(replace(session, origin=origin))["origin"]
    assert fields == {"tool": "codex", "path": "/f", "sha256": "x", "entries": 3}
    assert describe(session)["origin"] is None
