"""CodeCompanion in Neovim, a real client, with an agent behind Rekindle: a chat survives two kills.

Each prompt has a Neovim of its own, which is killed after the answer. The next one opens a new
chat and resumes the latest session with `/resume`, which lists the sessions and loads the first.
So a session without prompts in the list would make it resume that one. `neovim.lua` drives it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from interop.agents import CODECOMPANION, NEOVIM, AgentSpec
from interop.install import plugin_folders, search_path
from interop.model import behaviour
from interop.outcome import NEOVIM_STEPS, Outcome, StepFailed
from interop.sandbox import kill_descendants, reap
from interop.workspace import Workspace

Print = Callable[[str], None]

_TIMEOUT = 180
_TICK = 0.1
_REKINDLE = (sys.executable, "-P", "-m", "rekindle")
_DRIVER = Path(__file__).with_suffix(".lua")


class Neovim:
    """Three chats of CodeCompanion. `outcomes` has the steps so far."""

    def __init__(
        self, spec: AgentSpec, workspace: Workspace, print_line: Print, log: Print
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._print = print_line
        self._log = log
        self._project = workspace.project
        self._output = workspace.project.parent / "chat.md"
        self._environ = {
            **workspace.environ,
            # The agent's own `python` goes before that of the package with Neovim.
            "PATH": search_path(spec.package, NEOVIM),
            "INTEROP_COMMAND": json.dumps([*_REKINDLE, "run", "--", *workspace.command]),
            "INTEROP_OUTPUT": str(self._output),
            "INTEROP_PLUGINS": ":".join(map(str, plugin_folders(CODECOMPANION))),
            "INTEROP_SECONDS": str(_TIMEOUT),
        }

    def run(self) -> None:
        """Run the steps up to the first failure."""
        steps: dict[str, Callable[[], object]] = {
            "new": lambda: self._chat("alpha", []),
            "killed": lambda: self._chat("bravo", ["alpha"]),
            "killed again": lambda: self._chat("charlie", ["alpha", "bravo"]),
            "one session": lambda: self._check_store(turns=3),
        }
        for step, do in steps.items():
            try:
                do()
            except StepFailed as error:
                self._record(step, Outcome("failed", str(error)))
                break
            finally:
                kill_descendants()
                reap()
            self._record(step, Outcome("ok"))

    def _chat(self, name: str, before: list[str]) -> None:
        """Resume the latest session, if there was one; send a task, and check the chat."""
        shown = self._drive(behaviour.task(name), resume=bool(before))
        earlier, _, answer = shown.rpartition(behaviour.prompt_mark(name))
        report = behaviour.read_report(answer)
        if report is None:
            raise StepFailed(f"it shows no report of the model, but {shown[-300:]!r}")
        if missing := [task for task in before if task not in report.tasks]:
            raise StepFailed(f"the model was not shown {', '.join(missing)}")
        hidden = [task for task in before if behaviour.answer_mark(task) not in earlier]
        if hidden:
            raise StepFailed(f"the chat does not show {', '.join(hidden)}")

    def _drive(self, prompt: str, *, resume: bool) -> str:
        """Run Neovim until it has written the chat; return it."""
        self._output.unlink(missing_ok=True)
        environ = {**self._environ, "INTEROP_PROMPT": prompt}
        environ |= {"INTEROP_RESUME": "1"} if resume else {}
        command = ["nvim", "--headless", "--clean", "-S", str(_DRIVER)]
        with subprocess.Popen(
            command,
            env=environ,
            cwd=self._project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as running:
            deadline = time.monotonic() + _TIMEOUT
            while running.poll() is None and time.monotonic() < deadline:
                if self._output.is_file() and self._output.stat().st_size:
                    break
                time.sleep(_TICK)
            kill_descendants()
        shown = self._output.read_text(encoding="utf-8") if self._output.is_file() else ""
        self._log(shown)
        if not shown:
            raise StepFailed(f"no chat within {_TIMEOUT} s")
        return shown

    def _check_store(self, turns: int) -> None:
        done = subprocess.run(
            [*_REKINDLE, "list", "--json"],
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        counted = [session["turns"] for session in json.loads(done.stdout) if session["turns"]]
        if counted != [turns]:
            raise StepFailed(f"the turns of the sessions in the store are {counted}")

    def _record(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._print(f"    {NEOVIM_STEPS[step]}: {outcome.status}{remark}")
