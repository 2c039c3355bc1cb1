"""acpx, a real client, with an agent behind Rekindle: a session survives two kills.

acpx silently starts a new session if one cannot be resumed. So the store is checked as well as
the model's report: it must have one session, with all the turns.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from interop.agents import ACPX, AgentSpec
from interop.install import search_path
from interop.model import behaviour
from interop.outcome import ACPX_STEPS, Outcome, StepFailed
from interop.sandbox import kill_descendants, reap
from interop.workspace import Workspace

Print = Callable[[str], None]

_TIMEOUT = 180
_WORD = "heron"


class Acpx:
    """One session of acpx. `outcomes` has the steps so far."""

    def __init__(
        self, spec: AgentSpec, workspace: Workspace, print_line: Print, log: Print
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._print = print_line
        self._log = log
        self._workspace = workspace
        self._environ = {**workspace.environ, "PATH": search_path(ACPX, spec.package)}
        self._rekindle = (sys.executable, "-P", "-m", "rekindle")
        self._agent = shlex.join([*self._rekindle, "run", "--", *workspace.command])
        self._note = workspace.project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")

    def run(self) -> None:
        """Run the steps up to the first failure."""
        steps: dict[str, Callable[[], object]] = {
            "new": self._new,
            "prompt": lambda: self._prompt("alpha", reading=self._note),
            "killed": lambda: self._after_kill("bravo", ["alpha"]),
            "killed again": lambda: self._after_kill("charlie", ["alpha", "bravo"]),
            "one session": lambda: self._check_store(turns=3),
        }
        for step, do in steps.items():
            try:
                do()
            except StepFailed as error:
                self._record(step, Outcome("failed", str(error)))
                break
            self._record(step, Outcome("ok"))
        self._kill()

    def _new(self) -> None:
        self._acpx("sessions", "new")

    def _prompt(self, name: str, *, reading: Path | None = None) -> behaviour.Report:
        printed = self._acpx("prompt", behaviour.task(name, str(reading) if reading else None))
        report = behaviour.read_report(printed)
        if report is None:
            raise StepFailed(f"it shows no report of the model, but {printed[-200:]!r}")
        if report.word != _WORD:
            raise StepFailed("the model does not know the result of the tool")
        return report

    def _after_kill(self, name: str, before: list[str]) -> None:
        self._kill()
        report = self._prompt(name)
        if missing := [task for task in before if task not in report.tasks]:
            raise StepFailed(f"the model was not shown {', '.join(missing)}")

    def _check_store(self, turns: int) -> None:
        self._kill()
        printed = self._run([*self._rekindle, "list", "--json"])
        counted = [session["turns"] for session in json.loads(printed)]
        if counted != [turns]:
            raise StepFailed(f"the turns of the sessions in the store are {counted}")

    def _acpx(self, *words: str) -> str:
        options = ("--agent", self._agent, "--cwd", str(self._workspace.project), "--approve-all")
        return self._run(["acpx", *options, *words])

    def _run(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                command,
                env=self._environ,
                cwd=self._workspace.project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StepFailed(f"no answer within {_TIMEOUT} s") from None
        self._log(f"{command[-2:]}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        if done.returncode != 0:
            raise StepFailed(f"acpx ended with {done.returncode}: {done.stderr[-200:].strip()}")
        return done.stdout

    def _kill(self) -> None:
        """Kill the background process of acpx, Rekindle, and the agent."""
        kill_descendants()
        reap()

    def _record(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._print(f"    {ACPX_STEPS[step]}: {outcome.status}{remark}")
