"""`rekindle import` of other tools' sessions, as a person and as a script use it."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import warm_start
from claude_files import CWD, SESSION, ClaudeFile, everything
from other_user import as_stranger
from pty_terminal import Terminal
from rekindle.cli import tool_import
from rekindle.cli.main import main
from rekindle.cli.store_access import short_id
from rekindle.cli.tool_import import pause_after
from rekindle.model import LeaseHolder, Opened, Page
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
OTHER = SESSION.replace("1", "2")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with two sessions of two projects."""
    for session, cwd in ((SESSION, CWD), (OTHER, "/home/user/other")):
        it = ClaudeFile(session, cwd)
        it.turn(1)
        it.write(tmp_path)
    return tmp_path


def environ(home: Path) -> dict[str, str]:
    path = os.environ["PATH"]
    return {"HOME": str(home), "PATH": path, "REKINDLE_STORE": str(home / "s.db")}


def cli(home: Path, *arguments: str | Path) -> tuple[int, str, str]:
    done = warm_start.run(
        [*REKINDLE, "import", *arguments],
        env=environ(home), cwd=home, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def rows(printed: str) -> list[list[str]]:
    return sorted(line.split("\t") for line in printed.splitlines())


def stored(home: Path) -> set[str]:
    with SqliteStore(home / "s.db", create=False) as store:
        return {
            session.id for session in store.sessions(Page(with_archived=True, with_unopened=True))
        }


@pytest.mark.parametrize("source", ["claude", "all"])
def test_imported_sessions_are_reported(home: Path, source: str) -> None:
    code, out, said = cli(home, source)
    assert (code, said) == (0, "Claude Code: 2 sessions: 2 new\n")
    assert rows(out) == [["new", SESSION, "3", "Question 1"], ["new", OTHER, "3", "Question 1"]]
    assert cli(home, source) == (0, "", "Claude Code: 2 sessions: 2 unchanged\n")


def test_skipped_sessions_are_reported(home: Path) -> None:
    path = everything().write(home)
    whole = path.read_bytes()
    lines = whole.splitlines()
    count = len(lines) + 1
    (future,) = (at for at, line in enumerate(lines, 1) if b"from-the-future" in line)
    (gone,) = (at for at, line in enumerate(lines, 1) if b"persistedOutputPath" in line)
    path.write_bytes(whole + b"torn\n{")
    child = path.with_suffix("") / "subagents" / "agent-a.jsonl"
    child.parent.mkdir(parents=True)
    helper = ClaudeFile(isSidechain=True)
    helper.turn(1)
    child.write_bytes(helper.data())
    code, _, said = cli(home, "claude")
    assert code == 0
    assert said.splitlines() == [
        "Claude Code: 2 sessions and 1 of sub-agents: 3 new",
        f"  skipped: a line is not JSON (in {path}, line {count})",
        f"  skipped: a record of unknown type: from-the-future (in {path}, line {future})",
        f"  skipped: the file of a tool output is missing (in {path}, line {gone})",
        f"  skipped: the last line is incomplete (in {path}, line {count + 1})",
    ]


def test_dry_run_reports_and_changes_nothing(home: Path) -> None:
    code, out, said = cli(home, "claude", "--dry-run")
    assert (code, said) == (0, "Claude Code: 2 sessions: 2 new (nothing was changed)\n")
    assert len(rows(out)) == 2
    assert not (home / "s.db").exists()
    cli(home, "claude")
    assert "2 unchanged" in cli(home, "claude", "--dry-run")[2]


def test_import_filters_by_folder_and_time(home: Path) -> None:
    old = ClaudeFile(OTHER, "/home/user/other").path(home)
    os.utime(old, (0, 0))
    assert [row[1] for row in rows(cli(home, "claude", "--since", "3d")[1])] == [SESSION]
    assert cli(home, "claude", "--cwd", "/home/user/other")[2] == "Claude Code: 1 session: 1 new\n"
    again = cli(home, "claude", "--cwd", CWD)
    assert again == (0, "", "Claude Code: 1 session: 1 unchanged\n")
    assert cli(home, "claude", "--cwd", "/home/user-other")[2] == "Claude Code: 0 sessions\n"


def test_folders_with_the_same_encoded_name_are_distinguished(home: Path) -> None:
    it = ClaudeFile(OTHER, "/home/user-project")
    it.turn(1)
    assert it.write(home).parent == ClaudeFile().path(home).parent
    assert [row[1] for row in rows(cli(home, "claude", "--cwd", CWD)[1])] == [SESSION]


def test_import_reads_any_file_or_folder(home: Path, tmp_path: Path) -> None:
    path = ClaudeFile().path(home)
    moved = tmp_path / "elsewhere" / "talk.jsonl"
    moved.parent.mkdir()
    path.rename(moved)
    assert [row[1] for row in rows(cli(home, moved)[1])] == [SESSION]
    assert cli(home, "elsewhere") == (0, "", "Claude Code: 1 session: 1 unchanged\n")
    assert [row[1] for row in rows(cli(home, home / ".claude")[1])] == [OTHER]


def test_unknown_sources_are_refused(home: Path) -> None:
    (home / "x.jsonl").write_text('{"a":1}\n')
    code, _, said = cli(home, "x.jsonl")
    assert code == 1
    assert said.startswith(
        "rekindle: error: x.jsonl: it is neither a bundle nor a session of claude"
    )
    (home / "empty").mkdir()
    words = "the folder has no sessions that can be imported"
    assert cli(home, "empty")[2] == f"rekindle: error: empty: {words}\n"
    SqliteStore(home / "other.db").close()
    words = "it is a store; name it with --store, or write a bundle with `rekindle export --all`"
    assert cli(home, "other.db")[::2] == (1, f"rekindle: error: other.db: {words}\n")
    words = "there is no such file, and no tool of that name; use claude, codex, opencode"
    for name in ("nowhere", "Claude"):
        assert cli(home, name)[::2] == (1, f"rekindle: error: {name}: {words} or gemini, or all\n")
    assert not (home / "s.db").exists()


def test_missing_tool_is_reported_with_its_expected_path(tmp_path: Path) -> None:
    code, _, said = cli(tmp_path, "claude")
    assert code == 1
    assert (
        f"Claude Code has no sessions on this machine: there is no folder {tmp_path}/.claude"
        in said
    )
    assert cli(tmp_path, "all")[::2] == (
        0,
        "rekindle: note: none of the known tools has sessions on this machine\n",
    )


def test_interrupted_import_reports_that_progress_is_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tool_import, "_import_changed", interrupt)
    path = home / ".claude"
    assert main(["import", "--store", str(home / "s.db"), str(path)]) == 130
    assert capsys.readouterr().err.startswith(
        "rekindle: note: interrupted; the imported sessions stay"
    )


