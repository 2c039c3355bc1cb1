"""PendingFile changes in the output of commands."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import warm_start
from rekindle.composition import open_store
from rekindle.model import Counted, EntryBatch, Kind, Opened, Side
from rekindle.store.sqlite.files import pending_files
from rekindle.store.sqlite.pending import MAGIC, PendingFile
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

NOW = 1_700_000_000_000_000
LINE = b'{"said":"the word is xyzzy"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store" / "s.db"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=NOW, cwd="/p"), said("ses_1", b"{}")])
        store.write([Counted(session_id="ses_1", at_us=NOW, turns=1)])
    return path


def said(session: str, line: bytes) -> EntryBatch:
    return EntryBatch(session_id=session, side=Side.AGENT, kind=Kind.UPDATE, at_us=NOW, data=line)


def waiting(path: Path, session: str = "ses_1") -> PendingFile:
    made = PendingFile(path)
    made.add([said(session, LINE), said(session, LINE)])
    return made


def rekindle(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = warm_start.run(
        [*REKINDLE, *arguments, "--store", path],
        env={**os.environ, "HOME": str(path.parent.parent)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def findings(path: Path, *arguments: str) -> list[tuple[str, str]]:
    found = json.loads(rekindle(path, "doctor", "--json", *arguments).stdout)["findings"]
    return [(item["level"], item["what"]) for item in found if item["check"] == "pending"]


def count(path: Path) -> int:
    with SqliteStore(path, create=False) as store:
        return store.session("ses_1").last_seq


def holding(path: Path, word: bytes) -> list[str]:
    return [
        item.name for item in path.parent.rglob("*") if item.is_file() and word in item.read_bytes()
    ]


def test_doctor_reports_pending_changes_of_live_and_dead_processes(path: Path) -> None:
    assert findings(path) == []
    living, dead = waiting(path), waiting(path)
    dead.leave()
    reports = {
        ("warning", f"a running Rekindle cannot write to the store; {living.path} has 2 entries"),
        ("warning", f"{dead.path} of an ended process has 2 entries not recorded yet"),
    }
    assert set(findings(path)) == reports
    assert count(path) == 1
    assert sorted(level for level, _ in findings(path, "--fix")) == ["fixed", "warning"]
    assert count(path) == 3
    assert pending_files(path) == [living.path]
    living.leave()
    assert [level for level, _ in findings(path, "--fix")] == ["fixed"]
    assert count(path) == 5
    assert findings(path) == []


def test_doctor_checks_that_pending_files_are_private(path: Path) -> None:
    made = waiting(path)
    made.path.chmod(0o644)
    assert str(made.path) in rekindle(path, "doctor").stdout
    rekindle(path, "doctor", "--fix")
    assert made.path.stat().st_mode & 0o777 == 0o600
    made.remove()


def test_unreadable_pending_file_is_reported_and_kept(path: Path) -> None:
    file = path.with_name("s.db.pending-x")
    file.write_bytes(b"rekindle pending 9\nof another time")
    ((level, what),) = findings(path, "--fix")
    assert (level, str(file) in what) == ("problem", True)
    assert file.exists()


def test_pending_changes_stay_if_the_store_is_read_only(path: Path) -> None:
    waiting(path).leave()
    path.rename(path.with_name("elsewhere.db"))
    path.mkdir()
    done = rekindle(path, "doctor", "--fix", "--json")
    found = [row for row in json.loads(done.stdout)["findings"] if row["check"] == "pending"]
    assert found[0]["remedy"].startswith("the repair failed: ")
    assert len(pending_files(path)) == 1


def test_reading_commands_report_pending_changes(path: Path) -> None:
    made = waiting(path)
    assert rekindle(path, "list").stderr == ""
    made.leave()
    done = rekindle(path, "list")
    assert f"{made.path} contains changes that the store does not have yet" in done.stderr
    assert count(path) == 1


def test_purge_includes_pending_changes(path: Path) -> None:
    waiting(path).leave()
    assert holding(path, b"xyzzy")
    done = rekindle(path, "delete", "ses_1", "--now", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert holding(path, b"xyzzy") == []


def test_pending_changes_of_a_live_process_are_reported_after_a_purge(path: Path) -> None:
    made, other = waiting(path), waiting(path, "ses_2")
    done = rekindle(path, "delete", "ses_1", "--now", "--yes")
    assert done.returncode == 1
    assert f"{made.path} still contains text of a purged session" in done.stderr
    assert str(other.path) not in done.stderr
    with SqliteStore(path) as store:
        store.apply_pending(made.token, made.changes())
        assert store.session("ses_1").is_purged
    made.remove()
    other.remove()
    assert holding(path, b"xyzzy") == []


def test_damaged_pending_change_is_kept_and_reported(path: Path) -> None:
    dead = waiting(path)
    dead.add([said("ses_1", LINE), said("ses_1", LINE)])
    dead.leave()
    content = bytearray(dead.path.read_bytes())
    # Damage the length of the first change, which gives the start of the next one.
    content[len(MAGIC)] ^= 1
    dead.path.write_bytes(content)
    reports: list[str] = []
    open_store(path, create=True, report=reports.append).close()
    kept = dead.path.with_name(dead.path.name + ".damaged")
    assert count(path) == 1 + 3
    assert pending_files(path) == [kept]
    assert reports == [f"some pending changes could not be recorded: {kept} is damaged in 1 place"]
    for words in ((), ("--fix",)):
        what = (
            f"the pending file {kept} was damaged; its readable entries are recorded, the"
            " others are not"
        )
        assert findings(path, *words) == [("warning", what)]
    assert count(path) == 1 + 3
    assert rekindle(path, "list").stderr == ""
    done = rekindle(path, "delete", "ses_1", "--now", "--yes")
    assert (done.returncode, str(kept) in done.stderr) == (1, True)
