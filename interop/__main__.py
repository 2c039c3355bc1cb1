"""`make interop`: install and run each agent without network, write docs/interop.md and README.

The exit code is 1 if a step behind Rekindle failed or an agent was not run. Only a run of all
agents writes the documents.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import msgspec

from interop.agents import ACPX, AGENTS, NODE, AgentSpec, agent_named
from interop.install import NotInstalled, install
from interop.outcome import Result
from interop.report import compose, summary_table, update_readme
from interop.sandbox import NotIsolated, isolated_command

_ROOT = Path(__file__).parents[1]
_print = partial(print, flush=True)


def main() -> int:
    """Run the named agents, print the results, and write the documents."""
    parser = argparse.ArgumentParser(prog="interop", description=__doc__)
    names = [spec.name for spec in AGENTS]
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"of {', '.join(names)}")
    chosen = parser.parse_args().agents or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no agent is called {', '.join(unknown)}: there are {', '.join(names)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    results = [_run_agent(spec) for spec in AGENTS if spec.name in chosen]
    _print(f"\n{summary_table(results)}\n")
    if len(results) == len(AGENTS):
        document, readme = _ROOT / "docs" / "interop.md", _ROOT / "README.md"
        document.write_text(compose(results), encoding="utf-8")
        readme.write_text(
            update_readme(readme.read_text(encoding="utf-8"), results), encoding="utf-8"
        )
        _print(f"written: {document}, and the table in {readme}")
    failed = [result.agent for result in results if not result.is_as_expected]
    if failed:
        _print(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def _run_agent(spec: AgentSpec) -> Result:
    _print(f"{spec.name}:")
    not_run = partial(Result, agent=spec.name, releases=spec.package.releases)
    try:
        for package in (NODE, ACPX, spec.package):
            install(package, _print)
        _install_successor(spec)
        return _run_isolated(spec) or not_run(not_run="the run broke off: see what it printed")
    except NotInstalled as error:
        _print(f"  not installed: {error}")
        return not_run(not_run=f"not installed: {error}")
    except NotIsolated as error:
        _print(f"  not run: {error}")
        return not_run(not_run=str(error))


def _install_successor(spec: AgentSpec) -> None:
    """Install the agent that continues imported sessions. Other steps run without it."""
    if spec.successor:
        try:
            install(agent_named(spec.successor).package, _print)
        except NotInstalled as error:
            _print(f"  {spec.successor} is not installed: {error}")


def _run_isolated(spec: AgentSpec) -> Result | None:
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        path = Path(folder) / "result.json"
        command, environ = isolated_command(
            [sys.executable, "-m", "interop.runner", spec.name, str(path)]
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
