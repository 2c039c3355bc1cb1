"""Commands under adverse conditions: full disks, odd times, signals, missing folders."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import warm_start
from recorded_sessions import NOW, answered, asked, counted, opened, told
from rekindle.model import Deleted, LeaseHolder, Titled, TitleSource
from rekindle.store.sqlite.files import index_path
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("ses_1"), asked("ses_1", "Hello parser"), told("ses_1", "Hi")])
        store.write([answered("ses_1"), opened("ses_2", "/q"), asked("ses_2", "Another")])
        store.write([counted("ses_1"), counted("ses_2")])
    return path


def cli(
    path: Path | str,
    *arguments: str | Path,
    before: Callable[[], object] | None = None,
    cwd: Path | None = None,
    program: tuple[str, ...] = REKINDLE,
    **environ: str,
) -> Done:
    done = warm_start.run(
        [*program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env=os.environ | {"REKINDLE_STORE": str(path)} | environ,
        stdin=subprocess.DEVNULL,
        preexec_fn=before,
        cwd=cwd,
    )
    assert "Traceback" not in done.stderr
    assert "a bug in Rekindle" not in done.stderr
    return done


# -- stores and disks -----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["list", "archive x", "search x", "reindex"])
def test_folder_is_not_a_store(tmp_path: Path, text: str) -> None:
    done = cli(tmp_path, *text.split())
    assert done.returncode == 1
    assert (
        done.stderr == f"rekindle: error: {tmp_path} is a folder, not a store; name a file in it\n"
    )


def forbid_file_growth() -> None:
    """Make every write fail, like a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "text", ["list", "list --json", "show ses_1", "stats", "export ses_1", "search parser"]
)
@pytest.mark.parametrize("has_log", [False, True])
def test_store_on_a_full_disk_can_be_read(path: Path, text: str, has_log: bool) -> None:  # noqa: FBT001
    assert cli(path, "search", "parser").stdout.startswith("ses_1")
    if has_log:
        leave_wal(path)
    done = cli(path, *text.split(), before=forbid_file_growth)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    if text == "list":
        assert done.stdout.startswith("ses_3" if has_log else "ses_2")


def leave_wal(path: Path) -> None:
    """Record an entry, and exit before the WAL is checkpointed."""
    code = (
        "import os, sys; from pathlib import Path; from recorded_sessions import *;"
        "from rekindle.store.sqlite.store import SqliteStore;"
        "store = SqliteStore(Path(sys.argv[1]));"
        "late = asked('ses_3', 'Late', 1_800_000_000_000_000);"
        "store.write([opened('ses_3'), counted('ses_3'), late], sync=True);"
        "os._exit(0)"
    )
    support = str(Path(__file__).parents[1] / "support")
    subprocess.run(
        [sys.executable, "-c", code, path], check=True, env=os.environ | {"PYTHONPATH": support}
    )
    path.with_name(path.name + "-shm").unlink()


def test_incomplete_index_on_a_full_disk_is_reported(path: Path) -> None:
    assert cli(path, "search", "parser").stdout.startswith("ses_1")
    with SqliteStore(path) as store:
        store.write([asked("ses_2", "The parser, too", NOW + 1)])
    done = cli(path, "search", "parser", before=forbid_file_growth)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    expected = (
        f"the index {index_path(path)} cannot be written; the search may miss the latest turns"
    )
    assert done.stderr == f"rekindle: warning: {expected}\n"


# -- times ------------------------------------------------------------------------------------


