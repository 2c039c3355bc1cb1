"""docs/check.md has every requirement, and covers the whole checklist or gives reasons."""

import re
from pathlib import Path

from rekindle.conformance import NOT_JUDGED, NOT_WHOLE, REQUIREMENTS, SCENARIOS
from rekindle.conformance.scenarios import SCENARIOS as IMPLEMENTED
from requirements import REQUIREMENTS as CHECKLIST

DOCUMENT = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
CHANGED_IN_V2 = [f"D{number}" for number in range(1, 16)]


def test_document_has_every_requirement() -> None:
    for it in REQUIREMENTS:
        versions = ", ".join(map(str, it.versions))
        row = f"| `{it.name}` | {it.level} | {versions} | {', '.join(it.numbers)} | {it.title} |"
        assert row in DOCUMENT


def test_document_has_no_unknown_requirement() -> None:
    named = set(re.findall(r"`([a-z]+\.[a-z-]+)`", DOCUMENT)) - {"check.json"}
    assert named == {it.name for it in REQUIREMENTS}


def row_of(number: str) -> list[str]:
    """Return the row of a number in the document's checklist."""
    table = DOCUMENT.partition("## The checklist")[2]
    found = re.findall(rf"^\| {number} \| (.*) \|$", table, re.MULTILINE)
    assert len(found) == 1, number
    return found[0].split(" | ")


def test_every_number_is_checked_or_has_a_reason() -> None:
    checked = {number for it in REQUIREMENTS for number in it.numbers}
    assert checked.isdisjoint(NOT_JUDGED)
    assert checked.issuperset(NOT_WHOLE)
    assert checked | NOT_JUDGED.keys() == {*map(str, CHECKLIST), *CHANGED_IN_V2}
    for number, reason in NOT_JUDGED.items():
        assert row_of(number)[2] == f"not judged: {reason}"
    for number in checked:
        names = ", ".join(f"`{it.name}`" for it in REQUIREMENTS if number in it.numbers)
        more = f"; not: {NOT_WHOLE[number]}" if number in NOT_WHOLE else ""
        assert row_of(number)[2] == names + more


def test_every_number_has_its_text_and_source() -> None:
    for number in [*map(str, CHECKLIST), *CHANGED_IN_V2]:
        demand, source, _ = row_of(number)
        assert demand
        assert source
        if number.isdigit():
            assert demand == CHECKLIST[int(number)]


def test_every_scenario_is_implemented_and_names_are_unique() -> None:
    assert [*IMPLEMENTED, "wire"] == list(SCENARIOS)
    assert len({it.name for it in REQUIREMENTS}) == len(REQUIREMENTS)
