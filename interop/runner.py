"""Running one agent in all forms, apart from the network. Writes its result as JSON.

`python -m interop.runner AGENT RESULT`, started by `interop.__main__`.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from interop.acpx import Acpx
from interop.agents import AgentSpec, agent_named
from interop.import_scenario import ImportScenario
from interop.install import CACHE, is_installed
from interop.model.server import serving
from interop.outcome import FORMS, Form, Outcome, Result
from interop.sandbox import adopt_orphans, check_isolation, kill_descendants
from interop.scenario import Scenario
from interop.workspace import Workspace, prepared_workspace
from rekindle.client import Question, connect

Say = Callable[[str], None]

# Agents are slow to start on a busy machine, and Rekindle waits for them to end.
_GRACE = 5.0


def run_agent(spec: AgentSpec, say: Say) -> Result:
    """Run the scenario in all forms, one after the other."""
    forms: dict[Form, dict[str, Outcome]] = {}
    says = ""
    for form in FORMS:
        say(f"  {spec.name}, {'bare' if form == 'bare' else f'behind Rekindle, {form} client'}")
        scenario = _run_form(spec, form, say)
        forms[form] = scenario.outcomes
        says = scenario.says or says
    say(f"  {spec.name}, behind Rekindle, acpx")
    acpx = _run_acpx(spec, say)
    imports = _run_import(spec, say) if spec.tool else None
    return Result(
        agent=spec.name,
        releases=spec.package.releases,
        says=says,
        forms=forms,
        acpx=acpx,
        imports=imports.outcomes if imports is not None else {},
        differences=tuple(imports.explained) if imports is not None else (),
    )


def _run_form(spec: AgentSpec, form: Form, say: Say) -> Scenario:
    with _ready(spec, form) as (place, log):
        start = partial(
            connect,
            place.command,
            behind_rekindle=form != "bare",
            protocol=2 if form == "v2" else 1,
            on_permission=Question.allow,
            on_stderr=log,
            on_notice=log,
            environ=place.environ,
            grace=_GRACE,
        )
        scenario = Scenario(
            start, place.project, say, is_behind_rekindle=form != "bare", pause=spec.pause
        )
        try:
            asyncio.run(scenario.run())
        finally:
            kill_descendants()
    return scenario


def _run_acpx(spec: AgentSpec, say: Say) -> dict[str, Outcome]:
    with _ready(spec, "acpx") as (place, log):
        acpx = Acpx(spec, place, say, log)
        acpx.run()
    return acpx.outcomes


def _run_import(spec: AgentSpec, say: Say) -> ImportScenario:
    say(f"  {spec.name}, imported from")
    with _model(spec, "import") as (url, log), ExitStack() as places:
        # The last one is where we are then.
        successor = agent_named(spec.successor)
        is_there = is_installed(successor.package)
        other = places.enter_context(prepared_workspace(successor, url)) if is_there else None
        place = places.enter_context(prepared_workspace(spec, url))
        start = partial(
            connect, on_permission=Question.allow, on_stderr=log, on_notice=log, grace=_GRACE
        )
        importing = ImportScenario(spec.tool, place, start, say)
        try:
            importing.run(other, spec.pause)
        finally:
            kill_descendants()
    return importing


@contextmanager
def _ready(spec: AgentSpec, form: str) -> Generator[tuple[Workspace, Say], None, None]:
    """Serve the model and prepare the place, with a log of what is said besides."""
    with _model(spec, form) as (url, log), prepared_workspace(spec, url) as place:
        yield place, log


@contextmanager
def _model(spec: AgentSpec, form: str) -> Generator[tuple[str, Say], None, None]:
    """Serve the model, and log what is said besides."""
    logs = CACHE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / f"{spec.name.replace(' ', '-')}-{form}.log"
    with path.open("w", encoding="utf-8", buffering=1) as file:
        log = partial(_log, file.write)
        with serving(log) as url:
            yield url, log


def _log(write: Callable[[str], object], line: str) -> None:
    write(line + "\n")


def main() -> None:
    """Run the agent that is named, and write down what came of it."""
    name, result = sys.argv[1:]
    check_isolation()
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        outcome = run_agent(agent_named(name), partial(print, flush=True))
    finally:
        kill_descendants()
    Path(result).write_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
