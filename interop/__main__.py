"""`make interop`: install, run each agent apart from the network, write docs/interop.md and README.

Ends with 1 when something behind Rekindle did not go as expected, or an agent was not run.
"""

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from interop.agents import ACPX, AGENTS, NODE, AgentSpec
from interop.installing import CACHE, NotInstalled, install
from interop.isolation import wrapped
from interop.outcome import Result
from interop.report import compose, in_readme

_ROOT = Path(__file__).parents[1]
_RESULTS = CACHE / "results"
_say = partial(print, flush=True)


def main() -> int:
    """Run what was asked for; the rest of the document is from earlier runs."""
    parser = argparse.ArgumentParser(prog="interop", description=__doc__)
    names = [spec.name for spec in AGENTS]
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"of {', '.join(names)}")
    wanted = parser.parse_args().agents or names
    if unknown := set(wanted) - set(names):
        parser.error(f"no agent is called {', '.join(unknown)}: there are {', '.join(names)}")
    _RESULTS.mkdir(parents=True, exist_ok=True)
    for spec in AGENTS:
        if spec.name in wanted:
            _say(f"{spec.name}:")
            _keep(_result(spec))
    results = [_kept(spec) for spec in AGENTS]
    document, readme = _ROOT / "docs" / "interop.md", _ROOT / "README.md"
    document.write_text(compose(results), encoding="utf-8")
    readme.write_text(in_readme(readme.read_text(encoding="utf-8"), results), encoding="utf-8")
    _say(f"written: {document}, and the table in {readme}")
    failed = [it.agent for it in results if it.agent in wanted and not it.is_as_expected]
    if failed:
        _say(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def _result(spec: AgentSpec) -> Result:
    try:
        for package in (NODE, ACPX, spec.package):
            install(package, _say)
    except NotInstalled as error:
        _say(f"  not installed: {error}")
        return _not_run(spec, f"not installed: {error}")
    path = _path(spec)
    path.unlink(missing_ok=True)
    command, environ = wrapped([sys.executable, "-m", "interop.running", spec.name, str(path)])
    subprocess.run(command, env=environ, check=False)
    if path.is_file():
        return msgspec.json.decode(path.read_bytes(), type=Result)
    return _not_run(spec, "the run broke off: see what it printed")


def _not_run(spec: AgentSpec, why: str) -> Result:
    return Result(agent=spec.name, releases=spec.package.releases, not_run=why)


def _path(spec: AgentSpec) -> Path:
    return _RESULTS / f"{spec.name}.json"


def _keep(result: Result) -> None:
    (_RESULTS / f"{result.agent}.json").write_bytes(msgspec.json.encode(result))


def _kept(spec: AgentSpec) -> Result:
    """Return the last result, if it is of the same releases."""
    path = _path(spec)
    if path.is_file():
        result = msgspec.json.decode(path.read_bytes(), type=Result)
        if result.releases == spec.package.releases:
            return result
    return _not_run(spec, "not run yet")


if __name__ == "__main__":
    sys.exit(main())
