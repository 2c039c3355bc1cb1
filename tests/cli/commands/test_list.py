"""`rekindle list`, on terminals of several widths and in pipes."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

import warm_start
from command_runs import STYLE, run, show, terminal
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.model import (
    AgentIdentity,
    Archived,
    Counted,
    Deleted,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

HOUR = 3_600_000_000
NOW = time.time_ns() // 1000

TITLES = {
    "aaaaaaaa-plain": "Fix the parser",
    "bbbbbbbb-cjk": "修复解析器中的一个非常长的错误并且重写测试套件以便它更快",
    "cccccccc-emoji": "Add 🎉 emoji 👨‍👩‍👧‍👦 and flags 🇩🇪 to the title column, all of them",
    "dddddddd-hostile": "a \x1b[31mred\x1b]0;owned\x07\x9b2J \u202e\u200f\r\nb\u2028c",
    "eeeeeeee-long": "x" * 5000,
    "ffffffff-marks": "e\u0301\u0302" * 60,
}


def entry(session: str, kind: Kind, line: bytes = b"{}") -> EntryBatch:
    # Old enough to keep the order of the list.
    return EntryBatch(session_id=session, side=Side.AGENT, kind=kind, at_us=1, data=line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    agent = AgentIdentity(name="An agent with a long name", command=("x",))
    with SqliteStore(path) as store:
        for number, (name, title) in enumerate(TITLES.items()):
            at_us = NOW - number * HOUR
            output = Titled(session_id=name, at_us=at_us, source=TitleSource.AGENT, title=title)
            cwd = "/home/user/projects/parser/packages/inner"
            store.write([Opened(session_id=name, at_us=at_us, agent=agent, cwd=cwd), output])
            store.write([Counted(session_id=name, at_us=at_us, turns=number + 1)])
        store.write([entry("bbbbbbbb-cjk", Kind.PROMPT)])
    return path


def listed(path: Path, *options: str | Path, cwd: Path | None = None) -> list[str]:
    done = run("list", "--store", path, "--json", *options, cwd=cwd, PWD=str(cwd or Path.cwd()))
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(session["id"] for session in json.loads(done.stdout))


@pytest.mark.parametrize("columns", [200, 120, 80, 60, 40, 25, 12, 3])
def test_table_fits_any_terminal_width(path: Path, columns: int) -> None:
    shown = show("list", "--store", path, columns=columns)
    plain = STYLE.sub("", shown)
    table = plain.splitlines()[: len(TITLES) + 1]
    assert "\x1b" not in plain
    assert not {char for char in plain if ord(char) in range(127, 160)}
    assert max(map(cell_len, table)) <= columns
    if columns >= 10:
        assert [line[2:10] for line in table[1:]] == [name[:8] for name in TITLES]
    if columns >= 80:
        assert table[0].split()[:4] == ["ID", "AGE", "AGENT", "PROJECT"]
        assert "Fix the parser" in table[1]
        assert "/inner" in table[1]
    if columns == 200:
        assert r"a \x1b[31mred\x1b]0;owned\x07\x9b2J" in table[4]


def test_table_marks_live_interrupted_and_archived_sessions(path: Path) -> None:
    with SqliteStore(path) as store:
        holder = LeaseHolder(token="t", pid=os.getpid(), machine="here")  # noqa: S106
        store.acquire_lease("aaaaaaaa-plain", holder)
        store.write([Archived(session_id="cccccccc-emoji", at_us=NOW)])
        shown = STYLE.sub("", show("list", "--store", path, "--all")).splitlines()
        assert [line[0] for line in shown[1:5]] == ["●", "!", "▪", " "]
        assert shown[7] == "▪ archived  ! interrupted  ● live"
        states = json.loads(run("list", "--store", path, "--json").stdout)
        assert [state["state"] for state in states[:3]] == ["live", "interrupted", "idle"]
        rows = run("list", "--store", path).stdout.splitlines()
        assert [row.split("\t")[-1] for row in rows[:3]] == ["live", "interrupted", "idle"]
        plain = show("list", "--store", path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert STYLE.sub("", plain).splitlines()[1].startswith("* aaaaaaaa")


def test_colour_depends_on_terminal_and_environment(path: Path) -> None:
    assert STYLE.search(show("list", "--store", path))
    for options, environment in (
        (["--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
    ):
        assert "\x1b" not in show("list", "--store", path, *options, **environment)
    assert STYLE.search(show("list", "--store", path, NO_COLOR=""))
    assert "\x1b" not in run("list", "--store", path, TERM="xterm").stdout


def test_table_reports_that_there_are_more(path: Path) -> None:
    shown = STYLE.sub("", show("list", "--store", path, "--limit", "3")).splitlines()
    assert shown[-1] == "the last 3 sessions; -n N lists more"
    assert len(run("list", "--store", path, "--limit", "3").stdout.splitlines()) == 3
    assert "lists more" not in show("list", "--store", path, "--limit", "6")


def test_terminal_lists_fifty_and_a_pipe_all(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        # Some have the same time, and there are more than one batch.
        store.write([Opened(session_id=f"s{n}", at_us=n // 3, cwd="/p") for n in range(2100)])
        store.write([Counted(session_id=f"s{n}", at_us=1, turns=1) for n in range(2100)])
    shown = STYLE.sub("", show("list", "--store", path)).splitlines()
    assert shown[-1] == "the last 50 sessions; -n N lists more"
    listed = [line.split("\t")[0] for line in run("list", "--store", path).stdout.splitlines()]
    assert len(set(listed)) == len(listed) == 2100
    assert [
        row["id"] for row in json.loads(run("list", "--store", path, "--json").stdout)
    ] == listed
    assert len(run("list", "--store", path, "--limit", "1500").stdout.splitlines()) == 1500


def test_here_selects_the_git_repository(tmp_path: Path) -> None:
    path, home, project = tmp_path / "s.db", tmp_path / "home", tmp_path / "home" / "project"
    inner, beside = project / "a" / "b", tmp_path / "home" / "project-2"
    for folder in (inner, beside, project / ".git", home / ".git"):
        folder.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(project)
    with SqliteStore(path) as store:
        for folder in (home, project, project / "a", inner, beside, link / "a"):
            store.write([Opened(session_id=folder.name, at_us=NOW, cwd=str(folder))])
            store.write([Counted(session_id=folder.name, at_us=NOW, turns=1)])

    def here(cwd: Path) -> list[str]:
        done = run(
            "list", "--store", path, "--json", "--here", cwd=cwd, PWD=str(cwd), HOME=str(home)
        )
        return sorted(session["id"] for session in json.loads(done.stdout))

    assert here(inner) == here(project) == ["b", "project"]
    assert here(beside) == ["project-2"]
    assert here(link) == ["a", "b", "project"]


def test_sessions_without_a_prompt_are_listed_on_request(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([Opened(session_id="unprompted", at_us=NOW + HOUR, cwd="/p")])
    assert "unprompted" not in listed(path)
    assert "unprompted" in listed(path, "--all")
    shown = run("show", "--store", path, "--last").stdout
    assert "unprompted" not in shown
    assert "aaaaaaaa-plain" in shown
    assert json.loads(run("stats", "--store", path, "--json").stdout)["sessions"] == len(TITLES) + 1
    with SqliteStore(path) as store:
        store.write([Archived(session_id="unprompted", at_us=NOW)])
    assert listed(path, "--archived") == ["unprompted"]
    with SqliteStore(path) as store:
        store.write([Deleted(session_id="unprompted", at_us=NOW)])
    assert listed(path, "--deleted") == ["unprompted"]


def test_archived_and_deleted_are_listed_on_request(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([Archived(session_id="aaaaaaaa-plain", at_us=NOW)])
        store.write([Archived(session_id="ffffffff-marks", at_us=NOW)])
        store.write([Deleted(session_id="ffffffff-marks", at_us=NOW)])
        store.write([entry("stray", Kind.UPDATE), entry("purged", Kind.UPDATE)])
        store.write([Deleted(session_id="purged", at_us=NOW)])
        store.purge("purged")
    rest = sorted(TITLES)[1:5]
    assert listed(path) == rest
    assert listed(path, "--archived") == ["aaaaaaaa-plain"]
    assert listed(path, "--all") == ["aaaaaaaa-plain", *rest, "stray"]
    assert listed(path, "--deleted") == listed(path, "--deleted", "--all") == ["ffffffff-marks"]


@pytest.mark.parametrize("options", [["--cwd", ".", "--here"], ["--archived", "--deleted"]])
def test_conflicting_options_are_refused(path: Path, options: list[str]) -> None:
    done = run("list", "--store", path, *options)
    assert done.returncode == 2
    assert "exclude each other" in done.stderr


def test_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    with SqliteStore(path) as store:
        store.write(
            [Opened(session_id=f"s{n}", at_us=n, cwd="/p" + "x" * 500) for n in range(1000)]
        )
        store.write([Counted(session_id=f"s{n}", at_us=1, turns=1) for n in range(1000)])
    with warm_start.Popen(
        [*REKINDLE, "list", "--store", path, "--limit", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith(b"s999\t")
        process.stdout.close()
        assert process.wait(TIMEOUT) == 128 + 13
        assert process.stderr.read() == b""


@pytest.mark.parametrize("arguments", [["list", "--help"], ["list", "--nonsense"], ["--help"]])
def test_closed_pipe_during_help_is_not_an_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = warm_start.run(
        [*REKINDLE, *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(writing)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_full_disk_at_stdout_is_reported_in_one_line(path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = warm_start.run(
            [*REKINDLE, "list", "--store", path],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert done.stderr == b"rekindle: error: No space left on device\n"


def test_removed_current_folder_is_reported(path: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); "
        "from rekindle.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [REKINDLE[0], "-c", code, "list", "--store", path, "--here"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1
    assert "the current folder was removed" in done.stderr
    assert "Traceback" not in done.stderr


def test_terminal_settings_are_restored(path: Path) -> None:
    with terminal("list", "--store", path) as opened:
        assert opened.end() == 0
        assert opened.shown.count("\x1b[0m") == opened.shown.count("\x1b[") / 2


@pytest.mark.parametrize("command", ["list", "list --json", "stats", "stats --json"])
def test_closed_stdout_is_not_an_error(path: Path, command: str) -> None:
    name, *options = command.split()
    shell = ["sh", "-c", '"$@" >&-', "sh", *REKINDLE, name, "--store", str(path), *options]
    done = subprocess.run(shell, capture_output=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_title_gets_the_room_on_a_usual_terminal(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    title = "Fix the flaky test of the parser"
    agent = AgentIdentity(name="claude-agent-acp", command=("x",))
    with SqliteStore(path) as store:
        for number in range(3):
            # Ids that begin with the same time are told apart late.
            name = f"session-2025-12-31T23-59-59-{number}{'x' * 20}"
            cwd = "/home/user/projects/parser/packages/inner"
            store.write([Opened(session_id=name, at_us=NOW, agent=agent, cwd=cwd)])
            titled = Titled(session_id=name, at_us=NOW, source=TitleSource.AGENT, title=title)
            store.write([titled, Counted(session_id=name, at_us=NOW, turns=1)])
    lines = STYLE.sub("", show("list", "--store", path)).splitlines()
    assert [line.endswith(title) for line in lines[1:]] == [True] * 3
    assert lines[0].split() == ["ID", "AGE", "AGENT", "PROJECT", "TITLE"]
    shown_id = lines[1].split()[0]
    assert shown_id == "session-202…"
    # The shortened id is still the beginning of an id.
    done = run("show", "--store", path, shown_id)
    assert f"'{shown_id}' matches 3 sessions; type more of" in done.stderr
    wide = STYLE.sub("", show("list", "--store", path, columns=200))
    assert "session-2025-12-31T23-59-59-2" in wide


def test_secrets_in_titles_are_masked(path: Path) -> None:
    token = f"ghp_{'aB3dE5gH7jK9' * 3}"
    name = "aaaaaaaa-plain"
    with SqliteStore(path) as store:
        title = f"Push with {token}"
        store.write([Titled(session_id=name, at_us=NOW, source=TitleSource.USER, title=title)])
    assert "Push with ghp_***" in show("list", "--store", path)
    assert "\tPush with ghp_***\t" in run("list", "--store", path).stdout
    # A program gets the record.
    assert token in run("list", "--store", path, "--json").stdout


def test_empty_list_says_what_to_do_next(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    SqliteStore(empty).close()
    note = f"rekindle: note: {NO_SESSIONS_YET}\n"
    assert run("list", "--store", empty).stderr == note
    assert show("list", "--store", empty) == note
    for options, remedy in (
        (["--agent", "nobody"], "no session matches; `rekindle list` lists the sessions of all"),
        (["--archived"], "no session is archived; `rekindle list` lists the others"),
        (["--deleted"], "no session is deleted; `rekindle list` lists the others"),
    ):
        done = run("list", "--store", path, *options)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"rekindle: note: {remedy}")
    with SqliteStore(empty) as store:
        store.write([Opened(session_id="unused", at_us=NOW, cwd="/p")])
    assert "--all includes archived sessions" in run("list", "--store", empty).stderr
    assert run("list", "--store", empty, "--all").stdout.startswith("unused\t")


def test_limit_has_a_short_option(path: Path) -> None:
    assert run("list", "--store", path, "-n", "2").stdout.count("\n") == 2
