"""The scenarios of `make interop`, with an agent whose capabilities are arguments."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from interop.import_scenario import ImportScenario
from interop.model.server import serving
from interop.outcome import IMPORT_STEPS, STEPS, Outcome
from interop.scenario import Scenario
from interop.workspace import Workspace
from rekindle.client import PermissionRequest, connect

AGENT = Path(__file__).parents[1] / "support" / "model_agent.py"
ALL = ("list", "load", "resume", "fork", "close", "delete")


def outcomes(
    folder: Path, *traits: str, protocol: int = 1, is_behind_rekindle: bool = False
) -> dict[str, Outcome]:
    """Run the scenario with an agent of these capabilities; return the outcomes."""
    kept, project = folder / "kept", folder / "project"
    kept.mkdir()
    project.mkdir()
    with serving(lambda _: None) as url:
        start = partial(
            connect,
            (sys.executable, str(AGENT), f"{url}/v1", str(kept), *traits),
            behind_rekindle=is_behind_rekindle,
            protocol=protocol,
            on_permission=PermissionRequest.allow,
            environ={"REKINDLE_STORE": str(folder / "s.db")},
        )
        scenario = Scenario(start, project, print, is_behind_rekindle=is_behind_rekindle)
        asyncio.run(scenario.run())
    return scenario.outcomes


def test_capable_agent_passes_all_steps(tmp_path: Path) -> None:
    steps = outcomes(tmp_path, *ALL)
    not_ok = {step: outcome for step, outcome in steps.items() if outcome.status != "ok"}
    # The agent saves a turn at its end, a bare agent is not restarted, and no agent has these yet.
    assert not_ok == {
        "cut off": Outcome("failed", "the model was not shown it"),
        "agent killed": Outcome("not reached"),
        "title": Outcome("not offered"),
        "archive": Outcome("not offered"),
        "rewind": Outcome("not offered"),
        "rewind memory": Outcome("not reached"),
    }
    assert steps["load memory"] == steps["resume memory"] == Outcome("ok", "native")


def test_agent_without_lifecycle_does_not_fail(tmp_path: Path) -> None:
    steps = outcomes(tmp_path)
    assert steps.pop("turn") == Outcome("ok")
    assert {value.status for value in steps.values()} == {"not offered", "not reached"}


def test_false_claim_of_memory_is_detected(tmp_path: Path) -> None:
    steps = outcomes(tmp_path, *ALL, "forgets")
    assert steps["load"].status == "ok"
    for step in ("load memory", "resume memory", "fork memory"):
        assert steps[step].status == "failed"
        assert "without alpha" in steps[step].remark


@pytest.mark.parametrize("protocol", [1, 2])
def test_behind_rekindle_all_steps_pass_and_name_the_method(protocol: int, tmp_path: Path) -> None:
    steps = outcomes(tmp_path, protocol=protocol, is_behind_rekindle=True)
    assert steps.keys() == STEPS.keys()
    assert {value.status for value in steps.values()} == {"ok"}
    for step in (
        "load memory",
        "agent killed",
        "resume memory",
        "cut off",
        "fork memory",
        "rewind memory",
    ):
        assert steps[step].remark == "told"


def test_missing_tool_files_are_not_imported(tmp_path: Path) -> None:
    # Its agent cannot change files.
    with serving(lambda _: None) as url:
        command = (sys.executable, str(AGENT), f"{url}/v1", str(tmp_path))
        importing = ImportScenario("claude", Workspace(tmp_path, command, {}), connect, print)
        importing.run(successor=None)
    assert "No tool that I know of does that" in importing.outcomes.pop("live").remark
    assert importing.outcomes.keys() | {"live"} == IMPORT_STEPS.keys()
    assert {value.status for value in importing.outcomes.values()} == {"not reached"}


def test_interrupted_turn_is_handed_over_to_a_native_restore(tmp_path: Path) -> None:
    steps = outcomes(tmp_path, *ALL, is_behind_rekindle=True)
    assert {value.status for value in steps.values()} == {"ok"}
    assert steps["resume memory"].remark == "native"
    assert steps["cut off"].remark == "told"
