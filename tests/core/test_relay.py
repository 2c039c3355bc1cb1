from pathlib import Path

import pytest

import playbook
from rekindle.core.recording import Recording
from rekindle.core.relay import Relay
from rekindle.model import Side

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, *, update: bool) -> None:
    script, played = playbook.play_file(path, update=update)
    assert played == script


def test_after_a_fault_nothing_of_it_is_recorded_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    update = b'{"method":"session/update","params":{"sessionId":"%s"}}'
    relay = Relay(("agent",))
    with monkeypatch.context() as patch:
        patch.setattr(Recording, "notification", fail)
        with pytest.raises(RuntimeError):
            relay.receive(Side.AGENT, update % b"lost" + b'\n{"method":"x"}', 1)
    relay.recover()
    changes = relay.receive(Side.AGENT, update % b"kept", 2).changes
    assert {change.session_id for change in changes} == {"kept"}
