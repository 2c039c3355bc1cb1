"""A terminal whose width changes during a chat."""

from pathlib import Path

import pytest

from stdio_client import EXAMPLE_AGENT
from tmux import TMUX, Tmux

pytestmark = pytest.mark.skipif(TMUX is None, reason="tmux draws the screen")


def test_output_wraps_at_the_current_width(tmp_path: Path) -> None:
    command = ("new", "--store", tmp_path / "s.db", "--", *EXAMPLE_AGENT)
    with Tmux(tmp_path, *command, columns=80, rows=60) as terminal:
        terminal.wait_for("❯")  # noqa: RUF001 - the prompt
        terminal.resize(30)
        terminal.type("read and edit")
        terminal.press("Enter")
        screen = terminal.wait_for("3  Reject (n)")
        lines = screen.split("\n")
        first = next(at for at, line in enumerate(lines) if line.endswith("the milk"))
        assert lines[first : first + 2] == ["  -the milk", "  +the oat milk"]
        terminal.answer("n")
        screen = terminal.wait_for("so far.")
        assert "·" not in screen.partition("3  Reject")[2]
        words = screen.partition("→ Reject")[2].split()
        assert "You said: read and edit. That makes 1 message so far." in " ".join(words)
        terminal.resize(100)
        terminal.type("think")
        terminal.press("Enter")
        screen = terminal.wait_for("2 messages so far.")
        assert "~ The user wants me to think." in screen
