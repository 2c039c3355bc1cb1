"""The workflows of GitHub, dependabot, and `.ci/run` fit the project."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDER = ROOT / ".github" / "workflows"
PYTHONS = [
    item.rpartition(" ")[2]
    for item in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", item)
]
ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHON": sys.executable}
"""An environment without the settings of the `make` that runs the tests."""

Json = dict[str, Any]


def read(path: Path) -> Json:
    content: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def commands(job: Json) -> list[str]:
    """Return the shell commands of a job."""
    return [step["run"] for step in job["steps"] if "run" in step]


def action(job: Json, name: str) -> Json:
    """Return the settings of the only step of a job that uses an action."""
    (step,) = (step for step in job["steps"] if step.get("uses", "").startswith(f"{name}@"))
    settings: Json = step.get("with", {})
    return settings


TESTS = read(FOLDER / "test.yml")
RELEASE = read(FOLDER / "release.yml")


def test_matrix_has_the_supported_systems_and_pythons() -> None:
    matrix = TESTS["jobs"]["test"]["strategy"]["matrix"]
    assert PYTHONS[0] == PROJECT["requires-python"].removeprefix(">=")
    assert matrix == {"os": ["ubuntu-latest", "macos-latest"], "python": PYTHONS}
    assert commands(TESTS["jobs"]["test"]) == ["make test PYTHON=python"]
    script = (ROOT / "tests" / "every_python.sh").read_text(encoding="utf-8")
    assert f"for version in {' '.join(PYTHONS)}; do" in script


def test_style_coverage_and_the_complete_run_are_checked() -> None:
    assert TESTS["jobs"].keys() == {"test", "check", "everything", "newest"}
    assert commands(TESTS["jobs"]["check"]) == [
        "make coverage PYTHON=python",
        "make check PYTHON=python",
    ]
    clone, run = (step for step in TESTS["jobs"]["everything"]["steps"] if "run" in step)
    assert clone["run"] == 'git clone --no-local . "$RUNNER_TEMP/clone"'
    assert (run["run"], run["working-directory"]) == (".ci/run", "${{ runner.temp }}/clone")


def test_release_publishes_the_files_that_it_built_once() -> None:
    jobs = RELEASE["jobs"]
    assert jobs.keys() == {"test", "build", "publish", "announce"}
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in TESTS[True]  # YAML reads the key `on` as a truth value
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}
    assert [name for name, job in jobs.items() if "make build" in str(job)] == ["build"]
    built = action(jobs["build"], "actions/upload-artifact")
    for name in ("publish", "announce"):
        fetched = action(jobs[name], "actions/download-artifact")
        assert (fetched["name"], fetched["path"]) == (built["name"], built["path"])
    assert set(jobs["publish"]["needs"]) == {"test", "build"}
    assert jobs["announce"]["needs"] == "publish"


def test_only_the_publishing_job_may_ask_for_an_identity() -> None:
    publish = RELEASE["jobs"]["publish"]
    assert publish["environment"] == "release"
    assert publish["permissions"] == {"id-token": "write"}
    assert commands(publish) == []
    # No password, and no address of an index: trusted publishing needs neither.
    assert action(publish, "pypa/gh-action-pypi-publish") == {}
    for workflow in (TESTS, RELEASE):
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            assert name == "publish" or "id-token" not in job.get("permissions", {})
    assert "secrets." not in (FOLDER / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"^ *-? *uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    foreign = [item for item in used if not item.startswith("./")]
    assert foreign
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [item for item in foreign if not pinned.fullmatch(item)] == []


def test_every_job_has_a_time_limit_and_keeps_no_credentials() -> None:
    jobs = [*TESTS["jobs"].values(), *RELEASE["jobs"].values()]
    own = [job for job in jobs if "uses" not in job]
    assert [job["name"] for job in own if not 0 < job["timeout-minutes"] <= 90] == []
    checkouts = [
        step
        for job in own
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert len(checkouts) == len(own) - 1  # publishing needs no source
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_dependabot_watches_actions_python_and_the_sdk() -> None:
    settings = read(ROOT / ".github" / "dependabot.yml")
    assert settings["version"] == 2
    watched = {item["package-ecosystem"]: item["directory"] for item in settings["updates"]}
    assert watched == {"github-actions": "/", "pip": "/", "npm": "/tests/sdk"}
    assert (ROOT / watched["npm"].lstrip("/") / "package.json").is_file()


def test_make_setup_installs_the_pinned_versions() -> None:
    def installing(*words: str) -> list[str]:
        command = ["make", "--dry-run", "--always-make", "setup", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=ENVIRON, capture_output=True, text=True, check=True
        )
        joined = done.stdout.replace("\\\n", " ")
        return [line for line in joined.splitlines() if " pip install " in line]

    pinned = installing("CONSTRAINTS=constraints.txt")
    assert len(pinned) == 2
    assert all("--constraint constraints.txt" in line for line in pinned)
    assert "--build-constraint constraints.txt" in pinned[-1]
    assert not any("constraint" in line for line in installing("CONSTRAINTS="))


def test_ci_run_finds_all_it_needs_in_a_fresh_clone(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    clone = tmp_path / "clone"
    # A shared clone has no copies of the objects, and a dry run starts no command.
    command = ["git", "clone", "--quiet", "--shared", ROOT, clone]
    subprocess.run(command, check=True)
    environ = ENVIRON | {"MAKEFLAGS": "--dry-run"}
    done = subprocess.run(
        [clone / ".ci" / "run"], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("-m venv .venv", "npm install", "-m pytest", "coverage report", "/pyright"):
        assert part in done.stdout
    assert not (clone / ".venv").exists()
