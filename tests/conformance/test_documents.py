"""The reference of `check` has every requirement, and covers the checklist or gives reasons."""

import json
import re
from pathlib import Path

import pytest

from rekindle.conformance import (
    NOT_JUDGED,
    NOT_WHOLE,
    REQUIREMENTS,
    SCENARIOS,
    SCHEMA_REVISION,
    SOURCES,
    TCK,
    TCK_NOT_JUDGED,
    RequirementLevel,
    tck_ids,
)
from rekindle.conformance.requirements import Requirement
from rekindle.conformance.scenarios import SCENARIOS as IMPLEMENTED
from rekindle.conformance.specification import find_sources
from requirements import REQUIREMENTS as CHECKLIST
from schema import FILES, SDK, why_missing

_PATH = Path(__file__).parents[2] / "docs" / "reference" / "check.md"
DOCUMENT = _PATH.read_text(encoding="utf-8")
NUMBERS = list(SOURCES)


def row(requirement: Requirement) -> str:
    """Return the row of a requirement in the document."""
    it = requirement
    versions = ", ".join(map(str, it.versions))
    numbers = ", ".join(it.numbers) or "none"
    return f"| `{it.name}` | {it.level} | {versions} | {numbers} | {it.title} |"


def checked_by(number: str) -> str:
    """Return the last column of a number in the document's checklist."""
    if number in NOT_JUDGED:
        return f"not judged: {NOT_JUDGED[number]}"
    names = ", ".join(f"`{it.name}`" for it in REQUIREMENTS if number in it.numbers)
    return names + (f"; not: {NOT_WHOLE[number]}" if number in NOT_WHOLE else "")


def updated(document: str) -> str:
    """Return the document with the present texts of requirements and reasons."""
    for it in REQUIREMENTS:
        old = rf"^\| `{re.escape(it.name)}` \| (?:MUST|SHOULD|RECORDED) \|.*$"
        document = re.sub(old, lambda _, it=it: row(it), document, flags=re.MULTILINE)
    head, heading, table = document.partition("## The checklist")
    for number in NUMBERS:
        old = rf"^(\| {number} \| [^|\n]* \| )[^|\n]* \| [^|\n]* \|$"
        new = f"{SOURCES[number]} | {checked_by(number)} |"
        table = re.sub(old, lambda found, new=new: found[1] + new, table, flags=re.MULTILINE)
    return head + heading + table


def test_document_has_every_requirement(*, update: bool) -> None:
    present = updated(DOCUMENT)
    if update:
        _PATH.write_text(present, encoding="utf-8")
    assert present == DOCUMENT or update
    for it in REQUIREMENTS:
        assert row(it) in present


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
    assert checked | NOT_JUDGED.keys() == {*NUMBERS}
    for number in NUMBERS:
        assert row_of(number)[1:] == [SOURCES[number], checked_by(number)]


def test_every_number_has_its_text_and_source() -> None:
    assert [int(number) for number in NUMBERS if number.isdigit()] == list(CHECKLIST)
    for number in NUMBERS:
        demand, source, _ = row_of(number)
        assert demand
        assert source
        if number.isdigit():
            assert demand == CHECKLIST[int(number)]


def test_every_judged_requirement_has_a_source() -> None:
    for it in REQUIREMENTS:
        is_judged = it.level is not RequirementLevel.RECORDED
        for protocol in it.versions:
            assert bool(find_sources(it.numbers, protocol)) is is_judged, it.name


def test_sources_have_an_address_and_a_revision() -> None:
    named = {name for names in SOURCES.values() for name in names.split(", ")}
    without = {
        it.name
        for number in NUMBERS
        for it in find_sources((number,), 1)
        if not (it.address.startswith("https://") and it.revision)
    }
    assert without == named & {"JSON-RPC 2.0", "Rekindle's own", "proposal #1321"}


