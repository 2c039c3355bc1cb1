"""Run one agent in all forms, without network, and write the result as JSON.

`interop.__main__` starts it as `python -m interop.runner AGENT RESULT SCENARIO…`.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from interop.acpx import Acpx
from interop.agents import CODECOMPANION, NEOVIM, AgentSpec, agent_named
from interop.import_scenario import ImportScenario
from interop.install import CACHE, is_installed
from interop.memory import MemoryScenario
from interop.model.dialect import ModelRequest
from interop.model.server import OnRequest, serving
from interop.neovim import Neovim
from interop.outcome import FORMS, SCENARIOS, Form, MemoryOutcome, Outcome, Result, ScenarioName
from interop.sandbox import adopt_orphans, check_isolation, kill_descendants
from interop.scenario import Scenario
from interop.sharing_scenario import SharingScenario
from interop.workspace import Workspace, prepared_workspace
from rekindle.client import PermissionRequest, connect

Print = Callable[[str], None]

# Rekindle waits this long for an agent to exit.
_GRACE = 5.0
_REKINDLE_GRACE = 3.0


def run_agent(spec: AgentSpec, scenarios: Collection[ScenarioName], print_line: Print) -> Result:
    """Run some scenarios of an agent, in all forms."""
    forms: dict[Form, dict[str, Outcome]] = {}
    says = ""
    for form in FORMS if "life" in scenarios else ():
        print_line(
            f"  {spec.name}, {'bare' if form == 'bare' else f'behind Rekindle, {form} client'}"
        )
        scenario = _run_form(spec, form, print_line)
        forms[form] = scenario.outcomes
        says = scenario.says or says
    acpx = _run_acpx(spec, print_line) if "acpx" in scenarios else {}
    neovim = _run_neovim(spec, print_line) if "neovim" in scenarios else {}
    imports = _run_import(spec, print_line) if spec.tool and "import" in scenarios else None
    memory = _run_memory(spec, print_line) if "memory" in scenarios else ()
    sharing = _run_sharing(spec, print_line) if "sharing" in scenarios else {}
    return Result(
        agent=spec.name,
        releases=spec.package.releases,
        says=says,
        forms=forms,
        acpx=acpx,
        neovim=neovim,
        imports=imports.outcomes if imports is not None else {},
        differences=tuple(imports.explained) if imports is not None else (),
        memory=memory,
        sharing=sharing,
    )


def _run_form(spec: AgentSpec, form: Form, print_line: Print) -> Scenario:
    with _prepared_run(spec, form) as (workspace, log):
        start = partial(
            connect,
            workspace.command,
            behind_rekindle=form != "bare",
            protocol=2 if form == "v2" else 1,
            on_permission=PermissionRequest.allow,
            on_stderr=log,
            on_notice=log,
            environ=workspace.environ,
            grace=_GRACE,
        )
        scenario = Scenario(
            start,
            workspace.project,
            print_line,
            is_behind_rekindle=form != "bare",
            reports_call_end=spec.reports_call_end,
        )
        try:
            asyncio.run(scenario.run(spec.pause))
        finally:
            kill_descendants()
    return scenario


def _run_acpx(spec: AgentSpec, print_line: Print) -> dict[str, Outcome]:
    print_line(f"  {spec.name}, behind Rekindle, acpx")
    with _prepared_run(spec, "acpx") as (workspace, log):
        acpx = Acpx(spec, workspace, print_line, log)
        acpx.run()
    return acpx.outcomes


def _run_neovim(spec: AgentSpec, print_line: Print) -> dict[str, Outcome]:
    if not (is_installed(NEOVIM) and is_installed(CODECOMPANION)):
        return {}
    print_line(f"  {spec.name}, behind Rekindle, CodeCompanion in Neovim")
    with _prepared_run(spec, "neovim") as (workspace, log):
        neovim = Neovim(spec, workspace, print_line, log)
        neovim.run()
    return neovim.outcomes


def _run_import(spec: AgentSpec, print_line: Print) -> ImportScenario:
    print_line(f"  {spec.name}, imported from")
    with _served_model(spec, "import") as (url, log), ExitStack() as workspaces:
        # The workspace that is entered last sets the current folder.
        successor = agent_named(spec.successor)
        is_there = is_installed(successor.package)
        other = workspaces.enter_context(prepared_workspace(successor, url)) if is_there else None
        workspace = workspaces.enter_context(prepared_workspace(spec, url))
        start = partial(
            connect,
            on_permission=PermissionRequest.allow,
            on_stderr=log,
            on_notice=log,
            grace=_GRACE,
        )
        scenario = ImportScenario(spec.tool, workspace, start, print_line)
        try:
            scenario.run(other, spec.pause)
        finally:
            kill_descendants()
    return scenario


def _run_memory(spec: AgentSpec, print_line: Print) -> tuple[MemoryOutcome, ...]:
    print_line(f"  {spec.name}, killed at five moments")
    requests: list[ModelRequest] = []
    served = _served_model(spec, "memory", requests.append)
    with served as (url, log), prepared_workspace(spec, url) as workspace:
        start = partial(
            connect,
            on_permission=PermissionRequest.allow,
            on_stderr=log,
            grace=_GRACE + _REKINDLE_GRACE,
        )
        traffic = CACHE / "logs" / f"{_file_name(spec)}-memory"
        scenario = MemoryScenario(workspace, start, requests, traffic, print_line)
        scenario.run(pause=spec.pause)
    return tuple(scenario.outcomes)


def _run_sharing(spec: AgentSpec, print_line: Print) -> dict[str, Outcome]:
    print_line(f"  {spec.name}, behind Rekindle, two clients")
    with _prepared_run(spec, "sharing") as (workspace, log):
        start = partial(connect, on_stderr=log, on_notice=log, grace=_GRACE)
        scenario = SharingScenario(workspace, start, print_line)
        try:
            asyncio.run(scenario.run())
        finally:
            kill_descendants()
    return scenario.outcomes


@contextmanager
def _prepared_run(spec: AgentSpec, form: str) -> Generator[tuple[Workspace, Print], None, None]:
    """Serve the model and prepare the workspace; yield it with a log for other output."""
    with _served_model(spec, form) as (url, log), prepared_workspace(spec, url) as workspace:
        yield workspace, log


@contextmanager
def _served_model(
    spec: AgentSpec, form: str, on_request: OnRequest = lambda _: None
) -> Generator[tuple[str, Print], None, None]:
    """Serve the model; yield its address and a log for other output."""
    logs = CACHE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / f"{_file_name(spec)}-{form}.log"
    with path.open("w", encoding="utf-8", buffering=1) as file:
        log = partial(_log, file.write)
        with serving(log, on_request) as url:
            yield url, log


def _file_name(spec: AgentSpec) -> str:
    return spec.name.replace(" ", "-")


def _log(write: Callable[[str], object], line: str) -> None:
    write(line + "\n")


def main() -> None:
    """Run the named agent, and write its result."""
    name, result, *scenarios = sys.argv[1:]
    check_isolation()
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        chosen: list[ScenarioName] = [name for name in SCENARIOS if name in scenarios]
        outcome = run_agent(agent_named(name), chosen, partial(print, flush=True))
    finally:
        kill_descendants()
    Path(result).write_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
