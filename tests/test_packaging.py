"""The package's metadata, its pins, and the files for its publication agree with each other."""

import json
import re
import runpy
import sys
import tomllib
from importlib.metadata import entry_points, metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import rekindle

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
ADDRESS: str = PROJECT["urls"]["Homepage"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", CONSTRAINTS, re.MULTILINE))
MAKE_CONSTRAINTS = runpy.run_path(str(ROOT / "packaging" / "make_constraints.py"))
ENTRIES = sorted((ROOT / "packaging" / "registry").iterdir())


def test_installed_package_has_the_name_the_commands_and_the_addresses() -> None:
    installed = metadata("rekindle-acp")
    addresses = dict(line.split(", ") for line in installed.get_all("Project-URL") or [])
    assert addresses.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(address.startswith(ADDRESS) for address in addresses.values())
    commands = {
        point.name: point.value
        for point in entry_points(group="console_scripts")
        if point.dist is not None and point.dist.name == "rekindle-acp"
    }
    main = "rekindle.__main__:main"
    assert commands == {"rekindle": main, "rekindle-acp": main}


def test_version_is_in_one_place() -> None:
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]
    place = ROOT / PYPROJECT["tool"]["hatch"]["version"]["path"]
    quoted = f'"{rekindle.__version__}"'
    files = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    assert [path for path in files if quoted in path.read_text(encoding="utf-8")] == [place]


def test_readme_of_the_package_has_no_relative_links() -> None:
    text = metadata("rekindle-acp").get_payload()
    assert isinstance(text, str)
    targets = re.findall(r'\]\(([^)]+)\)|(?:src|href)="([^"]+)"', text)
    assert len(targets) > 3
    assert [pair for pair in targets if not re.match(r"https?:|#", pair[0] or pair[1])] == []


def test_every_dependency_is_pinned() -> None:
    groups = PYPROJECT["dependency-groups"]
    assert groups.keys() > MAKE_CONSTRAINTS["UNPINNED_GROUPS"]
    needed = [
        *PROJECT["dependencies"],
        *(item for extra in PROJECT["optional-dependencies"].values() for item in extra),
        *(
            item
            for name, group in groups.items()
            if name not in MAKE_CONSTRAINTS["UNPINNED_GROUPS"]
            for item in group
            if isinstance(item, str)  # not the name of another group
        ),
        *PYPROJECT["build-system"]["requires"],
        MAKE_CONSTRAINTS["INSTALLER"],
    ]
    found = [re.match(r"[\w.-]+", item) for item in needed]
    names = {MAKE_CONSTRAINTS["normalised"](name[0]) for name in found if name}
    assert len(names) > 15
    assert names - PINS.keys() == set(), "run `make constraints`"


def test_constraints_are_names_and_versions_only() -> None:
    comment, *lines = CONSTRAINTS.splitlines()
    assert comment.startswith("# ")
    assert lines == [f"{name}=={version}" for name, version in sorted(PINS.items())]


def test_constraints_are_resolved_for_the_lowest_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert MAKE_CONSTRAINTS["main"]() == 1
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert f"make constraints PYTHON=python{lowest}" in capsys.readouterr().err


def test_every_document_and_module_uses_the_same_address_of_the_project() -> None:
    folders = (".github", "docs", "packaging", "src", "interop", "examples")
    files = [path for name in folders for path in (ROOT / name).rglob("*.*")]
    found = {
        match
        for path in [*ROOT.glob("*.*"), *files]
        if path.suffix in {".md", ".py", ".toml", ".json", ".yml", ".yaml"}
        for match in re.findall(
            r"https://github\.com/[\w.-]+/rekindle\b", path.read_text(encoding="utf-8")
        )
    }
    assert found == {ADDRESS}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_registry_entry_agrees_with_the_package(entry: Path) -> None:
    agent = json.loads((entry / "agent.json").read_text(encoding="utf-8"))
    allowed = {"id", "name", "version", "description", "repository", "website", "authors",
               "license", "license_url", "distribution"}  # fmt: skip
    assert allowed >= agent.keys() >= {"id", "name", "version", "description", "distribution"}
    assert agent["id"] == entry.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", agent["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", agent["version"])
    assert agent["version"] == rekindle.__version__
    assert agent["repository"] == PROJECT["urls"]["Source"]
    assert agent["website"] == PROJECT["urls"]["Documentation"]
    assert agent["license"] == PROJECT["license"]
    assert agent["distribution"].keys() == {"uvx"}
    launch = agent["distribution"]["uvx"]
    assert launch["package"] == f"{PROJECT['name']}=={rekindle.__version__}"
    # `uvx PACKAGE ARGS` runs the command that has the name of the package.
    assert PROJECT["name"] in PROJECT["scripts"]
    assert launch["args"][:2] == ["run", "--"]
    assert len(launch["args"]) > 2


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_registry_icon_is_square_and_has_one_colour(entry: Path) -> None:
    root = ET.parse(entry / "icon.svg").getroot()  # noqa: S314 - our own file
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {item.get(name) for item in root.iter() for name in ("fill", "stroke")}
    assert colours <= {None, "none", "currentColor"}
    assert "currentColor" in colours


def test_entry_of_the_clients_list_is_one_line() -> None:
    text = (ROOT / "packaging" / "clients-entry.md").read_text(encoding="utf-8")
    assert text.startswith(f"- [Rekindle]({ADDRESS}) — ")
    assert text.count("\n") == 1
    assert f"uvx {PROJECT['name']}" in text


@pytest.mark.parametrize("name", ["SECURITY.md", "packaging/README.md"])
def test_links_lead_to_files(name: str) -> None:
    page = ROOT / name
    targets = re.findall(r"\]\((?!https:)([^)#]+)", page.read_text(encoding="utf-8"))
    named = re.findall(r"^\| `([^`]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert targets or named
    assert [it for it in [*targets, *named] if not (page.parent / it).exists()] == []


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return a folder with the files that a release needs, for version 1.2.3."""
    (tmp_path / "src" / "rekindle").mkdir(parents=True)
    (tmp_path / "src" / "rekindle" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2030-01-02\n\n### Added\n\n- A thing.\n\n"
        "## 1.2.2 - 2030-01-01\n\n- Another.\n"
    )
    return tmp_path


def check_release(tag: str, root: Path) -> tuple[str, str]:
    """Return the problem with a release, and its notes."""
    result: tuple[str, str] = runpy.run_path(str(ROOT / "packaging" / "check_release.py"))["check"](
        tag, root
    )
    return result


def test_notes_of_a_release_are_its_section_of_the_changelog(release: Path) -> None:
    assert check_release("v1.2.3", release) == ("", "### Added\n\n- A thing.")


def test_tag_of_another_version_is_not_released(release: Path) -> None:
    problem, _ = check_release("v1.2.4", release)
    assert "v1.2.4" in problem
    assert "1.2.3" in problem


def test_version_without_notes_is_not_released(release: Path) -> None:
    (release / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- A thing.\n")
    problem, _ = check_release("v1.2.3", release)
    assert "CHANGELOG.md" in problem


def test_version_of_the_package_is_found_in_its_source() -> None:
    problem, _ = check_release("v0.0.0", ROOT)
    assert repr(rekindle.__version__) in problem
