"""`make interop`: install and run each agent without network, then write the documents.

The exit code is 1 if a step behind Rekindle failed or an agent was not run. The results are stored,
so that a run of one agent or one scenario replaces only its own. A run of all agents writes the
documents; `--report` writes them from the stored results.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from interop.agents import (
    ACPX,
    AGENTS,
    CODECOMPANION,
    NEOVIM,
    NODE,
    AgentSpec,
    agent_named,
)
from interop.install import CACHE, NotInstalled, install
from interop.outcome import SCENARIOS, Result, ScenarioName
from interop.report import compose, memory_table, summary_table, update_readme
from interop.sandbox import NotIsolated, isolated_command

_ROOT = Path(__file__).parents[1]
_FIELDS: dict[ScenarioName, tuple[str, ...]] = {
    "life": ("forms", "says", "releases"),
    "acpx": ("acpx",),
    "neovim": ("neovim",),
    "import": ("imports", "differences"),
    "memory": ("memory",),
    "sharing": ("sharing",),
}
"""The fields of a result that each scenario fills."""
_print = partial(print, flush=True)


def main() -> int:
    """Run the named agents, print the results, and write the documents."""
    parser = argparse.ArgumentParser(prog="interop", description=__doc__)
    names = [spec.name for spec in AGENTS]
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"of {', '.join(names)}")
    parser.add_argument("--scenario", choices=SCENARIOS, help="run only this one")
    parser.add_argument("--report", action="store_true", help="run nothing, write the documents")
    arguments = parser.parse_args()
    chosen = arguments.agents or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no agent is called {', '.join(unknown)}: there are {', '.join(names)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    specs = [spec for spec in AGENTS if spec.name in chosen]
    scenarios = (arguments.scenario,) if arguments.scenario else SCENARIOS
    results = [_stored(spec) if arguments.report else _run_agent(spec, scenarios) for spec in specs]
    if arguments.scenario != "memory":
        _print(f"\n{summary_table(results)}")
    _print(f"\n{memory_table(results)}\n")
    if len(results) == len(AGENTS):
        _write_documents(results)
    failed = [result.agent for result in results if not result.is_as_expected]
    if failed:
        _print(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def _write_documents(results: list[Result]) -> None:
    document, readme = _ROOT / "docs" / "reference" / "interop.md", _ROOT / "README.md"
    document.write_text(compose(results), encoding="utf-8")
    readme.write_text(update_readme(readme.read_text(encoding="utf-8"), results), encoding="utf-8")
    _print(f"written: {document}, and the table in {readme}")


# -- stored results -------------------------------------------------------------------------


def _path(spec: AgentSpec) -> Path:
    return CACHE / "results" / f"{spec.name.replace(' ', '-')}.json"


def _stored(spec: AgentSpec) -> Result:
    """Return the last result of an agent."""
    path = _path(spec)
    if path.is_file():
        return msgspec.json.decode(path.read_bytes(), type=Result)
    return Result(agent=spec.name, releases=spec.package.releases, not_run="no result is stored")


def _store(spec: AgentSpec, result: Result, scenarios: Sequence[ScenarioName]) -> Result:
    """Replace the stored result, except for the scenarios that did not run; return it."""
    if not result.not_run and len(scenarios) < len(SCENARIOS):
        fresh = {
            name: getattr(result, name) for scenario in scenarios for name in _FIELDS[scenario]
        }
        result = msgspec.structs.replace(_stored(spec), not_run="", **fresh)
    _path(spec).parent.mkdir(parents=True, exist_ok=True)
    _path(spec).write_bytes(msgspec.json.encode(result))
    return result


# -- runs -----------------------------------------------------------------------------------


def _run_agent(spec: AgentSpec, scenarios: Sequence[ScenarioName]) -> Result:
    _print(f"{spec.name}:")
    return _store(spec, _run_installed(spec, scenarios), scenarios)


def _run_installed(spec: AgentSpec, scenarios: Sequence[ScenarioName]) -> Result:
    not_run = partial(Result, agent=spec.name, releases=spec.package.releases)
    try:
        for package in (NODE, ACPX, spec.package):
            install(package, _print)
        _install_optional(spec)
        broken_off = not_run(not_run="the run broke off: see what it printed")
        return _run_isolated(spec, scenarios) or broken_off
    except NotInstalled as error:
        _print(f"  not installed: {error}")
        return not_run(not_run=f"not installed: {error}")
    except NotIsolated as error:
        _print(f"  not run: {error}")
        return not_run(not_run=str(error))


def _install_optional(spec: AgentSpec) -> None:
    """Install Neovim, and the agent that continues imported sessions.

    The other steps run without them.
    """
    successors = (agent_named(spec.successor).package,) if spec.successor else ()
    for package in (NEOVIM, CODECOMPANION, *successors):
        try:
            install(package, _print)
        except NotInstalled as error:
            _print(f"  {package.name} is not installed: {error}")


def _run_isolated(spec: AgentSpec, scenarios: Sequence[ScenarioName]) -> Result | None:
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        path = Path(folder) / "result.json"
        command, environ = isolated_command(
            [sys.executable, "-m", "interop.runner", spec.name, str(path), *scenarios]
        )
        with subprocess.Popen(command, env=environ) as running:
            try:
                running.wait()
            except BaseException:
                # Otherwise the agents would keep running.
                running.terminate()
                running.wait()
                raise
        return msgspec.json.decode(path.read_bytes(), type=Result) if path.is_file() else None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
