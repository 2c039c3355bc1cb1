"""`rekindle doctor`: its findings in real stores, healthy and damaged, and its repairs."""

import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import warm_start
from pty_terminal import Terminal
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.model import Archived, Deleted, EntryBatch, Kind, LeaseHolder, Opened, Side
from rekindle.store.sqlite.schema import MIGRATIONS
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client
from store_damage import overwrite
from store_states import kept_by_another

NOW = 1_700_000_000_000_000
HERE = os.uname().nodename


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=NOW, cwd="/p"), said("ses_1", b"1")])
    return path


def said(session: str, line: bytes) -> EntryBatch:
    return EntryBatch(session_id=session, side=Side.AGENT, kind=Kind.UPDATE, at_us=NOW, data=line)


def doctor(home: Path, *arguments: str | Path, **variables: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and for each check its worst finding.

    Helpers of agents are left out: any process of the machine may be one.
    """
    done = run(home, "--json", *arguments, **variables)
    assert done.stderr == ""
    output = json.loads(done.stdout)
    assert output["ok"] is (done.returncode == 0)
    order = ["ok", "fixed", "warning", "problem"]
    findings = sorted(output["findings"], key=lambda it: order.index(it["level"]))
    worst = {finding["check"]: finding for finding in findings if finding["check"] != "helper"}
    return done.returncode, worst


def run(home: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return rekindle(home, "doctor", *arguments, **variables)


def rekindle(
    home: Path, *arguments: str | Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    done = warm_start.run(
        [*REKINDLE, *arguments],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"} | variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def change(path: Path, sql: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(sql)


def test_healthy_store_has_no_problems(home: Path, path: Path) -> None:
    before = path.read_bytes()
    code, found = doctor(home, "--store", path)
    assert code == 0
    assert {value["level"] for value in found.values()} == {"ok"}
    assert found["store"]["what"] == str(path)
    assert found["schema"]["facts"] == {"schema": len(MIGRATIONS), "newest": len(MIGRATIONS)}
    assert found["sqlite"]["what"] == apsw.sqlite_lib_version()
    assert found["sessions"]["facts"]["sessions"] == 1
    assert found["integrity"]["what"].startswith("intact (quick")
    assert found["live"]["what"] == "no session is in use"
    assert found["size"]["facts"]["bytes"] == path.stat().st_size
    found = doctor(home, "--store", path, "--full")[1]
    assert found["integrity"]["what"].startswith("intact (full")
    assert path.read_bytes() == before


def test_plain_output_has_one_line_per_finding(home: Path, path: Path) -> None:
    done = run(home, "--store", path)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert {len(words) for words in lines} == {4}
    assert lines[0] == ["ok", "store", str(path), ""]


def test_purged_sessions_are_counted_once(home: Path, path: Path) -> None:
    states = ("kept", "archived", "deleted", "archived and deleted", "purged")
    with SqliteStore(path) as store:
        for id_ in states:
            store.write([Opened(session_id=id_, at_us=NOW, cwd="/p")])
        for id_ in ("archived", "archived and deleted"):
            store.write([Archived(session_id=id_, at_us=NOW)])
        for id_ in ("deleted", "archived and deleted", "purged"):
            store.write([Deleted(session_id=id_, at_us=NOW)])
        store.purge("purged")
    found = doctor(home, "--store", path)[1]["sessions"]
    assert found["facts"] == {"sessions": 3, "archived": 1, "deleted": 2}
    assert found["what"] == "3 (1 archived, 2 deleted)"


def test_missing_default_store_is_not_a_problem(home: Path, tmp_path: Path) -> None:
    code, found = doctor(home)
    assert code == 0
    assert found["store"]["what"].startswith("nothing is recorded yet")
    assert list(home.iterdir()) == []
    code, found = doctor(home, "--store", tmp_path / "none.db")
    assert code == 1
    assert found["store"]["what"] == f"there is no store at {tmp_path}/none.db"


def test_readable_files_are_made_private(home: Path, path: Path) -> None:
    (path.parent / "s.db.live").mkdir(exist_ok=True)
    (path.parent / "s.db.live").chmod(0o755)
    path.chmod(0o644)
    code, found = doctor(home, "--store", path)
    assert code == 1
    assert found["permissions"]["remedy"].startswith("chmod")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["permissions"]["level"]) == (0, "fixed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((path.parent / "s.db.live").stat().st_mode) == 0o700
    assert doctor(home, "--store", path)[1]["permissions"]["what"] == "private to you"


@pytest.mark.parametrize(
    ("damage", "check", "text"),
    [
        (f"pragma user_version = {len(MIGRATIONS) + 1}", "schema", "supports only up to"),
        ("pragma application_id = 5", "store", "not a Rekindle store"),
    ],
)
def test_unfixable_problems_are_reported_and_left_alone(
    home: Path, path: Path, damage: str, check: str, text: str
) -> None:
    change(path, f"create table later (x); {damage}")
    before = path.read_bytes()
    code, found = doctor(home, "--store", path, "--fix")
    assert code == 1
    assert text in found[check]["what"]
    assert found[check]["remedy"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("delete from session", "1 session is missing, but the entries exist"),
        ("update session set command = 'no JSON'", "1 session cannot be read: ses_1"),
        ("update session set id = cast(x'ff' as text)", "1 session cannot be read"),
    ],
)
def test_inconsistent_data_is_repaired(home: Path, path: Path, damage: str, text: str) -> None:
    change(path, damage)
    before = path.read_bytes()
    code, found = doctor(home, "--store", path)
    assert code == 1
    assert text in found["sessions"]["what"]
    assert found["sessions"]["remedy"].startswith("`rekindle doctor --fix`")
    assert path.read_bytes() == before
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["sessions"]["level"]) == (0, "fixed")
    assert "1 session and 1 entry were recovered" in found["sessions"]["remedy"]
    assert [item.read_bytes() for item in path.parent.glob("*.damaged-*Z")] == [before]
    code, found = doctor(home, "--store", path, "--full")
    assert (code, found["damage"]["level"]) == (0, "warning")
    assert found["sessions"]["facts"]["sessions"] == 1


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("update stretch set kind = 'nonsense'", "makes no sense"),
        ("update stretch set lines = 3", "does not have its 3 entries"),
        (
            "insert into stretch values ((1 << 32) + 9, 1, 'agent', 'update', 1, 1, 0, x'31')",
            "missing or there twice",
        ),
    ],
)
def test_deep_check_reads_all_entries(home: Path, path: Path, damage: str, text: str) -> None:
    change(path, damage)
    assert doctor(home, "--store", path)[0] == 0
    code, found = doctor(home, "--store", path, "--full")
    assert code == 1
    assert text in found["integrity"]["what"]


@pytest.mark.parametrize("table", ["stretch", "session", "lease"])
def test_fix_rescues_readable_entries_of_a_damaged_store(
    home: Path, path: Path, table: str
) -> None:
    with SqliteStore(path) as store:
        store.acquire_lease("ses_1", LeaseHolder(token="t", pid=1, machine=HERE))  # noqa: S106
    change(path, "pragma journal_mode = delete")
    overwrite(path, table)
    before = path.read_bytes()
    code, found = doctor(home, "--store", path)
    assert (code, found["integrity"]["level"]) == (1, "problem")
    assert path.read_bytes() == before
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["integrity"]["level"]) == (0, "fixed")
    (aside,) = path.parent.glob("*.damaged-*Z")
    assert aside.read_bytes() == before
    code, found = doctor(home, "--store", path, "--full")
    assert (code, found["integrity"]["what"][:6]) == (0, "intact")
    facts = found["damage"]["facts"]
    assert facts["path"] == str(aside)
    assert facts["sessions"] == {"saved": 1, "lost": 0}
    # Without their table, the number of lost entries is unknown.
    assert facts["entries"] == {"saved": 0 if table == "stretch" else 1, "lost": 0}


def test_fix_rescues_readable_entries_of_a_truncated_store(home: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])
    code, found = doctor(home, "--store", path)
    assert code == 1
    damaged = [value for value in found.values() if value["level"] == "problem"]
    assert damaged
    assert all(item["remedy"].startswith("`rekindle doctor --fix`") for item in damaged)
    doctor(home, "--store", path, "--fix")
    assert doctor(home, "--store", path)[0] == 0


def test_damaged_header_is_recognised_by_neighbouring_files(home: Path, path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"nonsense" * 10)
    code, found = doctor(home, "--store", path)
    assert (code, found["store"]["what"]) == (1, f"{path} is damaged at its beginning")
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["store"]["level"]) == (0, "fixed")
    assert doctor(home, "--store", path)[1]["sessions"]["facts"]["sessions"] == 1


def test_interrupted_rescue_is_finished(home: Path, path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.damaged-20260102T030405Z"))
    code, found = doctor(home, "--store", path)
    assert code == 1
    assert "is not recovered yet" in found["damage"]["what"]
    done = rekindle(home, "list", "--store", path)
    assert done.returncode == 1
    assert "is not recovered yet; `rekindle doctor --fix` recovers what can be read" in done.stderr
    code, found = doctor(home, "--store", path, "--fix")
    assert found["damage"]["level"] == "fixed"
    code, found = doctor(home, "--store", path)
    assert (code, found["sessions"]["facts"]["sessions"]) == (0, 1)
    # Old enough that other commands do not report it.
    assert rekindle(home, "list", "--all", "--store", path).stderr == ""


def modes(folder: Path) -> dict[str, int]:
    return {str(item): item.lstat().st_mode for item in (folder, *folder.rglob("*"))}


def test_foreign_files_are_not_touched(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "inside").mkdir(parents=True, mode=0o755)
    (project / "letter").write_text("Not a short one. " * 100, encoding="utf-8")
    (project / "empty").touch()
    with closing(apsw.Connection(str(project / "other.db"))) as db:
        db.execute("pragma journal_mode = wal; create table x (y)")
    for file in (project, *project.iterdir()):
        file.chmod(0o755)
    before = modes(project)
    for store, words in {
        project: f"{project} is not a file",
        project / "letter": "not a Rekindle store, or its beginning is damaged",
        project / "empty": "is empty",
        project / "other.db": "is a database, but not a Rekindle store",
    }.items():
        code, found = doctor(home, "--store", store, "--fix")
        assert code == 1
        assert words in found["store"]["what"]
        assert found["store"]["remedy"]
        assert "permissions" not in found
    assert modes(project) == before


def test_files_with_similar_names_are_left_alone(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=NOW, cwd="/p")])
    (tmp_path / "s-project").mkdir()
    for name in ("s.bak", "s.old.tmp", "s-project/build.sh"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o755)
        os.utime(tmp_path / name, (1, 1))
    before = modes(tmp_path)
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["permissions"]["what"]) == (0, "private to you")
    # A check creates and removes SQLite's own files.
    after = modes(tmp_path)
    assert {name: after.get(name) for name in before} == before


def test_store_is_recognised_while_its_application_id_is_in_the_wal(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new.db"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=NOW, cwd="/p")])
        assert path.read_bytes()[68:72] == bytes(4)
        code, found = doctor(home, "--store", path)
        assert (code, found["sessions"]["facts"]["sessions"]) == (0, 1)


@pytest.mark.parametrize("begin", ["", "pragma auto_vacuum = 2; pragma journal_mode = wal"])
def test_empty_new_store_is_recognised(home: Path, tmp_path: Path, begin: str) -> None:
    path = tmp_path / "new.db"
    path.touch(0o600)
    (tmp_path / "new.db.lock").touch(0o600)
    change(path, begin)
    code, found = doctor(home, "--store", path)
    assert (code, found["store"]["what"]) == (0, f"nothing is recorded yet: {path}")
    assert rekindle(home, "list", "--store", path).stderr == f"rekindle: note: {NO_SESSIONS_YET}\n"


def test_folder_in_place_of_the_lock_file_is_a_problem(home: Path, path: Path) -> None:
    (path.parent / "s.db.lock").unlink()
    (path.parent / "s.db.lock").mkdir(mode=0o755)
    code, found = doctor(home, "--store", path)
    assert (code, found["permissions"]["level"]) == (1, "ok")
    assert found["access"]["what"].endswith("nothing can be recorded")


def test_foreign_file_is_not_repaired(home: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Not a short one. " * 100, encoding="utf-8")
    output = rekindle(home, "list", "--store", tmp_path / "letter").stderr
    words = "is not a Rekindle store, or its beginning is damaged"
    assert output == f"rekindle: error: {tmp_path / 'letter'} {words}\n"


def test_search_index_is_checked(home: Path, path: Path) -> None:
    rekindle(home, "search", "--store", path, "hello")
    assert doctor(home, "--store", path)[1]["index"]["what"] == "intact"
    overwrite(Path(f"{path}.index"), "progress")
    assert "doctor" not in rekindle(home, "search", "--store", path, "hello").stderr
    code, found = doctor(home, "--store", path)
    assert (code, found["index"]["level"]) == (1, "problem")
    code, found = doctor(home, "--store", path, "--fix")
    assert (code, found["index"]["level"]) == (0, "fixed")
    assert doctor(home, "--store", path)[1]["index"]["what"] == "intact"
    assert rekindle(home, "search", "--store", path, "hello").returncode == 0


def test_damaged_search_index_is_rebuilt(home: Path, path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma writable_schema = on")
        sql = "update sqlite_schema set sql = replace(sql, 'cwd, updated_us', 'cwd, created_us')"
        db.execute(f"{sql} where name = 'session_by_cwd'")
    change(path, "update session set created_us = 5; reindex")
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma writable_schema = on")
        sql = "update sqlite_schema set sql = replace(sql, 'cwd, created_us', 'cwd, updated_us')"
        db.execute(f"{sql} where name = 'session_by_cwd'")
    code, found = doctor(home, "--store", path, "--full")
    assert (code, found["integrity"]["level"]) == (1, "problem")
    assert "index" in found["integrity"]["what"]
    code, found = doctor(home, "--store", path, "--full", "--fix")
    assert (code, found["integrity"]["level"]) == (0, "fixed")
    assert doctor(home, "--store", path, "--full")[0] == 0


def test_journal_mode_is_corrected(home: Path, path: Path) -> None:
    change(path, "pragma journal_mode = delete")
    code, found = doctor(home, "--store", path)
    assert (code, found["journal"]["level"]) == (0, "warning")
    assert doctor(home, "--store", path, "--fix")[1]["journal"]["level"] == "fixed"
    assert "journal" not in doctor(home, "--store", path)[1]


def test_exclusively_locked_store_is_reported(home: Path, path: Path) -> None:
    with kept_by_another(path):
        code, found = doctor(home, "--store", path)
    assert code == 1
    assert "is locked by another process" in found["store"]["what"]
    assert "try again" in found["store"]["remedy"]


def test_live_and_dead_lease_holders_are_reported(home: Path, path: Path) -> None:
    client = Client(*REKINDLE, "run", "--store", path, "--", *EXAMPLE_AGENT)
    try:
        client.call("initialize", {"protocolVersion": 1})
        session_id = client.new()
        _, found = doctor(home, "--store", path)
        assert (
            found["live"]["what"] == f"1 session in use by process {client.process.pid} on {HERE}"
        )
        assert found["live"]["facts"]["sessions"][0]["id"] == session_id
        assert "leases" not in found
    finally:
        client.close()  # which kills it
    code, found = doctor(home, "--store", path)
    assert (code, found["leases"]["level"]) == (0, "warning")
    assert found["leases"]["facts"]["sessions"] == [session_id]
    (token,) = (path.parent / "s.db.live").iterdir()
    os.utime(token, (1, 1))
    _, found = doctor(home, "--store", path, "--fix")
    assert (found["leases"]["level"], found["leftovers"]["level"]) == ("fixed", "fixed")
    assert list((path.parent / "s.db.live").iterdir()) == []
    _, found = doctor(home, "--store", path)
    assert not {"leases", "leftovers"} & found.keys()


def test_clean_exit_leaves_no_lease(home: Path, path: Path) -> None:
    with closing(Client(*REKINDLE, "run", "--store", path, "--", *EXAMPLE_AGENT)) as client:
        client.call("initialize", {"protocolVersion": 1})
        client.new()
        assert client.end() == (0, "")
    code, found = doctor(home, "--store", path)
    assert (code, {value["level"] for value in found.values()}) == (0, {"ok"})
    assert list((path.parent / "s.db.live").iterdir()) == []


def test_leases_of_other_machines_are_left_alone(home: Path, path: Path) -> None:
    sql = "insert into lease (session, token, pid, host) select key, 't', 1, 'elsewhere'"
    change(path, f"{sql} from session")
    _, found = doctor(home, "--store", path, "--fix")
    assert found["leases"]["level"] == "ok"
    assert "another machine" in found["leases"]["what"]


def test_only_files_of_killed_processes_are_removed(home: Path, path: Path) -> None:
    live = path.parent / "s.db.live"
    live.mkdir(exist_ok=True)
    names = ("s.db.live/dead", "s.db.x.tmp", "s.db.bak", "s.db-journal", "other.tmp")
    for name in names:
        (path.parent / name).touch(mode=0o600)
        os.utime(path.parent / name, (1, 1))
    (live / "fresh").touch(mode=0o600)
    _, found = doctor(home, "--store", path, "--fix")
    assert found["leftovers"]["level"] == "fixed"
    assert [(path.parent / name).exists() for name in names] == [False, True, True, True, True]
    assert (live / "fresh").exists()


def test_agents_are_reported_with_their_restore_methods(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    session_id = ""
    for offer in ("none", "none", "resume,load"):
        agent = (*EXAMPLE_AGENT, "--offer", offer, "--memory", str(tmp_path / "memory"))
        client = Client(*REKINDLE, "run", "--store", path, "--", *agent)
        client.call("initialize", {"protocolVersion": 1})
        if session_id:
            client.call("session/load", NEW | {"sessionId": session_id})
        session_id = session_id or client.new()
        client.prompt(session_id, "Hello")
        client.end()
        client.close()
    _, found = doctor(home, "--store", path)
    facts = found["agent"]["facts"]
    assert (facts["sessions"], facts["restored"]) == (1, {"handover": 1, "native": 1})
    assert "by sending the history (1 time)" in found["agent"]["what"]
    assert facts["command"][-1] == str(tmp_path / "memory")


def test_editor_configurations_are_checked(home: Path) -> None:
    assert "editor" not in doctor(home)[1]
    file = home / ".config/zed/settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"agent_servers": {"X": {"command": "/bin/sh"}}} // x', encoding="utf-8")
    code, found = doctor(home)
    assert (code, found["editor"]["what"]) == (0, "Zed starts X without Rekindle")
    rekindle(home, "setup", "zed", "--all", "--write")
    code, found = doctor(home)
    assert (code, found["editor"]["what"]) == (0, "Zed starts X behind Rekindle")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_problems_of_the_configuration_file_are_reported(home: Path, path: Path) -> None:
    file = home / "config.toml"
    file.write_text("pager = 'less'")
    found = doctor(home, "--store", path, REKINDLE_CONFIG=str(file))[1]["configuration"]
    assert (found["level"], found["what"]) == ("ok", str(file))
    file.write_text("pagr = 'less'")
    code, checks = doctor(home, "--store", path, REKINDLE_CONFIG=str(file))
    assert (code, checks["configuration"]["level"]) == (0, "warning")
    assert "`pager`" in checks["configuration"]["what"]
    file.write_text("redact = 1\n[agents.bare]\nenv = {A = '1'}")
    done = run(home, "--store", path, REKINDLE_CONFIG=str(file))
    assert done.returncode == 1
    remedy = "correct the file; `rekindle config` shows the settings in use"
    for text in ("`redact` must be `true` or `false`", "`agents.bare` needs a `command`"):
        assert f"problem\tconfiguration\t{file}: {text}\t{remedy}\n" in done.stdout


def test_helper_that_an_agent_left_behind_is_shown(home: Path, path: Path) -> None:
    no_process = 2**22 + 1
    mark = {"REKINDLE_AGENT": f"{no_process}.{os.getsid(0)}"}
    script = "import sys; print(flush=True); sys.stdin.read()"
    helper = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **mark},
        start_new_session=True,
    )
    try:
        assert helper.stdout is not None
        helper.stdout.readline()
        done = run(home, "--json", "--store", path)
        findings = [it for it in json.loads(done.stdout)["findings"] if it["check"] == "helper"]
        (found,) = [it for it in findings if it["facts"]["pid"] == helper.pid]
        assert (done.returncode, found["level"]) == (0, "warning")
        assert found["what"].startswith("an agent that has ended left python")
        assert found["remedy"].startswith(f"end it with `kill {helper.pid}`")
    finally:
        helper.kill()
        helper.communicate()


@pytest.mark.parametrize("columns", [40, 80])
def test_terminal_output_breaks_no_word(path: Path, columns: int) -> None:
    path.chmod(0o644)
    with Terminal("doctor", "--store", path, columns=columns) as terminal:
        assert terminal.end() == 1
    lines = terminal.shown.splitlines()
    assert max(map(len, lines)) <= columns
    shown = " ".join(terminal.shown.split())
    # Text that is longer than a line must be broken.
    assert "no session is in use" in shown
    assert "can be read and written" in shown
    assert "(quick check, took" in shown
    assert "other users can access it → chmod 600" in shown
