"""acpx, a real client, in front of an agent behind Rekindle: a session goes on, killed twice.

acpx begins a new session without a word when one cannot be resumed. So besides what the model
was shown, the store is asked: there must be one session, with all the turns.
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
from interop.outcome import ACPX_STEPS, Outcome
from interop.sandbox import kill_descendants, reap
from interop.workspace import Workspace

Say = Callable[[str], None]

_PATIENCE = 180
_WORD = "heron"


class _Wrong(Exception):
    """acpx did not bring about what it should."""


class Acpx:
    """One session of acpx's. `outcomes` grows as it goes."""

    def __init__(self, spec: AgentSpec, place: Workspace, say: Say, log: Say) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._say = say
        self._log = log
        self._place = place
        self._environ = {**place.environ, "PATH": search_path(ACPX, spec.package)}
        self._rekindle = (sys.executable, "-P", "-m", "rekindle")
        self._agent = shlex.join([*self._rekindle, "run", "--", *place.command])
        self._note = place.project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")

    def run(self) -> None:
        """Go through all of it, up to what fails."""
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
            except _Wrong as wrong:
                self._note_down(step, Outcome("failed", str(wrong)))
                break
            self._note_down(step, Outcome("ok"))
        self._kill()

    def _new(self) -> None:
        self._acpx("sessions", "new")

    def _prompt(self, name: str, *, reading: Path | None = None) -> behaviour.Report:
        said = self._acpx("prompt", behaviour.task(name, str(reading) if reading else None))
        report = behaviour.read_report(said)
        if report is None:
            raise _Wrong(f"it shows no report of the model, but {said[-200:]!r}")
        if report.word != _WORD:
            raise _Wrong("the model does not know what the tool brought")
        return report

    def _after_kill(self, name: str, before: list[str]) -> None:
        self._kill()
        report = self._prompt(name)
        if missing := [task for task in before if task not in report.tasks]:
            raise _Wrong(f"the model never heard of {', '.join(missing)}")

    def _check_store(self, turns: int) -> None:
        self._kill()
        said = self._run([*self._rekindle, "list", "--json"])
        counted = [session["turns"] for session in json.loads(said)]
        if counted != [turns]:
            raise _Wrong(f"the turns of the sessions in the store are {counted}")

    def _acpx(self, *words: str) -> str:
        options = ("--agent", self._agent, "--cwd", str(self._place.project), "--approve-all")
        return self._run(["acpx", *options, *words])

    def _run(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                command,
                env=self._environ,
                cwd=self._place.project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _Wrong(f"no answer within {_PATIENCE} s") from None
        self._log(f"{command[-2:]}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        if done.returncode != 0:
            raise _Wrong(f"acpx ended with {done.returncode}: {done.stderr[-200:].strip()}")
        return done.stdout

    def _kill(self) -> None:
        """Kill acpx's own process that stays, Rekindle and the agent."""
        kill_descendants()
        reap()

    def _note_down(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._say(f"    {ACPX_STEPS[step]}: {outcome.status}{remark}")
