"""Importers of installed packages: found by `rekindle import`, and harmless if they are broken.

Each test installs a small distribution into a folder on `sys.path` of a real `rekindle` process.
"""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import claude_files
from command_runs import Done, run
from rekindle.importers.registry import BUILT_IN_NAMES, GROUP, load_importer
from stdio_client import EXAMPLE_AGENT

DOCUMENT = (Path(__file__).parents[2] / "docs" / "how-to" / "write-an-importer.md").read_text(
    encoding="utf-8"
)
LINES = [
    {"type": "asked", "time": "2025-10-09T00:00:01Z", "cwd": "/home/user", "text": "One"},
    {"type": "answered", "text": "1"},
]
REMEDY = "update or uninstall bad-package"


def example(language: str) -> str:
    """Return the example in the documentation that is written in a language."""
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    return found[1]


class Site:
    """A folder with installed packages, and the home of a user who has sessions of two tools."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "site"
        self.home = folder / "home"
        self.store = folder / "store"
        self.path.mkdir()
        sessions = self.home / ".mytool" / "sessions"
        sessions.mkdir(parents=True)
        self.session = sessions / "s1.mytool"
        self.session.write_text("\n".join(map(json.dumps, LINES)) + "\n")
        claude = claude_files.ClaudeFile()
        claude.turn(1)
        self.claude_session = claude.write(self.home)

    def install(self, package: str, modules: dict[str, str], entry_points: dict[str, str]) -> None:
        """Write a distribution as an installer would, with entry points for importers."""
        for module, source in modules.items():
            (self.path / f"{module}.py").write_text(source)
        info = self.path / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        points = [f"{name} = {value}\n" for name, value in entry_points.items()]
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(points)}")

    def install_example(self, package: str = "rekindle-mytool", name: str = "mytool") -> None:
        """Install the importer that the documentation shows."""
        self.install(
            package, {"rekindle_mytool": example("python")}, {name: "rekindle_mytool:IMPORTER"}
        )

    def rekindle(self, *arguments: str | Path) -> Done:
        """Run a command that sees the installed packages."""
        return run(*arguments, PYTHONPATH=str(self.path), **self.environment)

    @property
    def environment(self) -> dict[str, str]:
        names = (
            "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_DB", "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
        )  # fmt: skip
        return {"HOME": str(self.home)} | dict.fromkeys(names, "")

    def imports(self, source: str | Path) -> Done:
        return self.rekindle("import", "--store", self.store, source)

    @property
    def imported(self) -> set[str]:
        """The ids of the sessions in the store."""
        done = self.rekindle("list", "--store", self.store, "--json")
        return {session["id"] for session in json.loads(done.stdout)}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_pyproject_example_names_the_example_importer() -> None:
    project = tomllib.loads(example("toml"))
    points = project["project"]["entry-points"][GROUP]
    assert points == {"mytool": "rekindle_mytool:IMPORTER"}
    assert project["tool"]["setuptools"]["py-modules"] == ["rekindle_mytool"]


def test_importer_of_a_package_is_found_by_name(site: Site) -> None:
    site.install_example()
    done = site.imports("mytool")
    assert done.returncode == 0
    assert "My Tool: 1 session: 1 new" in done.stderr
    assert site.imported == {"s1"}
    assert "1 unchanged" in site.imports("mytool").stderr


def test_importer_of_a_package_is_part_of_all(site: Site) -> None:
    site.install_example()
    done = site.imports("all")
    assert done.returncode == 0
    assert site.imported == {"s1", claude_files.SESSION}


@pytest.mark.parametrize("pick", [lambda site: site.session, lambda site: site.session.parent])
def test_importer_of_a_package_recognises_its_files(
    site: Site, pick: Callable[[Site], Path]
) -> None:
    site.install_example()
    done = site.imports(pick(site))
    assert (done.returncode, site.imported) == (0, {"s1"})


def test_without_the_package_its_name_is_unknown(site: Site) -> None:
    done = site.imports("mytool")
    assert done.returncode == 1
    assert "no tool of that name" in done.stderr


BROKEN = {
    "missing dependency": ("import no_such_module", "ModuleNotFoundError: No module named"),
    "syntax error": ("def", "SyntaxError"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "no importer": ("", "AttributeError"),
    "wrong type": ("IMPORTER = 'claude'", "is not a ToolImporter"),
    "wrong name": (
        example("python").replace('name="mytool", title', 'name="other", title'),
        "calls itself 'other'",
    ),
    "folders fail": (
        example("python") + "\ndef fail(*_):\n    raise KeyError('home')\n"
        "from msgspec.structs import replace\nIMPORTER = replace(IMPORTER, folders=fail)\n",
        "KeyError: 'home'",
    ),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("source", "reason"), BROKEN.values(), ids=BROKEN)
def test_broken_package_is_named_and_does_not_stop_the_others(
    site: Site, source: str, reason: str
) -> None:
    site.install("bad-package", {"bad_module": source}, {"mytool": "bad_module:IMPORTER"})
    done = site.imports("all")
    assert done.returncode == 1
    assert "the importer 'mytool' of the package bad-package" in done.stderr
    assert reason in done.stderr
    assert REMEDY in done.stderr
    assert "Claude Code: 1 session: 1 new" in done.stderr


def test_other_importers_do_not_depend_on_a_broken_package(site: Site) -> None:
    site.install("bad-package", {}, {"mytool": "bad_module:IMPORTER"})
    assert site.imports(site.claude_session).returncode == 0
    done = site.imports("claude")
    assert (done.returncode, "bad-package" in done.stderr) == (0, False)


def test_broken_package_is_an_error_if_it_is_asked_for(site: Site) -> None:
    site.install("bad-package", {}, {"mytool": "bad_module:IMPORTER"})
    done = site.imports("mytool")
    assert done.returncode == 1
    assert "No module named 'bad_module'" in done.stderr
    assert done.stderr.rstrip().endswith(REMEDY)


@pytest.mark.parametrize("function", ["find", "read", "entries"])
def test_importer_that_fails_later_does_not_stop_the_others(site: Site, function: str) -> None:
    source = re.sub(
        rf"(def {function}\(.*?:\n)", r"\1    raise KeyError('later')\n    yield\n",
        example("python"), count=1,
    )  # fmt: skip
    site.install("bad-package", {"bad_module": source}, {"mytool": "bad_module:IMPORTER"})
    done = site.imports("all")
    assert done.returncode == 1
    assert "of the package bad-package failed (KeyError: 'later')" in done.stderr
    assert REMEDY in done.stderr
    assert "a bug in Rekindle" not in done.stderr
    assert "Claude Code: 1 session: 1 new" in done.stderr


@pytest.mark.parametrize("name", ["claude", "all"])
def test_built_in_name_wins_over_a_package(site: Site, name: str) -> None:
    site.install_example("greedy-package", name)
    done = site.imports(name)
    assert done.returncode == 0
    assert f"the importer '{name}' of the package greedy-package is ignored" in done.stderr
    assert "uninstall greedy-package" in done.stderr
    assert site.imported == {claude_files.SESSION}


def test_first_of_two_packages_with_the_same_name_is_used(site: Site) -> None:
    site.install_example("a-package")
    site.install("b-package", {}, {"mytool": "no_module:IMPORTER"})
    done = site.imports("mytool")
    assert done.returncode == 0
    assert "of the package b-package is ignored: a-package has the same name" in done.stderr
    assert site.imported == {"s1"}


def test_only_import_loads_packages(site: Site, tmp_path: Path) -> None:
    marker = tmp_path / "loaded"
    source = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n" + example("python")
    site.install(
        "rekindle-mytool", {"rekindle_mytool": source}, {"mytool": "rekindle_mytool:IMPORTER"}
    )
    site.rekindle("list", "--store", site.store)
    site.rekindle("run", "--store", site.store, "--", *EXAMPLE_AGENT)
    site.imports("claude")
    assert not marker.exists()
    site.imports("all")
    assert marker.exists()


@pytest.mark.parametrize("name", BUILT_IN_NAMES)
def test_built_in_importers_have_the_names_they_are_registered_by(name: str) -> None:
    assert load_importer(name).name == name
