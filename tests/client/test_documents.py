"""The code in docs/how-to/client.md and the examples work."""

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

from rekindle.client import connect
from stdio_client import EXAMPLE_AGENT

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "how-to" / "client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
TIMEOUT = 30.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with its own store and with this `rekindle` and `python`."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return os.environ | {"REKINDLE_STORE": str(tmp_path / "sessions.db"), "PATH": path}


def run(command: list[str | Path], environ: dict[str, str], typed: str = "") -> str:
    """Run a program that must succeed, and return its output."""
    done = subprocess.run(
        command,
        env=environ,
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def example(name: str, environ: dict[str, str], *arguments: str, typed: str = "") -> str:
    return run([sys.executable, ROOT / "examples" / name, *arguments], environ, typed)


def test_examples_work_as_documented(environ: dict[str, str], tmp_path: Path) -> None:
    (commands,) = [block for language, block in BLOCKS if language == "sh"]
    assert set(re.findall(r"examples/(\w+)", commands)) == {
        path.stem for path in (ROOT / "examples").glob("*_*.py")
    }
    store = re.findall(r"REKINDLE_STORE=(\S+)", commands)[0]
    environ["REKINDLE_STORE"] = str(tmp_path / "try.db")
    script = commands.replace(store, environ["REKINDLE_STORE"])
    first, user, agent, summary, *_ = run(["sh", "-ec", script], environ).splitlines()
    assert first == "I remember nothing before this."
    assert user == "user: How many prompts did I send before this one?"
    assert agent == f"agent: {first}"
    assert "You said first: How many prompts" in summary
    # The fork was deleted, and the session is unchanged.
    picked = example("pick_session.py", environ, typed="0\nHow many prompts?\nedit\n0\n\n")
    assert "  1  " not in picked.partition("Which one")[0]
    assert "You sent 2 prompts before this one." in picked
    assert "notes.txt: completed]" in picked
    assert "You sent 4 prompts before this one." in example("resume_last.py", environ)


def test_example_reports_a_missing_session(environ: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="no session has 'nonsense' in its title"):
        example("load_by_title.py", environ, "nonsense")


def test_first_program_of_the_document_works(environ: dict[str, str]) -> None:
    programs = [block for language, block in BLOCKS if language == "python"]
    assert run([sys.executable, "-c", programs[0]], environ).startswith("You said: Hello!")


def test_code_blocks_of_the_document_work(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [block for language, block in BLOCKS if language == "python"][1:]
    assert len(chunks) > 5
    for name in ("REKINDLE_STORE", "PATH"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.chdir(tmp_path)

    async def run_blocks() -> None:
        async with asyncio.timeout(TIMEOUT), connect(EXAMPLE_AGENT) as agent:
            names = {"agent": agent}
            await agent.new(".")  # a session without turns in the store
            for piece in chunks:
                code = compile(piece, "client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, names)  # noqa: S307 - our own document
                if inspect.isawaitable(result):
                    await result

    asyncio.run(run_blocks())