ODD_TIMES = (253_402_300_799_999_999, 253_402_299_000_000_000, 2**63 - 1, -(2**62), 0)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "UTC", "Pacific/Pago_Pago"])
def test_any_recorded_time_can_be_shown(tmp_path: Path, zone: str) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for number, at_us in enumerate(ODD_TIMES):
            own, other = f"ses_{number}", f"deleted_{number}"
            store.write([opened(own), asked(own, "Zebra", at_us), answered(own, at_us)])
            store.write([opened(other), Deleted(session_id=other, at_us=at_us)])
    of_all = (
        "list", "list --json", "list --deleted", "search zebra", "search zebra --json", "stats",
        "stats --json", "prune --keep 0 --dry-run", "compact",
    )  # fmt: skip
    of_one = [f"{what} ses_{number}" for number in range(5) for what in ("show", "export")]
    formats = [f"export ses_0 --format {name}" for name in ("html", "json", "acp")]
    for words in (*of_all, *of_one, *formats, "show ses_0 --json"):
        done = cli(path, *words.split(), TZ=zone)
        assert done.returncode == 0, (words, done.stderr)


# -- signals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    ["rekindle.cli.main", "argparse", "rekindle.cli.commands.list", "rekindle.store.sqlite.store"],
)
def test_ctrl_c_during_imports_shows_no_traceback(path: Path, module: str) -> None:
    code = (
        "import importlib.abc, os, signal, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from rekindle.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = cli(path, "list", program=(sys.executable, "-c", code))
    assert done.returncode in {-signal.SIGINT, 130}
    assert (done.stdout, done.stderr) == ("", "")


ENDED = """
import os, signal, sys
from rekindle.cli.commands import export
from rekindle.cli.main import main
def die(store, session, file, *_):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), NUMBER)
export._write_document = die
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_terminated_export_leaves_no_files(
    path: Path, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    program = (sys.executable, "-c", ENDED.replace("NUMBER", str(int(number))))
    done = cli(path, "export", "ses_1", "-o", folder / "x.md", program=program)
    assert done.returncode == (130 if number is signal.SIGINT else -number)
    assert list(folder.iterdir()) == []


def test_export_under_nohup_ignores_sighup(path: Path, tmp_path: Path) -> None:
    program = (sys.executable, "-c", ENDED.replace("NUMBER", str(int(signal.SIGHUP))))

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    done = cli(path, "export", "ses_1", "-o", tmp_path / "x.md", program=program, before=ignore)
    assert done.returncode == 0
    assert (tmp_path / "x.md").read_bytes() == b"half"


# -- folders --------------------------------------------------------------------------------


def test_export_needs_an_existing_folder(path: Path, tmp_path: Path) -> None:
    done = cli(path, "export", "ses_1", "-o", tmp_path / "nope" / "x.md")
    assert done.returncode == 1
    assert done.stderr == f"rekindle: error: there is no folder {tmp_path}/nope; create it first\n"


@pytest.mark.parametrize(
    "text", ["list --cwd .", "search x --cwd .", "show --last", "export ses_1 -o x.md"]
)
def test_removed_current_folder_is_reported(path: Path, tmp_path: Path, text: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = cli(path, *text.split(), cwd=gone, before=gone.rmdir)
    assert done.returncode == 1
    assert "the current folder was removed; change to a folder that exists" in done.stderr


def test_sessions_are_found_by_any_spelling_of_the_folder(tmp_path: Path) -> None:
    real, link, path = tmp_path / "real", tmp_path / "link", tmp_path / "s.db"
    real.mkdir()
    link.symlink_to(real)
    with SqliteStore(path) as store:
        store.write([opened("slash", f"{real}/"), opened("plain", str(real)), opened("other", "/")])
        store.write([opened("linked", str(link))])
        store.write([counted(name) for name in ("slash", "plain", "other", "linked")])
    assert listed(path, "--cwd", str(real)) == listed(path, "--cwd", f"{real}/") == PLAIN
    assert listed(path, "--cwd", str(link)) == ["linked", *PLAIN]
    assert listed(path, "--cwd", ".", cwd=real) == PLAIN
    assert listed(path, "--cwd", ".", cwd=link, PWD=str(link)) == ["linked", *PLAIN]
    assert listed(path, "--cwd", "/") == ["other"]


PLAIN = ["plain", "slash"]


def listed(path: Path, *arguments: str, cwd: Path | None = None, **environ: str) -> list[str]:
    done = cli(path, "list", "--json", *arguments, cwd=cwd, **environ)
    return sorted(row["id"] for row in json.loads(done.stdout))


def test_store_url_with_three_slashes_is_relative(path: Path, tmp_path: Path) -> None:
    assert path.is_absolute()
    for address in (f"sqlite:///{path}", "sqlite:///s.db"):
        assert cli(address, "list", cwd=tmp_path).stdout.count("\n") == 2
    done = cli(f"sqlite://{path}", "list", cwd=tmp_path)
    assert done.returncode == 2
    assert "is relative to the current folder, which has no folder" in done.stderr
    assert f"use sqlite:///{path}" in done.stderr
    assert "sqlite:////absolute/path" in cli(path, "list", "--help").stdout.replace("\n", " ")


# -- deleted sessions -----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["show", "export", "export --format acp"])
def test_deleted_session_is_shown_with_a_notice(path: Path, text: str) -> None:
    before = cli(path, *text.split(), "ses_1").stdout
    assert cli(path, "delete", "ses_1").returncode == 0
    done = cli(path, *text.split(), "ses_1")
    assert (done.returncode, done.stdout) == (0, before)
    expected = "session ses_1 is deleted; `rekindle undelete ses_1` restores it"
    assert done.stderr == f"rekindle: note: {expected}\n"
    assert cli(path, "delete", "ses_1", "--now", "--yes").returncode == 0
    done = cli(path, *text.split(), "ses_1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "session ses_1 was purged" in done.stderr
    assert cli(path, *text.split(), "ses_").stdout == cli(path, *text.split(), "ses_2").stdout


# -- searching ------------------------------------------------------------------------------


def test_title_hit_is_labelled_as_title(path: Path) -> None:
    assert cli(path, "rename", "ses_1", "The unicorn hunt").returncode == 0
    done = cli(path, "search", "unicorn")
    assert done.stdout.split("\t")[0] == "ses_1"
    assert done.stdout.split("\t")[4:] == ["-", "The unicorn hunt", "The unicorn hunt\n"]
    (hit,) = json.loads(cli(path, "search", "unicorn", "--json").stdout)
    assert (hit["turn"], hit["origin"], hit["matches"]) == (None, "title", [[4, 11]])


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("🎉", "; the search ignores everything but letters and digits"),
        ("z*", "; z* needs at least two letters before the star"),
        ("zebra", ""),
    ],
)
def test_search_without_usable_terms_gives_the_reason(path: Path, typed: str, why: str) -> None:
    done = cli(path, "search", typed)
    assert (done.returncode, done.stderr) == (0, f"rekindle: note: nothing found{why}\n")


def test_agent_title_is_indexed(path: Path) -> None:
    with SqliteStore(path) as store:
        source = TitleSource.AGENT
        store.write([Titled(session_id="ses_2", at_us=NOW, source=source, title="Griffin ride")])
    assert cli(path, "search", "griffin").stdout.startswith("ses_2\t")


def test_busy_session_names_the_ways_to_continue(path: Path) -> None:
    holder = LeaseHolder(token="t", pid=os.getpid(), machine="here")  # noqa: S106
    with SqliteStore(path) as store:
        store.acquire_lease("ses_1", holder)
        done = cli(path, "prompt", "ses_1", "Hello", "--", "true")
        problem = f"session ses_1 is in use by process {os.getpid()} on here; "
        remedy = "close it there, continue it here with --takeover, or copy it with"
        expected = f"rekindle: error: {problem}{remedy} `rekindle fork ses_1`\n"
        assert (done.returncode, done.stderr) == (1, expected)
        # Other commands have no such option.
        done = cli(path, "delete", "ses_1")
        assert done.stderr == f"rekindle: error: {problem}close it there first\n"
        assert cli(path, "fork", "ses_1").returncode == 0
