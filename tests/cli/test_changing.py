"""`rekindle delete`, `undelete` and `relocate`, as a person uses them."""

import os
import subprocess
from pathlib import Path

import pytest

from acp import PATIENCE, REKINDLE
from rekindle.model import Deleted, Holder, Kind, Opened, Page, Side, Stretch
from rekindle.store.sqlite import SqliteStore

NOW = 1_700_000_000_000_000
SECRET = b"hunter2-hunter2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for number, folder in enumerate(("/old", "/old/sub", "/older")):
            name = f"ses_{number}"
            said = Stretch(
                session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=SECRET
            )
            store.write([Opened(session_id=name, at_us=NOW, cwd=folder), said])
    return path


def cli(command: str, path: Path, *arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [*REKINDLE, command, "--store", path, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def listed(path: Path) -> list[str]:
    with SqliteStore(path, create=False) as store:
        return sorted(session.id for session in store.sessions(Page()))


def folders(path: Path) -> list[str | None]:
    with SqliteStore(path, create=False) as store:
        return [store.session(f"ses_{number}").cwd for number in range(3)]


def test_a_deleted_session_can_be_brought_back(path: Path) -> None:
    assert cli("delete", path, "ses_1") == (0, "deleted ses_1: (no title)\n", "")
    assert listed(path) == ["ses_0", "ses_2"]
    _, shown, _ = cli("list", path, "--deleted")
    assert shown.startswith("ses_1\t")
    assert cli("undelete", path, "ses_1") == (0, "here again: ses_1: (no title)\n", "")
    assert listed(path) == ["ses_0", "ses_1", "ses_2"]


def test_what_is_purged_is_gone_down_to_the_bytes(path: Path) -> None:
    assert SECRET in path.read_bytes()
    for name in ("ses_0", "ses_1", "ses_2"):
        assert cli("delete", path, name, "--purge-now")[:2] == (0, f"purged {name}: (no title)\n")
    for file in path.parent.iterdir():
        assert file.is_dir() or SECRET not in file.read_bytes()
    code, _, complaint = cli("undelete", path, "ses_0")
    assert code == 1
    assert complaint == "rekindle: session ses_0 was purged: nothing is left to bring back\n"
    assert not cli("list", path, "--deleted")[1]


def test_a_session_in_use_is_not_taken_from_under_its_user(path: Path) -> None:
    with SqliteStore(path) as store:
        store.claim("ses_0", Holder(token="t", pid=os.getpid(), host="here"))  # noqa: S106
        for command, *rest in (("delete", "ses_0"), ("relocate", "ses_0", str(path.parent))):
            code, _, complaint = cli(command, path, *rest)
            assert code == 1
            assert f"is in use by process {os.getpid()} on here" in complaint
    assert listed(path) == ["ses_0", "ses_1", "ses_2"]


def test_a_moved_project_takes_its_session_along(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    code, _, complaint = cli("relocate", path, "ses_0", new)
    assert code == 2
    assert f"there is no folder {new}" in complaint
    new.mkdir()
    assert cli("relocate", path, "ses_0", new) == (0, f"ses_0: /old → {new}\n", "")
    assert folders(path) == [str(new), "/old/sub", "/older"]


def test_a_moved_project_takes_all_of_its_sessions_along(path: Path, tmp_path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([Deleted(session_id="ses_2", at_us=NOW)])
    code, shown, _ = cli("relocate", path, "--all", "/old", tmp_path)
    assert code == 0
    assert sorted(shown.splitlines()) == [
        f"ses_0: /old → {tmp_path}",
        f"ses_1: /old/sub → {tmp_path}/sub",
    ]
    assert folders(path) == [str(tmp_path), f"{tmp_path}/sub", "/older"]
    _, shown, _ = cli("relocate", path, "--all", "/nowhere", tmp_path)
    assert shown == "no session belongs to /nowhere\n"


@pytest.mark.parametrize("command", ["delete", "undelete"])
def test_what_is_not_there_is_said_to_be(tmp_path: Path, path: Path, command: str) -> None:
    code, _, complaint = cli(command, tmp_path / "none.db", "x")
    assert (code, complaint) == (1, f"rekindle: there is no store at {tmp_path}/none.db\n")
    code, _, complaint = cli(command, path, "nobody")
    assert code == 1
    assert complaint.startswith("rekindle: no session 'nobody' in this store")
