"""The wheel and the source distribution, as they are published. The tests build them."""

import os
import subprocess
import sys
import tarfile
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

import built_package
import rekindle
from stdio_client import Client

ROOT = Path(__file__).parents[1]
LOAD_EVERY_COMMAND = """
from rekindle.cli.main import COMMANDS, load_command
for name in COMMANDS:
    load_command(name)
import rekindle
print(rekindle.__file__)
"""


def run(*command: str | Path) -> str:
    """Run a command that succeeds; return its output."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_installed_wheel_runs_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel,) = built_package.build(tmp_path / "dist").glob("*.whl")
    with ZipFile(wheel) as files:
        top = {name.split("/")[0] for name in files.namelist()}
        meta = message_from_bytes(
            files.read(f"rekindle_acp-{rekindle.__version__}.dist-info/METADATA")
        )
    assert top == {"rekindle", f"rekindle_acp-{rekindle.__version__}.dist-info"}
    assert (meta["Name"], meta["Version"]) == ("rekindle-acp", rekindle.__version__)

    commands = built_package.install(wheel, tmp_path / "venv")
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("REKINDLE_STORE", str(tmp_path / "sessions.db"))
    monkeypatch.chdir(tmp_path)  # so that no module of this repository is found
    line = run(commands / "rekindle", "--version")
    assert line.startswith(f"rekindle {rekindle.__version__} (Python ")
    assert run(commands / "rekindle-acp", "--version") == line
    imported = run(commands / "python", "-c", LOAD_EVERY_COMMAND)
    assert Path(imported.strip()).is_relative_to(tmp_path / "venv")

    client = Client(commands / "rekindle", "run", "--", "rekindle", "example-agent")
    try:
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = client.new(str(tmp_path))
        assert "hello" in client.reply(session, "hello")
    finally:
        client.close()
    assert session in run(commands / "rekindle", "list", "--json")


@pytest.mark.slow
def test_source_distribution_has_what_its_tests_need(tmp_path: Path) -> None:
    (sdist,) = built_package.build(tmp_path, "--sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        files.extractall(tmp_path, filter="data")
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    if (ROOT / ".git").exists():
        listing = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
        packed = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert packed - {"PKG-INFO"} == set(listing.splitlines())
    # The modules are those of the source distribution, not those of this repository.
    environ = os.environ | {"PYTHONPATH": str(folder / "src"), "REKINDLE_TESTS": ""}
    # Tests that read many of the other files.
    names = ("packaging", "workflows", "structure", "mirror", "security", "public_api")
    tests = ["tests/fixtures", *(f"tests/test_{name}.py" for name in names)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
