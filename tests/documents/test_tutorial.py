"""The tutorial works as pasted, with a wheel that pip has installed in an empty environment.

Its `sh` blocks run one after the other in shells on a terminal. A `text` block after them shows
their output, of which lines may be left out; `…` stands for any text. A comment
`<!-- keys: [["shown", "typed"], …] -->` has the keys that a reader types, and what is shown before.
The section "Install" is replaced by pip and the wheel.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from built_package import build, install
from tools.pty_recording import Step, record
from tools.terminal_svg import Recording, film

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-ten-minutes.md").read_text(encoding="utf-8")
_BLOCK = re.compile(
    r"^```(?P<language>sh|text)\n(?P<text>.*?)^```$|^<!-- keys: (?P<keys>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Action:
    """A text to paste, keys to type while it runs, and the output that the tutorial shows."""

    text: str
    keys: list[Step]
    shown: str = ""


def actions(page: str) -> list[Action]:
    """Return what a reader does after the section about installing."""
    _, _, rest = page.partition("\n## Install\n")
    _, _, rest = rest.partition("\n## ")
    found: list[Action] = []
    for block in _BLOCK.finditer(rest):
        if block["keys"]:
            found[-1].keys = [(before, typed) for before, typed in json.loads(block["keys"])]
        elif block["language"] == "sh":
            found.append(Action(block["text"], []))
        else:
            found[-1].shown = block["text"]
    return found


def test_blocks_are_read_with_keys_and_output() -> None:
    page = (
        "# T\n\n## Install\n\n```sh\nuv tool install x\n```\n\n## Try\n\n```sh\na\nb\n```\n\n"
        '<!-- keys: [["ready", "x\\r"]] -->\n\n```text\nout …\n```\n\n```sh\nc\n```\n'
    )
    assert actions(page) == [
        Action("a\nb\n", [("ready", "x\r")], "out …\n"),
        Action("c\n", []),
    ]


def test_output_is_compared_line_by_line() -> None:
    assert missing("a …\nb\n", "x\na 1 2\ny\n b \n") == []
    assert missing("a\nb\n", "b\na\n") == ["b"]


def missing(shown: str, output: str) -> list[str]:
    """Return the lines that the output lacks. They must be in order."""
    left = [" ".join(line.split()) for line in output.splitlines()]
    absent: list[str] = []
    for line in shown.splitlines():
        parts = [re.escape(part) for part in " ".join(line.split()).split("…")]
        form = re.compile(".*".join(parts))
        place = next((place for place, text in enumerate(left) if form.fullmatch(text)), None)
        if place is None:
            absent.append(line)
        else:
            left = left[place + 1 :]
    return absent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the commands in an environment that has only the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = build(folder / "built", "--wheel").glob("*.whl")
    return install(wheel, folder / "venv")


def screen_text(recording: Recording) -> str:
    """Return the lines of a terminal at the end, also those that have scrolled away."""
    rows = sorted(
        (shown.line, "".join(text for text, _ in shown.row))
        for shown in film(recording, hold=1).shown
        if shown.end is None
    )
    return "\n".join(text for _, text in rows)


@pytest.mark.slow
def test_tutorial_works_as_pasted(installed: Path, tmp_path: Path) -> None:
    cwd = home = tmp_path / "home"
    home.mkdir()
    environ = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(installed), "/usr/local/bin", "/usr/bin", "/bin"]),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    done = actions(PAGE)
    assert len(done) > 8
    assert any(action.keys for action in done)
    for action in done:
        # With `-i` it has job control, as the shell of a reader.
        script = f"{action.text}\npwd > '{tmp_path}/cwd'"
        shell = ["bash", "--norc", "--noprofile", "-i", "-e", "-c", script]
        recording = record(shell, cwd=cwd, environ=environ, steps=action.keys, columns=100, rows=40)
        output = screen_text(recording)
        assert missing(action.shown, output) == [], (action.text, output)
        cwd = Path((tmp_path / "cwd").read_text(encoding="utf-8").strip())
    assert cwd == home / "rekindle-tutorial"
