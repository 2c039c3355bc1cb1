"""The pictures are drawn from recordings of real runs, and by no other hand."""

import os
import sys
from pathlib import Path

import pytest

from tools.pictures import FOLDER, MAX_SIZE, SCENES, drawn
from tools.pty_recording import RecordingFailed, read_recording, record, write_recording
from tools.terminal_svg import Recording

REMEDY = "run `make pictures`, or `make pictures DRAW=1` if only the drawing has changed"


@pytest.mark.parametrize("name", SCENES)
def test_picture_is_what_its_recording_shows(name: str) -> None:
    picture = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert picture == drawn(name), REMEDY
    assert len(picture.encode()) < MAX_SIZE


@pytest.mark.parametrize("name", SCENES)
def test_recording_shows_a_successful_run_and_no_machine(name: str) -> None:
    text = "".join(text for _, text in read_recording(FOLDER / f"{name}.cast").events)
    for unwanted in ("Traceback", "error:", "failed", "/root", "/work", "/home"):
        assert unwanted not in text, (name, unwanted, REMEDY)


def test_folder_has_no_other_pictures() -> None:
    files = {f"{name}{suffix}" for name in SCENES for suffix in (".cast", ".svg")}
    assert {path.name for path in FOLDER.iterdir()} == files


def test_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = Recording(80, 24, ((0.0, "é\x1b[1m"), (1.25, "\r\n")))
    write_recording(made, tmp_path / "x.cast")
    assert read_recording(tmp_path / "x.cast") == made


PROGRAM = "import sys; name = input('Your name? '); print('Hello', name); sys.exit(name == 'no')"


def test_keys_are_typed_when_their_text_is_shown(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    made = record(command, cwd=tmp_path, environ=os.environ, steps=[("name?", "Ada\r")], columns=33)
    shown = "".join(text for _, text in made.events)
    assert shown.startswith("Your name? A")
    assert "Hello Ada" in shown
    assert [at for at, _ in made.events] == sorted(at for at, _ in made.events)
    assert made.columns == 33


@pytest.mark.parametrize(
    ("steps", "reason"),
    [([("name?", "no\r")], "failed"), ([("name?", "x\r"), ("more?", "y")], "before 'more[?]'")],
)
def test_failed_recording_is_reported(
    tmp_path: Path, steps: list[tuple[str, str]], reason: str
) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with pytest.raises(RecordingFailed, match=reason):
        record(command, cwd=tmp_path, environ=os.environ, steps=steps)


def test_program_sees_the_size_of_its_terminal_from_the_start(tmp_path: Path) -> None:
    program = "import os; print(os.get_terminal_size())"
    command = [sys.executable, "-c", program]
    made = record(command, cwd=tmp_path, environ=os.environ, columns=33, rows=5)
    assert "columns=33, lines=5" in "".join(text for _, text in made.events)
