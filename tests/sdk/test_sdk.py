"""The official TypeScript SDK drives the whole lifecycle, and likes every message."""

import shutil
import subprocess
from pathlib import Path

import pytest

from acp import EXAMPLE_AGENT, REKINDLE

HERE = Path(__file__).parent
PATIENCE = 120

AGENTS = {
    "forgetful": (),
    "complete": ("--offer", "all", "--memory", "memory"),
    "loads": ("--offer", "load,list", "--memory", "memory", "--echo"),
    "resumes": ("--offer", "resume,close", "--memory", "memory", "--early-updates"),
    "forks": ("--offer", "fork,delete", "--no-message-ids"),
}


def drive(script: str, agent: tuple[str, ...], folder: Path) -> None:
    """Let a script drive Rekindle and the example agent."""
    node = shutil.which("node")
    assert node, "npm is here, but node is not"
    pid_file = folder / "agent.pid"
    behind = ("sh", "-c", f'echo $$ > {pid_file}; exec "$0" "$@"', *EXAMPLE_AGENT, *agent)
    command = (*REKINDLE, "run", "--store", folder / "s.db", "--", *behind)
    done = subprocess.run(
        [node, HERE / script, pid_file, *command],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
def test_a_client_of_version_1(agent: tuple[str, ...], tmp_path: Path) -> None:
    drive("v1_client.mjs", agent, tmp_path)


FORMS = {
    "translated": (),
    "translated, complete": ("--offer", "all", "--memory", "memory"),
    "native": ("--protocol", "2", "--memory", "memory"),
    "native, forgetful": ("--protocol", "2", "--offer", "none"),
}


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("agent", FORMS.values(), ids=FORMS.keys())
def test_a_client_of_version_2(agent: tuple[str, ...], tmp_path: Path) -> None:
    drive("v2_client.mjs", agent, tmp_path)


@pytest.mark.usefixtures("sdk")
def test_a_client_of_version_1_before_an_agent_of_version_2(tmp_path: Path) -> None:
    drive("v1_client.mjs", ("--protocol", "2", "--only-v2", "--memory", "memory"), tmp_path)