def test_sources_of_the_other_version_are_left_out() -> None:
    (v1,), (v2,) = find_sources(("E4",), 1), find_sources(("E4",), 2)
    assert (v1.name, v2.name) == ("v1/authentication", "v2/authentication")
    (only,) = find_sources(("E12",), 2)
    assert only.name == "v1/prompt-turn"


@pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "")
def test_revision_is_that_of_the_installed_schema() -> None:
    package = json.loads((SDK / "package.json").read_text(encoding="utf-8"))
    assert f"{package['name']} {package['version']}" == SCHEMA_REVISION
    types = {
        name
        for version in ("v1", "v2")
        for file in FILES
        for name in json.loads((SDK / "schema" / version / file).read_text("utf-8"))["$defs"]
    }
    named = {it.partition(": ")[2] for names in SOURCES.values() for it in names.split(", ")}
    assert named - {""} <= types


# -- acp-tck ----------------------------------------------------------------------------


def test_document_has_every_id_of_acp_tck() -> None:
    table = DOCUMENT.partition("## The ids of acp-tck")[2]
    rows = dict(re.findall(r"^\| ([A-Z-]+-\d+) \| (.*) \|$", table, re.MULTILINE))
    judged = {it: ", ".join(f"`{name}`" for name in names.split()) for it, names in TCK.items()}
    reasons = {it: f"not judged: {reason}" for it, reason in TCK_NOT_JUDGED.items()}
    assert rows == judged | reasons
    assert TCK.keys().isdisjoint(TCK_NOT_JUDGED)


def test_ids_of_acp_tck_name_known_requirements() -> None:
    known = {it.name for it in REQUIREMENTS}
    assert {name for names in TCK.values() for name in names.split()} <= known
    assert tck_ids("replay.answer") == ("ACP-LOAD-002", "ACP-RESUME-202")


def test_every_id_of_acp_tck_is_known() -> None:
    """The ids of its registries for versions 1 and 2."""
    areas = {
        "TRANSPORT": "1 2 201 203", "JSONRPC": "1 2 3 4 5", "INIT": "1 2 3 4 201 202 203 204",
        "SCHEMA": "1 2", "SESSION": "1 2 203", "PROMPT": "1 2 3 201 203 205",
        "PROMPTCAP": "1 2 3", "STATE": "201 202 203", "PERM": "201",
        "CANCEL": "1 2 201 202 203 204 205 206 207 208", "LOAD": "1 2 3",
        "RESUME": "1 2 201 202 203 204 205", "LIST": "1 2 201 202 203 204",
        "CLOSE": "1 2 201 202", "DELETE": "1 2 201 202 203", "ADDDIRS": "1 201 202",
        "MODES": "1 2", "CONFIG": "1 2 3 201 202 203 204 206",
        "AUTH": "1 2 3 4 5 201 202 203 204 205 206 207", "CLIENTCAP": "1 2 3 201 202",
        "PATCH": "201 203 204 205 206 207 208 209", "ENUM": "201 202 203",
        "BATCH": "201 202 203 204 205 206 207 208", "EXT": "1 201 202 203", "META": "1 201",
        "ERROR": "1", "SHUTDOWN": "1", "STDERR": "1", "MCP": "201 202", "INFO-PARSE": "1",
        "INFO-INVALIDREQ": "1", "INFO-UNKNOWNSESSION": "1", "INFO-CONCURRENT": "201",
        "INFO-CANCEL": "201 202", "INFO-BATCH": "201 202",
    }  # fmt: skip
    ids = {f"{area}-{int(it):03}" for area, numbers in areas.items() for it in numbers.split()}
    assert TCK.keys() | TCK_NOT_JUDGED.keys() == ids


def test_every_scenario_is_implemented_and_names_are_unique() -> None:
    assert [*IMPLEMENTED, "wire"] == list(SCENARIOS)
    assert len({it.name for it in REQUIREMENTS}) == len(REQUIREMENTS)
