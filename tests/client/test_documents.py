"""What the documents show works, and so do the examples."""

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from acp import EXAMPLE_AGENT
from rekindle.client import connect

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
PATIENCE = 30.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a store of its own, in which `rekindle` and `python` are these."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return os.environ | {"REKINDLE_STORE": str(tmp_path / "sessions.db"), "PATH": path}


def run(command: list[str | Path], environ: dict[str, str], typed: str = "") -> str:
    """Return what a program prints that ends well."""
    done = subprocess.run(
        command,
        env=environ,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def example(name: str, environ: dict[str, str], *arguments: str, typed: str = "") -> str:
    return run([sys.executable, ROOT / "examples" / name, *arguments], environ, typed)


def test_every_example_does_what_it_says(environ: dict[str, str]) -> None:
    first = example("resume_last.py", environ)
    assert "nothing before this" in first
    assert "You sent 1 prompt before this one." in example("resume_last.py", environ)
    shown = example("load_by_title.py", environ, "PROMPTS")
    assert shown.count("user: How many prompts did I send before this one?") == 2
    assert "agent: You sent 1 prompt before this one." in shown
    assert "You said first: How many prompts" in example("fork_summary.py", environ)
    # The fork is gone, and has left nothing in the session.
    typed = "0\nHow many prompts?\nedit\n0\n\n"
    picked = example("pick_session.py", environ, typed=typed)
    assert "  1  " not in picked.partition("Which one")[0]
    assert "You sent 2 prompts before this one." in picked
    assert "notes.txt: completed]" in picked
    assert "You said: Hi" in example("pick_session.py", environ, typed="\nHi\n")


def test_examples_say_what_is_missing(environ: dict[str, str]) -> None:
    for name, *arguments in (["fork_summary.py"], ["load_by_title.py", "nonsense"]):
        with pytest.raises(AssertionError, match="no session"):
            example(name, environ, *arguments)


def test_the_commands_of_the_document_work(environ: dict[str, str], tmp_path: Path) -> None:
    (commands,) = [block for language, block in BLOCKS if language == "sh"]
    assert "/tmp/try-rekindle.db" in commands  # noqa: S108 - replaced
    script = commands.replace("/tmp/try-rekindle.db", str(tmp_path / "try.db"))  # noqa: S108 - here
    assert "You said first" in run(["sh", "-ec", script], environ)


def test_the_program_of_the_document_works(environ: dict[str, str]) -> None:
    programs = [block for language, block in BLOCKS if language == "python"]
    assert run([sys.executable, "-c", programs[0]], environ).startswith("You said: Hello!")


def test_the_pieces_of_the_document_work(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [block for language, block in BLOCKS if language == "python"][1:]
    assert len(pieces) > 5
    for name in ("REKINDLE_STORE", "PATH"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.chdir(tmp_path)

    async def go_through() -> None:
        async with asyncio.timeout(PATIENCE), connect(EXAMPLE_AGENT) as agent:
            names = {"agent": agent}
            for piece in pieces:
                code = compile(piece, "docs/client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                going = eval(code, names)  # noqa: S307 - our own document
                if inspect.isawaitable(going):
                    await going

    asyncio.run(go_through())
