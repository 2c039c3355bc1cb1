"""The table of known agents agrees with the documents, the importers and the interop runs."""

from pathlib import Path

import pytest

from interop.agents import AGENTS
from rekindle.cli.known_agents import (
    KNOWN_AGENTS,
    KnownAgent,
    agent_of_identity,
    agent_of_program,
    agent_of_tool,
    known_agent,
)
from rekindle.importers.registry import BUILT_IN_NAMES, load_importer

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "agents.md"


def test_every_agent_is_documented_as_it_is() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text.partition("## Known agents\n")[2].partition("\n\nThe install")[0]
    rows = [tuple(cell.strip() for cell in line[1:-1].split("|")) for line in table.split("\n")[3:]]
    assert rows == [
        (f"`{it.name}`", it.title, f"`{' '.join(it.command)}`", _install(it)) for it in KNOWN_AGENTS
    ]


def _install(agent: KnownAgent) -> str:
    is_page = agent.install.startswith("https://")
    return f"<{agent.install}>" if is_page else f"`{agent.install}`"


def test_names_and_programs_are_unique() -> None:
    assert len({agent.name for agent in KNOWN_AGENTS}) == len(KNOWN_AGENTS)
    assert len({agent.program for agent in KNOWN_AGENTS}) == len(KNOWN_AGENTS)


@pytest.mark.parametrize("tool", BUILT_IN_NAMES)
def test_every_importer_has_its_agent(tool: str) -> None:
    agent = agent_of_tool(tool)
    assert agent is not None
    assert agent == known_agent(tool) == agent_of_identity(tool)
    # The importer has the same names, so that both find the same recorded commands.
    assert set(load_importer(tool).agent_names) <= {*agent.identities, tool}
    assert all(agent_of_identity(name.upper()) == agent for name in agent.identities)


@pytest.mark.parametrize("spec", AGENTS, ids=lambda spec: spec.name)
def test_agents_that_were_run_have_the_same_command_and_package(spec: object) -> None:
    assert isinstance(spec, type(AGENTS[0]))
    agent = agent_of_program(spec.command[0])
    if agent is None:
        assert spec.name == "deepagents-acp"
        return
    assert spec.command[: len(agent.command)] == agent.command
    for release in spec.package.releases:
        package = release.partition("==")[0] if "==" in release else release.rpartition("@")[0]
        assert package in agent.install


def test_unknown_values_have_no_agent() -> None:
    assert known_agent("no") is None
    assert agent_of_tool("") is None
    assert agent_of_identity("") is None
    assert agent_of_program("/usr/bin/gemini") == known_agent("gemini")
