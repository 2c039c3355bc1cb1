from pathlib import Path

import pytest

import playbook

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, *, update: bool) -> None:
    script, played = playbook.play_file(path, update=update)
    assert played == script