@pytest.mark.parametrize("columns", [60, 100])
def test_terminal_shows_one_line_per_session(home: Path, columns: int) -> None:
    it = ClaudeFile()
    it.user("A long question, with many words. " * 10)
    it.write(home)
    with Terminal(
        "import", "--store", home / "s.db", home / ".claude", columns=columns
    ) as terminal:
        assert terminal.end() == 0
    assert max(map(len, terminal.shown.splitlines())) <= columns


@pytest.mark.parametrize(
    ("arguments", "error_output"),
    [
        (("-", "--watch"), "do not apply to a bundle"),
        (("claude", "--watch", "--dry-run"), "exclude each other"),
        (("claude", "--since", "soon"), "not a time"),
    ],
)
def test_wrong_usage_ends_with_2(home: Path, arguments: tuple[str, ...], error_output: str) -> None:
    code, _, said = cli(home, *arguments)
    assert (code, error_output in said) == (2, True)


def test_unreadable_session_does_not_stop_the_import(home: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is unreadable to root")
    ClaudeFile().path(home).chmod(0)
    code, out, said = cli(home, "claude")
    assert (code, len(rows(out))) == (1, 1)
    assert "Permission denied" in said


def test_unreadable_tool_folder_does_not_stop_the_import(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / ".gemini" / "tmp").mkdir(parents=True)
        (home / ".claude" / "projects").mkdir(parents=True)
        (home / ".claude").chmod(0)
        for name, value in environ(home).items():
            monkeypatch.setenv(name, value)
        with as_stranger():
            assert main(["import", "all", "--dry-run"]) == 1
        (home / ".claude").chmod(0o755)
    assert capsys.readouterr().err.splitlines() == [
        "Claude Code: 0 sessions (nothing was changed)",
        f"rekindle: error: {home}/.claude/projects: Permission denied",
        "Gemini CLI: 0 sessions (nothing was changed)",
    ]


def test_json_matches_the_documentation(home: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    shown = re.search(r"## `rekindle import`.*?```json\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    expected: dict[str, Any] = json.loads(shown[1])
    printed = json.loads(cli(home, "claude", "--json")[1])
    assert list(printed) == list(expected)
    assert list(printed["tools"][0]) == list(expected["tools"][0])
    assert list(printed["sessions"][0]) == list(expected["sessions"][0])
    assert printed["tools"][0]["new"] == 2


# -- watching ------------------------------------------------------------------------------------


class Watcher:
    """A process with `--watch`. Every wait for a line is bounded."""

    def __init__(self, home: Path, source: str = "claude") -> None:
        self.process = warm_start.Popen(
            [*REKINDLE, "import", source, "--watch"],
            env=environ(home), cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def until(self, begin: str) -> str:
        """Return the next line with this beginning."""
        while not (line := self._lines.get(timeout=TIMEOUT)).startswith(begin):
            assert line, f"it ended before it said {begin!r}"
        return line

    def end(self) -> tuple[int, str]:
        """Interrupt the process; return its exit code, and its last output."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(TIMEOUT)
        return code, self._lines.get(timeout=TIMEOUT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture
def watcher(home: Path) -> Iterator[Watcher]:
    it = Watcher(home, "claude")
    yield it
    it.close()


def test_watch_imports_changes_until_ctrl_c(home: Path, watcher: Watcher) -> None:
    watcher.until("rekindle: note: watching for changes; Ctrl-C ends it")
    it = ClaudeFile()
    it.turn(1)
    for number in (2, 3):
        it.turn(number)
        it.write(home)
        assert watcher.until("extended").startswith(f"extended\t{SESSION}\t3\t")
    third = ClaudeFile(SESSION.replace("1", "3"))
    third.turn(1)
    third.write(home)
    assert third.session in watcher.until("new")
    assert watcher.end() == (0, "")
    assert len(stored(home)) == 3


@pytest.mark.parametrize("tool", ["all", "claude"])
def test_watch_notices_a_tool_that_appears_later(tmp_path: Path, tool: str) -> None:
    with closing(Watcher(tmp_path, tool)) as watcher:
        watcher.until("rekindle: note: watching")
        it = ClaudeFile()
        it.turn(1)
        it.write(tmp_path)
        assert SESSION in watcher.until("new")
        assert watcher.end() == (0, "")


def test_watch_uses_little_cpu_and_stays_responsive() -> None:
    assert [pause_after(took) for took in (0.0, 0.5, 600.0)] == [1.0, 10.0, 60.0]


def test_watch_imports_a_session_once_its_lease_is_free(home: Path, watcher: Watcher) -> None:
    watcher.until("rekindle: note: watching")
    holder = LeaseHolder(token="t", pid=os.getpid(), machine="here")  # noqa: S106 - no password
    with SqliteStore(home / "s.db") as store:
        store.acquire_lease(SESSION, holder)
        it = ClaudeFile()
        it.turn(1)
        it.turn(2)
        it.write(home)
        assert "is in use by process" in watcher.until(f"rekindle: error: {it.path(home)}")
    it.turn(3)
    it.write(home)
    assert watcher.end() == (0, "")
    assert "1 updated" in cli(home, "claude")[2]


def test_short_id_is_unique_despite_child_sessions() -> None:
    store = MemoryStore()
    ids = [SESSION, f"{SESSION}.agent-1", f"{SESSION}~0123456789ab"]
    store.write([Opened(session_id=item, at_us=1) for item in ids])
    shown = [short_id(store, item) for item in ids]
    assert shown[0] == SESSION[:8]
    assert [store.find(item).id for item in shown] == ids
