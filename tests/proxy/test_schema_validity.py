"""What the relay writes is valid, as the published schemas have it."""

from pathlib import Path

import pytest

from schema_playbook import JudgedPlaybook

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_what_the_relay_writes_is_valid(path: Path) -> None:
    book = JudgedPlaybook()
    book.play(path.read_text(encoding="utf-8"))
    assert book.complaints == []


@pytest.mark.usefixtures("sdk")
def test_what_is_not_valid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.proxy.handlers.initialize.advertise_v1", lambda *_: {})
    book = JudgedPlaybook()
    book.play("agent Fake load\n")
    (complaint,) = book.complaints
    assert complaint.startswith('result: "protocolVersion" is a required property in {"jsonrpc"')
