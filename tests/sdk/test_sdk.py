"""The official SDKs judge: before Rekindle and behind it, they like every message of it.

Clients drive the whole lifecycle, while everything is killed; agents play the scenes of the
example agent. The TypeScript SDK has version 1 and 2, the Python SDK version 1 alone. Scripts have
processes of their own, where `acp` is the Python SDK.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stdio_client import EXAMPLE_AGENT, REKINDLE

HERE = Path(__file__).parent
PATIENCE = 120

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


def drive(client: str, agent: tuple[str | Path, ...], folder: Path) -> None:
    """Let a script drive Rekindle and an agent."""
    pid_file = folder / "agent.pid"
    behind = ("sh", "-c", f'echo $$ > {pid_file}; exec "$0" "$@"', *agent)
    command = (*REKINDLE, "run", "--store", folder / "s.db", "--", *behind)
    done = subprocess.run(
        [*script(client), pid_file, *command],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.one_of(2)
@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
def test_a_client_of_version_1(agent: tuple[str, ...], tmp_path: Path) -> None:
    drive("v1_client.mjs", (*EXAMPLE_AGENT, *agent), tmp_path)


FORMS = {
    "translated": (),
    "translated, complete": ("--offer", "all", "--memory", "memory"),
    "native": ("--protocol", "2", "--memory", "memory"),
    "native, forgetful": ("--protocol", "2", "--offer", "none"),
}


@pytest.mark.one_of(2)
@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", FORMS.values(), ids=FORMS.keys())
def test_a_client_of_version_2(agent: tuple[str, ...], tmp_path: Path) -> None:
    drive("v2_client.mjs", (*EXAMPLE_AGENT, *agent), tmp_path)


@pytest.mark.usefixtures("sdk")
def test_a_client_of_version_1_before_an_agent_of_version_2(tmp_path: Path) -> None:
    agent = (*EXAMPLE_AGENT, "--protocol", "2", "--only-v2", "--memory", "memory")
    drive("v1_client.mjs", agent, tmp_path)


LIFECYCLES = {
    "forgetful": frozenset[str](),
    "loads": frozenset({"load"}),
    "resumes": frozenset({"resume"}),
    "forks": frozenset({"fork", "close"}),
    "complete": frozenset({"load", "list", "resume", "close", "fork", "delete"}),
}
# Each takes some seconds. REKINDLE_SDKS=all takes every client before every agent.
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
PAIRS = ALL if os.environ.get("REKINDLE_SDKS") == "all" else SOME


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("client", "agent", "lifecycle"), PAIRS)
def test_sdks_before_and_behind(
    client: str, agent: str, lifecycle: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if ".mjs" in client + agent:
        request.getfixturevalue("sdk")
    offers = offered_by(agent, lifecycle)
    memory = ("memory", ",".join(sorted(offers))) if offers else ()
    drive(client, (*script(agent), "verdicts", *memory), tmp_path)
    lines = (tmp_path / "verdicts").read_text(encoding="utf-8").splitlines()
    verdicts = [tuple(json.loads(line)) for line in lines]
    assert [wrong for _, wrong in verdicts if wrong] == []
    assert {method for method, _ in verdicts} == asked_of(agent, offers)


def offered_by(agent: str, lifecycle: str) -> frozenset[str]:
    """Return what an agent offers; the Python SDK lets none offer to delete."""
    return LIFECYCLES[lifecycle] - ({"delete"} if agent.endswith(".py") else set[str]())


def asked_of(agent: str, offers: frozenset[str]) -> set[str]:
    """Return all methods by which an agent is reached: what it offers, as far as it is of use."""
    if agent.startswith("v2"):
        own = {"list", "resume", "close", "set_config_option"} | offers & {"delete", "fork"}
    else:
        own = {"set_mode"} | offers - ({"load"} if "resume" in offers else set[str]())
    names = {"new", "prompt", "cancel", "request_permission"} | own
    return {"initialize", *(f"session/{name}" for name in names)}
