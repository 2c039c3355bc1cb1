from pathlib import Path

import pytest

from interop.agents import AGENTS
from interop.outcome import ACPX_STEPS, STEPS, Outcome, Result
from interop.report import compose, in_readme, short

SPEC = AGENTS[0]
OK = dict.fromkeys(STEPS, Outcome("ok"))
ACPX = dict.fromkeys(ACPX_STEPS, Outcome("ok"))


def result(**more: object) -> Result:
    usual = {"agent": SPEC.name, "releases": SPEC.package.releases, "acpx": ACPX}
    return Result(**{**usual, **more})  # pyright: ignore[reportArgumentType]


def test_what_is_missing_bare_and_had_behind_rekindle_is_told() -> None:
    bare = {**OK, "load": Outcome("failed", "no"), "delete": Outcome("not offered")}
    whole = result(forms={"bare": bare, "v1": OK, "v2": OK})
    assert whole.is_as_expected
    assert "| delete; does not work: load | all of it" in short([whole])
    assert "| load tells all of it | ✗ (1) | ✓ | ✓ |" in compose([whole])
    assert "\n1. no\n" in compose([whole])


def test_a_failure_behind_rekindle_is_not_as_expected() -> None:
    failing = {**OK, "fork": Outcome("failed", "it broke")}
    whole = result(forms={"bare": OK, "v1": OK, "v2": failing})
    assert not whole.is_as_expected
    assert "all but fork" in short([whole])


def test_a_failure_before_acpx_is_not_as_expected() -> None:
    forms = {"bare": OK, "v1": OK, "v2": OK}
    assert not result(forms=forms, acpx={"new": Outcome("failed", "no")}).is_as_expected


def test_what_was_not_installed_is_no_pass() -> None:
    refused = result(not_run="not installed: no matching version", acpx={})
    assert not refused.is_as_expected
    assert "**Not run**: not installed: no matching version." in compose([refused])


def test_readme_has_the_table_and_keeps_the_rest() -> None:
    results = [result(forms={"bare": OK, "v1": OK, "v2": OK})]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    made = in_readme(readme, results)
    assert short(results) in made
    assert in_readme(made, results) == made
    assert made.partition("## Look at")[2] == readme.partition("## Look at")[2]
    with pytest.raises(ValueError, match="has no <!-- interop"):
        in_readme("# Rekindle", results)
