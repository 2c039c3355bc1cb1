from pathlib import Path

import pytest

from interop.agents import AGENTS
from interop.comparison import Difference
from interop.outcome import (
    ACPX_STEPS,
    IMPORT_STEPS,
    STEPS,
    ExplainedDifference,
    MemoryOutcome,
    Outcome,
    Result,
)
from interop.report import compose, summary_table, update_readme

SPEC = AGENTS[0]
OK = dict.fromkeys(STEPS, Outcome("ok"))
ACPX = dict.fromkeys(ACPX_STEPS, Outcome("ok"))


def result(**more: object) -> Result:
    usual = {"agent": SPEC.name, "releases": SPEC.package.releases, "acpx": ACPX}
    return Result(**{**usual, **more})  # pyright: ignore[reportArgumentType]


def test_report_shows_features_that_only_rekindle_provides() -> None:
    bare = {**OK, "load": Outcome("failed", "no"), "delete": Outcome("not offered")}
    whole = result(forms={"bare": bare, "v1": OK, "v2": OK})
    assert whole.is_as_expected
    assert "| delete; does not work: load | everything" in summary_table([whole])
    assert "| load replays all of it | ✗ (1) | ✓ | ✓ |" in compose([whole])
    assert "\n1. no\n" in compose([whole])


def test_failure_behind_rekindle_is_unexpected() -> None:
    failing = {**OK, "fork": Outcome("failed", "it broke")}
    whole = result(forms={"bare": OK, "v1": OK, "v2": failing})
    assert not whole.is_as_expected
    assert "everything but fork" in summary_table([whole])


def test_failure_with_acpx_is_unexpected() -> None:
    forms = {"bare": OK, "v1": OK, "v2": OK}
    assert not result(forms=forms, acpx={"new": Outcome("failed", "no")}).is_as_expected


def test_result_of_one_scenario_is_shown() -> None:
    assert "| nothing | everything |" in summary_table([result()])


def test_missing_agent_is_not_a_pass() -> None:
    refused = result(not_run="not installed: no matching version", acpx={})
    assert not refused.is_as_expected
    assert "**Not run**: not installed: no matching version." in compose([refused])


IMPORTED = dict.fromkeys(IMPORT_STEPS, Outcome("ok")) | {"other": Outcome("ok", "told")}


def test_report_shows_imports_with_differences_and_reasons() -> None:
    why = ExplainedDifference(Difference("text of a call", "", "```\na|b\n```"), "it is so")
    whole = result(forms={"bare": OK, "v1": OK, "v2": OK}, imports=IMPORTED, differences=(why,))
    assert whole.is_as_expected
    document = compose([whole])
    assert (
        f"| the agent of another tool continues it | ✓ with history: {SPEC.successor} |" in document
    )
    row = f"| {SPEC.tool} | text of a call | — | `` ```⏎a\\|b⏎``` `` | it is so |"
    assert row in document


def test_failed_import_is_unexpected() -> None:
    failing = {**IMPORTED, "load v2": Outcome("failed", "a thought is missing")}
    whole = result(forms={"bare": OK, "v1": OK, "v2": OK}, imports=failing)
    assert not whole.is_as_expected
    assert "everything but what is imported from it" in summary_table([whole])
    assert "| the same, v2 client | ✗ (1) |" in compose([whole])
    assert "\n1. a thought is missing\n" in compose([whole])


def test_agent_without_run_has_no_import() -> None:
    refused = result(not_run="not installed: no matching version", acpx={})
    assert f"**{SPEC.name} was not run**: not installed: no matching" in compose([refused])


def test_readme_table_is_replaced_in_place() -> None:
    results = [result(forms={"bare": OK, "v1": OK, "v2": OK})]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    made = update_readme(readme, results)
    assert summary_table(results) in made
    assert update_readme(made, results) == made
    assert made.partition("<!-- /interop")[2] == readme.partition("<!-- /interop")[2]
    with pytest.raises(ValueError, match="has no <!-- interop"):
        update_readme("# Rekindle", results)


def test_report_shows_the_turns_that_a_killed_agent_knows() -> None:
    memory = (
        MemoryOutcome(moment="turn", method="load", restored="native", missing_turns=2),
        MemoryOutcome(moment="answer", method="load", restored="native", missing=("delta",)),
        MemoryOutcome(moment="1", method="resume", restored="native", doubled=("charlie",)),
        MemoryOutcome(moment="10", method="resume", error="no answer"),
    )
    whole = result(forms={"bare": OK, "v1": OK, "v2": OK}, memory=memory)
    assert not whole.is_as_expected
    assert "everything but memory of all turns after a kill" in summary_table([whole])
    document = compose([whole])
    assert f"| {SPEC.name} | load | ✓ native + 2 | ✗ (1) native | — | — | — |" in document
    assert f"| {SPEC.name} | resume | — | — | — | ✗ (2) native | ✗ (3) |" in document
    assert "\n1. the model was shown the session without delta\n" in document
    assert "\n2. the model was shown the session with charlie more than once\n" in document
    kept = result(forms={"bare": OK, "v1": OK, "v2": OK}, memory=memory[:1])
    assert kept.is_as_expected


def test_client_that_is_not_installed_is_no_failure() -> None:
    whole = result(forms={"bare": OK, "v1": OK, "v2": OK})
    assert whole.is_as_expected
    assert "**Not run**: it is not installed." in compose([whole])
    failing = result(forms={"bare": OK, "v1": OK, "v2": OK}, neovim={"new": Outcome("failed", "")})
    assert "everything but what Neovim needs" in summary_table([failing])
