"""`rekindle prompt` on a terminal: a moving sign and a plan, which a question hides."""

import sys
from pathlib import Path

import pytest

from prepared_sessions import cli, record
from pty_terminal import Terminal

AGENT = Path(__file__).parents[2] / "agents" / "agent_waits_for_file.py"

SILENCE = 0.5
"""Longer than the pause between two movements of the sign."""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return the file that ends a pause of the agent."""
    return tmp_path / "gate"


@pytest.fixture
def arguments(tmp_path: Path, gate: Path) -> list[str]:
    """Return a command that sends a prompt to an agent with pauses."""
    store = tmp_path / "s.db"
    session = record(store, tmp_path, "Hello")
    agent = [sys.executable, str(AGENT), str(gate)]
    return ["prompt", "--store", str(store), session, "plan, wait and edit", "--", *agent]


def test_sign_and_plan_are_pinned_and_hidden_by_a_question(
    arguments: list[str], gate: Path
) -> None:
    with Terminal(*arguments) as terminal:
        terminal.wait_for_match(r"\[>\] Look at the question\n.*\n.*\n. working…")
        gate.touch()
        for text in ("Find an answer", "Say it"):
            terminal.wait_for(f"[>] {text}")
            gate.touch()
        # Once for the last step, and once for the pause before the edit.
        terminal.wait_for("[x] Say it")
        gate.touch()
        terminal.wait_until_gone(gate)
        gate.touch()
        shown = terminal.wait_for("3  Reject (n)")
        assert shown.count("Say it") == 1
        assert "working" not in shown
        terminal.answer("n", SILENCE)
        assert terminal.end() == 0
        assert "  3  Reject (n)\n→ Reject\n✗ Edit" in terminal.shown
        assert "working" not in terminal.shown
        assert terminal.shown.endswith("so far.\n")


def test_pipe_has_no_sign(arguments: list[str], gate: Path) -> None:
    edited = [it.replace("plan, wait and edit", "wait") for it in arguments]
    gate.touch()
    done = cli(*edited)
    assert done.stdout.endswith("You said: wait. That makes 2 messages so far.\n")
    assert "\x1b" not in done.stdout + done.stderr
    assert "working" not in done.stdout + done.stderr
