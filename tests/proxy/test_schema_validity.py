"""The published schemas accept every message that the engine writes."""

from pathlib import Path

import pytest

from schema_playbook import ValidatedPlaybook

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_messages_of_the_engine_are_valid(path: Path) -> None:
    book = ValidatedPlaybook()
    book.play(path.read_text(encoding="utf-8"))
    assert book.problems == []


@pytest.mark.usefixtures("sdk")
def test_invalid_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.proxy.handlers.initialize.advertise_v1", lambda *_: {})
    book = ValidatedPlaybook()
    book.play("agent Fake load\n")
    (problem,) = book.problems
    assert problem.startswith('result: "protocolVersion" is a required property in {"jsonrpc"')
