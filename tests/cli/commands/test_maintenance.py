"""`rename`, `archive`, `fork`, `prune`, `stats` and `compact`, as a person uses them."""

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from command_runs import STYLE, Done, run, terminal
from rekindle.cli.main import COMMANDS
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Archived,
    Counted,
    Deleted,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Page,
    Session,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.files import index_path
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.reducer import fold

DAY = 24 * 3600 * 1_000_000
NOW = time.time_ns() // 1000
HOLDER = LeaseHolder(token="t", pid=os.getpid(), machine="here")  # noqa: S106 - no password


def entry(session: str, kind: Kind, message: object, at_us: int) -> EntryBatch:
    line = json.dumps(message).encode()
    return EntryBatch(session_id=session, side=Side.AGENT, kind=kind, at_us=at_us, data=line)


def turn(session: str, text: str, at_us: int) -> list[EntryBatch | Counted]:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Yes."}}
    return [
        entry(
            session,
            Kind.PROMPT,
            {"id": 1, "params": {"prompt": [{"type": "text", "text": text}]}},
            at_us,
        ),
        entry(session, Kind.UPDATE, {"params": {"update": said}}, at_us),
        entry(session, Kind.ANSWER, {"id": 1, "result": {"stopReason": "end_turn"}}, at_us),
        Counted(session_id=session, at_us=at_us, turns=1, messages=2),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Create a store with sessions of 0, 50, 100 and 400 days, and an unopened one of 200."""
    path = tmp_path / "s.db"
    agent = AgentIdentity(name="Fake", command=("fake",))
    with SqliteStore(path) as store:
        for days in (0, 50, 100, 400):
            name, at_us = f"ses_{days}", NOW - days * DAY
            output = Titled(
                session_id=name, at_us=at_us, source=TitleSource.AGENT, title=f"T{days}"
            )
            store.write(
                [
                    Opened(
                        session_id=name, at_us=at_us, agent=agent, cwd="/p", directories=("/q",)
                    ),
                    output,
                    *turn(name, "one", at_us),
                    *turn(name, "two", at_us),
                ]
            )
        store.write(turn("ses_stray", "sub", NOW - 200 * DAY))
    return path


Cli = Callable[..., Done]


@pytest.fixture
def cli(path: Path) -> Cli:
    return lambda command, *rest, **how: run(command, "--store", path, *rest, **how)


def session(path: Path, name: str) -> Session:
    with SqliteStore(path, create=False) as store:
        return store.session(name)


def ids(path: Path, **page: object) -> list[str]:
    with SqliteStore(path, create=False) as store:
        return sorted(item.id for item in store.sessions(Page(with_unopened=True, **page)))  # type: ignore[arg-type]


ALL = ["ses_0", "ses_100", "ses_400", "ses_50", "ses_stray"]


def test_user_title_outlives_agent_titles(path: Path, cli: Cli) -> None:
    done = cli("rename", "ses_0", "Fix", "the  parser 👨‍👩‍👧")
    assert (done.returncode, done.stdout) == (0, "ses_0: T0 → Fix the parser 👨‍👩‍👧\n")
    with SqliteStore(path) as store:
        store.write(
            [Titled(session_id="ses_0", at_us=NOW, source=TitleSource.AGENT, title="Later")]
        )
    assert session(path, "ses_0").title == "Fix the parser 👨‍👩‍👧"
    assert cli("rename", "ses_0", "--clear").stdout == "ses_0: Fix the parser 👨‍👩‍👧 → Later\n"
    assert session(path, "ses_0").title_source is TitleSource.AGENT


@pytest.mark.parametrize(
    ("arguments", "error_output"),
    [
        ([], "no title given; type one after the session"),
        ([" "], "no title given; type one after the session"),
        (["x", "--clear"], "no title given; type one after the session"),
        (["a\x1b[31mb"], "control characters"),
        (["x" * 501], "at most 500 characters"),
        ([b"\xff"], "not valid UTF-8"),
    ],
)
def test_invalid_title_is_refused(
    path: Path, cli: Cli, arguments: list[str | bytes], error_output: str
) -> None:
    done = cli("rename", "ses_0", *arguments)
    assert done.returncode == 2
    assert error_output in done.stderr
    assert session(path, "ses_0").title == "T0"


def test_unarchive_restores_an_archived_session(path: Path, cli: Cli) -> None:
    done = cli("archive", "ses_0", "ses_50", "ses_0")
    assert (done.returncode, done.stdout) == (0, "archived ses_0: T0\narchived ses_50: T50\n")
    assert ids(path, archived=True) == ["ses_0", "ses_50"]
    assert cli("unarchive", "ses_5").stdout == "unarchived ses_50: T50\n"
    assert ids(path, archived=True) == ["ses_0"]


def test_delete_of_several_sessions_is_atomic(path: Path, cli: Cli) -> None:
    done = cli("delete", "ses_0", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert ids(path) == ALL
    assert cli("delete", "ses_0", "ses_50").stdout == "deleted ses_0: T0\ndeleted ses_50: T50\n"
    assert ids(path, deleted=True) == ["ses_0", "ses_50"]
    since_us = session(path, "ses_0").deleted_us
    assert cli("delete", "ses_0").returncode == 0
    assert session(path, "ses_0").deleted_us == since_us
    assert cli("undelete", "ses_0", "ses_50").returncode == 0
    assert ids(path) == ALL


@pytest.mark.parametrize(
    "command", [["rename", "ses_0", "x"], ["archive", "ses_0"], ["fork", "ses_0"]]
)
def test_session_in_use_can_be_renamed_archived_and_forked(
    path: Path, cli: Cli, command: list[str]
) -> None:
    with SqliteStore(path) as store:
        store.acquire_lease("ses_0", HOLDER)
        assert cli(*command).returncode == 0
        assert store.lease_holder("ses_0") == HOLDER


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "command",
    [
        ["rename", "ses_0", "x"],
        ["archive", "ses_0"],
        ["unarchive", "ses_0"],
        ["fork", "ses_0"],
        ["relocate", "ses_0", "/"],
    ],
)
def test_deleted_session_cannot_be_changed(path: Path, cli: Cli, command: list[str]) -> None:
    with SqliteStore(path) as store:
        store.write([Deleted(session_id="ses_0", at_us=NOW)])
    done = cli(*command)
    assert (done.returncode, done.stdout) == (1, "")
    expected = "session ses_0 is deleted; `rekindle undelete ses_0` restores it"
    assert done.stderr == f"rekindle: error: {expected}\n"
    assert ids(path, deleted=True) == ["ses_0"]
    assert cli("delete", "ses_0", "--now", "--yes").returncode == 0
    assert "was purged" in cli(*command).stderr


def test_fork_copies_the_record_and_is_independent(path: Path, cli: Cli) -> None:
    done = cli("fork", "ses_0")
    assert (done.returncode, done.stderr) == (0, "")
    fork = session(path, done.stdout.strip())
    assert (fork.parent_id, fork.title, fork.turns, fork.messages) == ("ses_0", "T0 (fork)", 2, 4)
    assert (fork.agent_session_id, fork.cwd, fork.directories) == (UNKNOWN_TO_AGENT, "/p", ("/q",))
    with SqliteStore(path, create=False) as store:
        assert list(store.read(fork.id)) == list(store.read("ses_0"))


def test_fork_until_a_turn(path: Path, cli: Cli) -> None:
    fork = session(path, cli("fork", "ses_0", "--until", "1").stdout.strip())
    assert (fork.turns, fork.messages, fork.last_seq) == (1, 2, 3)
    with SqliteStore(path, create=False) as store:
        (only,) = fold(store.read(fork.id)).turns
        assert only.stop_reason == "end_turn"
    assert session(path, cli("fork", "ses_0", "--until", "2").stdout.strip()).turns == 2
    for wrong in ("0", "3", "-1"):
        done = cli("fork", "ses_0", "--until", wrong)
        assert done.returncode == 2
        assert f"session ses_0 has no turn {wrong}" in done.stderr


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--older-than", "90d"], ["ses_100", "ses_400", "ses_stray"]),
        (["--older-than", "3m"], ["ses_100", "ses_400", "ses_stray"]),
        (["--older-than", "1y"], ["ses_400"]),
        (["--older-than", "2y"], []),
        (["--older-than", "8W"], ["ses_100", "ses_400", "ses_stray"]),
        (["--older-than", "24h"], ["ses_100", "ses_400", "ses_50", "ses_stray"]),
        (["--keep", "1"], ["ses_100", "ses_400", "ses_50", "ses_stray"]),
        (["--keep", "9"], []),
        (["--older-than", "90d", "--keep", "3"], ["ses_400", "ses_stray"]),
        (["--older-than", "1y", "--keep", "1"], ["ses_400"]),
        (["--older-than", "90d", "--agent", "fake"], ["ses_100", "ses_400"]),
        (["--older-than", "90d", "--agent", "other"], []),
        (["--older-than", "90d", "--here"], []),
    ],
)
def test_prune_deletes_old_sessions(
    path: Path, cli: Cli, options: list[str], gone: list[str]
) -> None:
    done = cli("prune", *options, "--dry-run")
    assert done.returncode == 0
    assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == gone
    assert ids(path) == ALL
    listed = done.stdout
    done = cli("prune", *options, "--yes")
    assert (done.returncode, done.stdout) == (0, listed)
    assert ids(path, deleted=True) == gone
    expected = f"deleted {len(gone)} session" if gone else "nothing to delete"
    assert done.stderr.startswith(expected)


def test_prune_keeps_sessions_in_use_or_archived(path: Path, cli: Cli) -> None:
    with SqliteStore(path) as store:
        store.acquire_lease("ses_100", HOLDER)
        store.write([Archived(session_id="ses_400", at_us=NOW)])
        done = cli("prune", "--older-than", "90d", "--dry-run")
        assert done.stdout.count("\n") == 1
        weight = store.entries_size(["ses_stray"])
        expected = f"would delete 1 session ({weight} B) (1 session in use skipped)\n"
        assert done.stderr == expected
        cli("prune", "--older-than", "90d", "--archived", "--yes")
        assert ids(path, deleted=True, with_archived=True) == ["ses_400", "ses_stray"]


def test_prune_now_purges(path: Path, cli: Cli) -> None:
    done = cli("prune", "--older-than", "90d", "--yes", "--now")
    assert done.stderr.startswith("purged 3 sessions (")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [
        "ses_100",
        "ses_stray",
        "ses_400",
    ]
    for name in ("ses_100", "ses_400", "ses_stray"):
        assert session(path, name).is_purged
        assert "was purged" in cli("undelete", name).stderr
    assert session(path, "ses_50").last_seq == 6


def test_prune_without_terminal_needs_yes(path: Path, cli: Cli) -> None:
    done = cli("prune", "--older-than", "90d", typed="y\n")
    assert done.returncode == 2
    assert "no terminal to confirm on; pass --yes to delete, or --dry-run" in done.stderr
    assert ids(path) == ALL


@pytest.mark.parametrize(
    "options",
    [
        ["--yes"],
        ["--older-than", "90"],
        ["--older-than", "-1d"],
        ["--older-than", "x"],
        ["--older-than", "9999999999d"],
        ["--keep", "-1"],
        ["--keep", "x"],
    ],
)
def test_prune_without_criteria_is_refused(path: Path, cli: Cli, options: list[str]) -> None:
    done = cli("prune", "--yes", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert ids(path) == ALL


@pytest.mark.parametrize(
    ("typed", "code", "left"),
    [("y\n", 0, 2), ("YES\n", 0, 2), ("n\n", 1, 5), ("\n", 1, 5), ("\x04", 1, 5)],
)
def test_prune_asks_for_confirmation(path: Path, typed: str, code: int, left: int) -> None:
    with terminal("prune", "--store", path, "--older-than", "90d") as opened:
        output = opened.read_until(lambda shown: "[y/N]" in shown)
        rows = [line for line in STYLE.sub("", output).splitlines() if line.startswith("  ses_")]
        assert [row.split()[0] for row in rows] == ["ses_100", "ses_stray", "ses_400"]
        assert rows[0].index("T100") == rows[1].index("(no title)") == rows[2].index("T400")
        assert "Delete 3 sessions (" in output
        opened.type(typed)
        assert opened.end() == code
        assert ("nothing was deleted" in opened.shown) is (code == 1)
    assert len(ids(path)) == left


@pytest.mark.parametrize("how", ["--dry-run", "--yes", "--now"])
def test_prune_shows_a_table_on_a_terminal(path: Path, how: str) -> None:
    options = ["--older-than", "90d", how, *["--yes"] * (how == "--now")]
    with terminal("prune", "--store", path, *options, COLUMNS="60") as opened:
        assert opened.end() == 0
        shown = STYLE.sub("", opened.shown).splitlines()
    assert shown[0].split() == ["ID", "AGE", "AGENT", "PROJECT", "TURNS", "TITLE"]
    assert [line.split()[0] for line in shown[1:4]] == ["ses_100", "ses_stray", "ses_400"]
    assert max(map(len, shown[:4])) <= 60


def test_ctrl_c_at_the_confirmation_deletes_nothing(path: Path) -> None:
    with terminal("prune", "--store", path, "--older-than", "90d") as opened:
        opened.read_until(lambda shown: "[y/N]" in shown)
        opened.interrupt()
        assert opened.end() == 130
        assert "Traceback" not in opened.shown
    assert ids(path) == ALL


def test_stats_prints_the_figures(cli: Cli) -> None:
    cli("archive", "ses_0")
    cli("delete", "ses_400")
    done = cli("stats", "--weeks", "2", COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "sessions  3 (1 archived, and 1 deleted)",
        "turns     6",
        "messages  12",
    ]
    assert lines[9].split() == ["Fake", "3", "6", "█" * 40]
    assert [line.split()[1:3] for line in lines[-2:]] == [["0", "0"], ["1", "2"]]
    assert max(map(len, lines)) <= 60
    narrow = cli("stats", COLUMNS="20").stdout.splitlines()
    assert max(len(line) for line in narrow[-12:]) <= 20
    assert "#" in cli("stats", PYTHONIOENCODING="ascii").stdout


def test_stats_of_an_empty_store(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "s.db").close()
    done = run("stats", "--store", tmp_path / "s.db")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"rekindle: note: {NO_SESSIONS_YET}\n",
    )
    assert json.loads(run("stats", "--store", tmp_path / "s.db", "--json").stdout)["sessions"] == 0
    assert run("stats", "--store", tmp_path / "s.db", "--weeks", "0").returncode == 2


def test_compact_reclaims_space(path: Path, cli: Cli) -> None:
    with SqliteStore(path) as store:
        store.write([entry("ses_0", Kind.UPDATE, "x" * 3_000_000, NOW)])
        store.write([Deleted(session_id="ses_0", at_us=NOW - 31 * DAY)])
        store.write([Deleted(session_id="ses_50", at_us=NOW)])
    done = cli("compact")
    assert (done.returncode, done.stderr) == (0, "")
    purged, sizes = done.stdout.splitlines()
    assert purged == "purged 1 session deleted over 30 days ago"
    assert sizes.startswith("3.")
    assert sizes.endswith(" MB")
    assert path.stat().st_size < 200_000
    assert session(path, "ses_50").last_seq == 6
    assert cli("compact").stdout.endswith(": reclaimed nothing\n")


def test_compact_includes_the_search_index(path: Path, cli: Cli) -> None:
    assert cli("search", "two").stdout.count("\n") == 4
    assert cli("delete", "ses_100", "ses_400", "--now", "--yes").returncode == 0
    with closing(apsw.Connection(str(index_path(path)))) as index:
        assert index.pragma("freelist_count") > 0
    before = index_path(path).stat().st_size
    assert cli("compact").returncode == 0
    assert index_path(path).stat().st_size < before
    assert cli("search", "two").stdout.count("\n") == 2


NEEDS_SESSION = {
    "rename": ["x"],
    "archive": [],
    "unarchive": [],
    "fork": [],
    "relocate": ["/"],
    "delete": [],
    "undelete": [],
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("command", NEEDS_SESSION)
def test_unknown_or_ambiguous_id_is_an_error(cli: Cli, command: str) -> None:
    for given, error_output in (
        ("nobody", "no session matches 'nobody'; `rekindle list"),
        ("ses_", "'ses_' matches 5 sessions; type more of a title or of an id\n  ses_0 "),
        ("", "no session matches ''"),
    ):
        done = cli(command, given, *NEEDS_SESSION[command])
        assert (done.returncode, done.stdout) == (1, "")
        assert error_output in done.stderr
        assert done.stderr.count("\n") == (6 if given == "ses_" else 1)
    done = cli(command, b"\xff", *NEEDS_SESSION[command])
    assert done.returncode == 2
    assert "not valid UTF-8: '\\udcff'" in done.stderr


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "command", [*NEEDS_SESSION, "prune --yes --keep 1", "compact", "stats", "list"]
)
def test_missing_or_invalid_store_is_reported(tmp_path: Path, command: str) -> None:
    name, *options = command.split()
    rest = ["ses", *NEEDS_SESSION[name]] if name in NEEDS_SESSION else []
    none = tmp_path / "none.db"
    done = run(name, "--store", none, *options, *rest)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rekindle: error: there is no store at {none}; ")
    assert not none.exists()
    none.write_bytes(b"garbage" * 1000)
    done = run(name, "--store", none, *options, *rest)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["archive ses_0", "compact"])
def test_locked_store_is_waited_for_and_reported(path: Path, cli: Cli, command: str) -> None:
    with SqliteStore(path) as store:
        store.write([Deleted(session_id="ses_0", at_us=1)])
        store.purge("ses_0")
        store.write([Opened(session_id="ses_0", at_us=1, cwd="/p")])
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    done = cli(*command.split())
    holder.close()
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"rekindle: error: the store {path} is locked by another process; try again later\n"
    )
    assert ids(path) == ALL


def test_reference_lists_every_command() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"rekindle {name}" not in text] == []
