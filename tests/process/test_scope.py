"""A scope of its own where systemd manages the user's processes: `busctl` is a stand-in here."""

from pathlib import Path

import pytest

from rekindle.process import scope
from rekindle.process.scope import move_to_own_scope


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the stand-in: systemd has a socket, and `busctl` prints its words."""
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, script: str) -> None:
    busctl = folder / "busctl"
    busctl.write_text(f"#!/bin/sh\n{script}\n")
    busctl.chmod(0o700)


def test_systemd_is_called_with_the_processes(folder: Path) -> None:
    install(folder, f'printf "%s\\n" "$@" > {folder}/words')
    assert move_to_own_scope("rekindle-5", [5, 6]) is None
    words = (folder / "words").read_text().splitlines()
    assert words[-9:] == ["rekindle-5.scope", "fail", "1", "PIDs", "au", "2", "5", "6", "0"]
    assert words[:2] == ["--user", "call"]
    assert words[5:7] == ["StartTransientUnit", "ssa(sv)a(sa(sv))"]


@pytest.mark.parametrize(
    ("script", "problem"), [("echo refused >&2; exit 1", "refused"), ("exit 3", "exit code 3")]
)
def test_a_refusal_is_returned(folder: Path, script: str, problem: str) -> None:
    install(folder, script)
    assert move_to_own_scope("rekindle-5", [5]) == problem


def test_a_systemd_that_does_not_answer_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder, "exec /usr/bin/tail -f /dev/null")
    monkeypatch.setattr(scope, "_TIMEOUT", 0.05)
    assert "timed out" in (move_to_own_scope("rekindle-5", [5]) or "")


def test_without_a_systemd_of_the_user_nothing_happens(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert move_to_own_scope("rekindle-5", [5]) is None
    install(folder, "exit 1")
    (folder / "systemd" / "private").unlink()
    assert move_to_own_scope("rekindle-5", [5]) is None
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert move_to_own_scope("rekindle-5", [5]) is None
