"""The official SDKs, as client and as agent, accept every message of Rekindle.

The clients run the whole lifecycle, and kill all processes on the way. The agents have the actions
of the example agent. The TypeScript SDK supports versions 1 and 2, the Python SDK only version 1.
The scripts run in their own processes, where `acp` is the Python SDK.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance_runs import check, describe_failures, failed
from rekindle.conformance import Verdict
from stdio_client import EXAMPLE_AGENT, REKINDLE

HERE = Path(__file__).parent
TIMEOUT = 120

AGENTS = {
    "forgetful": (),
    "complete": ("--offer", "all", "--memory", "memory"),
    "loads": ("--offer", "load,list", "--memory", "memory", "--echo"),
    "resumes": ("--offer", "resume,close", "--memory", "memory", "--early-updates"),
    "forks": ("--offer", "fork,delete", "--no-message-ids"),
}


def script(name: str) -> tuple[str | Path, ...]:
    """Return the command that runs a script of one of the SDKs."""
    if name.endswith(".py"):
        return sys.executable, HERE / name
    node = shutil.which("node")
    assert node, "npm is here, but node is not"
    return node, HERE / name


def run_client(client: str, agent: tuple[str | Path, ...], folder: Path) -> None:
    """Run a client script with Rekindle and an agent."""
    pid_file = folder / "agent.pid"
    behind = ("sh", "-c", f'echo $$ > {pid_file}; exec "$0" "$@"', *agent)
    command = (*REKINDLE, "run", "--store", folder / "s.db", "--", *behind)
    done = subprocess.run(
        [*script(client), pid_file, *command],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.one_of(5)
@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
def test_v1_client_of_the_typescript_sdk(agent: tuple[str, ...], tmp_path: Path) -> None:
    run_client("v1_client.mjs", (*EXAMPLE_AGENT, *agent), tmp_path)


V2_AGENTS = {
    "translated": (),
    "translated, complete": ("--offer", "all", "--memory", "memory"),
    "native": ("--protocol", "2", "--memory", "memory"),
    "native, forgetful": ("--protocol", "2", "--offer", "none"),
}


@pytest.mark.one_of(4)
@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", V2_AGENTS.values(), ids=V2_AGENTS.keys())
def test_v2_client_of_the_typescript_sdk(agent: tuple[str, ...], tmp_path: Path) -> None:
    run_client("v2_client.mjs", (*EXAMPLE_AGENT, *agent), tmp_path)


@pytest.mark.usefixtures("sdk")
def test_v1_client_with_a_v2_agent(tmp_path: Path) -> None:
    agent = (*EXAMPLE_AGENT, "--protocol", "2", "--only-v2", "--memory", "memory")
    run_client("v1_client.mjs", agent, tmp_path)


@pytest.mark.usefixtures("sdk")
def test_check_judges_no_batches_of_an_sdk_that_refuses_them(tmp_path: Path) -> None:
    agent = tuple(map(str, (*script("v2_agent.mjs"), tmp_path / "verdicts")))
    report = check(agent, tmp_path, only=("batch",), protocol=2)
    verdicts = {it.requirement.name: it for it in report.results}
    assert failed(report) == set(), describe_failures(report)
    assert verdicts["batch.empty"].verdict is Verdict.PASS
    assert verdicts["batch.silent"].verdict is Verdict.NOT_OFFERED
    assert verdicts["batch.silent"].reason.startswith("the agent refuses every batch")


LIFECYCLES = {
    "forgetful": frozenset[str](),
    "loads": frozenset({"load"}),
    "resumes": frozenset({"resume"}),
    "forks": frozenset({"fork", "close"}),
    "complete": frozenset({"load", "list", "resume", "close", "fork", "delete"}),
}
# Each pair takes some seconds. REKINDLE_SDKS=all runs every client with every agent.
ALL = list(
    itertools.product(
        ("v1_client.mjs", "v2_client.mjs", "v1_client.py"),
        ("v1_agent.mjs", "v2_agent.mjs", "v1_agent.py"),
        LIFECYCLES,
    )
)
SOME = [
    ("v1_client.mjs", "v1_agent.mjs", "complete"),
    ("v2_client.mjs", "v1_agent.mjs", "loads"),
    ("v2_client.mjs", "v1_agent.py", "complete"),
    ("v2_client.mjs", "v2_agent.mjs", "forgetful"),
    ("v1_client.py", "v1_agent.py", "forgetful"),
    ("v1_client.py", "v2_agent.mjs", "complete"),
]
RUNS_ALL = os.environ.get("REKINDLE_SDKS") == "all"
PAIRS = ALL if RUNS_ALL else SOME


@pytest.mark.one_of(1 if RUNS_ALL else 4)
@pytest.mark.parametrize(("client", "agent", "lifecycle"), PAIRS)
def test_sdk_client_with_sdk_agent(
    client: str, agent: str, lifecycle: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if ".mjs" in client + agent:
        request.getfixturevalue("sdk")
    offers = offered_by(agent, lifecycle)
    memory = ("memory", ",".join(sorted(offers))) if offers else ()
    run_client(client, (*script(agent), "verdicts", *memory), tmp_path)
    lines = (tmp_path / "verdicts").read_text(encoding="utf-8").splitlines()
    verdicts = [tuple(json.loads(line)) for line in lines]
    assert [fault for _, fault in verdicts if fault] == []
    assert {method for method, _ in verdicts} == methods_called_on(agent, offers)


def offered_by(agent: str, lifecycle: str) -> frozenset[str]:
    """Return the methods that an agent offers. The Python SDK cannot offer delete."""
    return LIFECYCLES[lifecycle] - ({"delete"} if agent.endswith(".py") else set[str]())


def methods_called_on(agent: str, offers: frozenset[str]) -> set[str]:
    """Return the methods that Rekindle calls on an agent."""
    if agent.startswith("v2"):
        own = {"list", "resume", "close", "set_config_option"} | offers & {"delete", "fork"}
    else:
        own = {"set_mode"} | offers - ({"resume"} if "load" in offers else set[str]())
    names = {"new", "prompt", "cancel", "request_permission"} | own
    return {"initialize", *(f"session/{name}" for name in names)}
