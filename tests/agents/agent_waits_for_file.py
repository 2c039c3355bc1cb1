"""The example agent with pauses, so that a test can act at a certain moment of a turn.

The prompt `wait` pauses before it edits or fails, and `plan` pauses after each of its steps. A
pause ends when a file appears, which is the only argument. The agent removes the file.
"""

import sys
import time
from pathlib import Path
from typing import Any

from rekindle.example_agent import actions
from rekindle.example_agent.agent import serve
from rekindle.example_agent.options import Options

_POLL_INTERVAL = 0.005


def wait(turn: Any) -> None:  # noqa: ANN401 - a turn of the example agent
    """Wait until the file appears, or the turn is cancelled."""
    path = Path(sys.argv[1])
    while not path.exists():
        turn.check_cancelled()
        time.sleep(_POLL_INTERVAL)
    path.unlink()


class _PausingTurn:
    """A turn that pauses after each update."""

    def __init__(self, turn: Any) -> None:  # noqa: ANN401 - as above
        self._turn = turn

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._turn, name)

    def send_update(self, update: dict[str, Any]) -> None:
        self._turn.send_update(update)
        wait(self._turn)


def plan(turn: Any) -> None:  # noqa: ANN401 - as above
    """Send a plan, with a pause after each step."""
    actions.plan(_PausingTurn(turn))  # type: ignore[arg-type]


others = [(phrase, action) for phrase, action in actions.ACTIONS if phrase != "plan"]
at = [phrase for phrase, _ in others].index("edit")
actions.ACTIONS = (("plan", plan), *others[:at], ("wait", wait), *others[at:])
sys.exit(serve(Options()))
