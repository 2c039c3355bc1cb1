"""`rekindle delete`, `undelete` and `relocate`."""

import json
import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import warm_start
from command_runs import terminal
from rekindle.model import (
    Deleted,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Page,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

NOW = 1_700_000_000_000_000
SECRET = b"hunter2-hunter2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for number, folder in enumerate(("/old", "/old/sub", "/older")):
            name = f"ses_{number}"
            said = EntryBatch(
                session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=SECRET
            )
            store.write([Opened(session_id=name, at_us=NOW, cwd=folder), said])
    return path


def cli(command: str, path: Path, *arguments: str | Path) -> tuple[int, str, str]:
    done = warm_start.run(
        [*REKINDLE, command, "--store", path, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
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


def test_undelete_restores_a_deleted_session(path: Path) -> None:
    assert cli("delete", path, "ses_1") == (0, "deleted ses_1: (no title)\n", "")
    assert listed(path) == ["ses_0", "ses_2"]
    _, shown, _ = cli("list", path, "--deleted")
    assert shown.startswith("ses_1\t")
    assert cli("undelete", path, "ses_1") == (0, "restored ses_1: (no title)\n", "")
    assert listed(path) == ["ses_0", "ses_1", "ses_2"]


def test_purge_removes_all_bytes_from_the_files(path: Path) -> None:
    assert SECRET in path.read_bytes()
    for name in ("ses_0", "ses_1", "ses_2"):
        assert cli("delete", path, name, "--purge-now", "-y")[:2] == (
            0,
            f"purged {name}: (no title)\n",
        )
    for file in path.parent.iterdir():
        assert file.is_dir() or SECRET not in file.read_bytes()
    code, _, error_output = cli("undelete", path, "ses_0")
    assert code == 1
    assert error_output == "rekindle: error: session ses_0 was purged; it cannot be restored\n"
    assert not cli("list", path, "--deleted")[1]


def record_interleaved(path: Path) -> list[tuple[str, list[str]]]:
    """Record sessions alternately, so that their entries share pages; return their texts."""
    words: dict[str, list[str]] = {f"many_{number:02}": [] for number in range(30)}
    with SqliteStore(path) as store:
        for part in range(12):
            for number, (name, said) in enumerate(words.items()):
                word = f"word{number:02}x{part:02}q"
                length = (number * 37 + part * 101) % 900
                line = {"params": {"prompt": [{"type": "text", "text": f"{word} " * 3}]}}
                data = json.dumps(line | {"x": "y" * length}).encode()
                said.append(word)
                title = Titled(
                    session_id=name, at_us=NOW, source=TitleSource.AGENT, title=f"title of {word}"
                )
                prompt = EntryBatch(
                    session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=data
                )
                store.write([Opened(session_id=name, at_us=NOW, cwd=f"/{word}"), title, prompt])
    return list(words.items())


def remains_of(path: Path, arguments: list[str]) -> list[tuple[str, str]]:
    files = [item for item in path.parent.iterdir() if item.is_file()]
    return [
        (file.name, word)
        for file in files
        for word in arguments
        if word.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("how", ["delete", "prune"])
def test_purge_clears_pages_shared_with_other_sessions(path: Path, how: str) -> None:
    (name, words), *others = record_interleaved(path)
    assert cli("search", path, words[0])[1].startswith(name)
    assert remains_of(path, words)
    if how == "delete":
        assert cli("delete", path, name, "--now", "--yes")[0] == 0
        gone, kept = words, others
    else:
        with SqliteStore(path) as store:
            store.write([opened_now(other) for other, _ in others[15:]])
        assert cli("prune", path, "--keep", "15", "--now", "--yes")[0] == 0
        gone = [word for _, said in [(name, words), *others[:14]] for word in said]
        kept = others[15:]
    assert remains_of(path, gone) == []
    for other, said in kept:
        assert cli("show", path, other)[1].count(said[0]) >= 3
        break


def opened_now(session: str) -> EntryBatch:
    at_us = NOW + 1
    return EntryBatch(
        session_id=session, side=Side.CLIENT, kind=Kind.PROMPT, at_us=at_us, data=b"{}"
    )


def test_blocked_purge_is_reported_and_can_be_repeated(
    path: Path,
) -> None:
    (name, words), *_ = record_interleaved(path)
    with closing(apsw.Connection(str(path))) as reader:
        reader.execute("begin; select count(*) from stretch").fetchall()
        code, shown, error_output = cli("delete", path, name, "--now", "--yes")
        assert (code, shown) == (1, f"purged {name}: title of {words[-1]}\n")
        assert "is locked by another process" in error_output
        assert f"`rekindle delete --now {name}` tries again" in error_output
    assert cli("delete", path, name, "--now", "--yes")[0] == 0
    assert remains_of(path, words) == []


def test_session_in_use_is_neither_deleted_nor_relocated(path: Path) -> None:
    with SqliteStore(path) as store:
        store.acquire_lease("ses_0", LeaseHolder(token="t", pid=os.getpid(), machine="here"))  # noqa: S106
        for command, *rest in (("delete", "ses_0"), ("relocate", "ses_0", str(path.parent))):
            code, _, error_output = cli(command, path, *rest)
            assert code == 1
            assert f"is in use by process {os.getpid()} on here" in error_output
    assert listed(path) == ["ses_0", "ses_1", "ses_2"]


def test_relocate_moves_one_session(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    code, _, error_output = cli("relocate", path, "ses_0", new)
    assert code == 2
    assert f"there is no folder {new}" in error_output
    new.mkdir()
    assert cli("relocate", path, "ses_0", new) == (0, f"ses_0: /old → {new}\n", "")
    assert folders(path) == [str(new), "/old/sub", "/older"]


def test_relocate_all_moves_sessions_below_a_folder(path: Path, tmp_path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([Deleted(session_id="ses_2", at_us=NOW)])
    code, shown, _ = cli("relocate", path, "--all", "/old", tmp_path)
    assert code == 0
    assert sorted(shown.splitlines()) == [
        f"ses_0: /old → {tmp_path}",
        f"ses_1: /old/sub → {tmp_path}/sub",
    ]
    assert folders(path) == [str(tmp_path), f"{tmp_path}/sub", "/older"]
    _, shown, note = cli("relocate", path, "--all", "/nowhere", tmp_path)
    assert (shown, note) == ("", "rekindle: note: no session belongs to /nowhere\n")


@pytest.mark.parametrize("command", ["delete", "undelete"])
def test_missing_sessions_and_folders_are_errors(tmp_path: Path, path: Path, command: str) -> None:
    code, _, error_output = cli(command, tmp_path / "none.db", "x")
    why = "record a session first, or name another store with --store"
    assert (code, error_output) == (
        1,
        f"rekindle: error: there is no store at {tmp_path}/none.db; {why}\n",
    )
    code, _, error_output = cli(command, path, "nobody")
    assert code == 1
    listing = "`rekindle list --deleted`" if command == "undelete" else "`rekindle list`"
    assert error_output.startswith(f"rekindle: error: no session matches 'nobody'; {listing} shows")


# -- the question before --now --------------------------------------------------------------


def test_erasing_without_a_terminal_needs_yes(path: Path) -> None:
    code, shown, error_output = cli("delete", path, "ses_1", "--now")
    assert (code, shown) == (2, "")
    assert error_output.startswith("rekindle: error: --now erases sessions for good; ")
    assert "it needs --yes" in error_output
    assert listed(path) == ["ses_0", "ses_1", "ses_2"]
    assert SECRET in path.read_bytes()


@pytest.mark.parametrize(
    ("typed", "code", "left"), [("y\n", 0, ["ses_2"]), ("\n", 1, ["ses_0", "ses_1", "ses_2"])]
)
def test_erasing_on_a_terminal_asks_with_the_titles(
    path: Path, typed: str, code: int, left: list[str]
) -> None:
    with SqliteStore(path) as store:
        store.write([Titled(session_id="ses_0", at_us=NOW, source=TitleSource.USER, title="Mine")])
    with terminal("delete", "--store", path, "ses_0", "ses_1", "--now") as opened:
        shown = opened.read_until(lambda shown: "[y/N]" in shown)
        assert "  ses_0  Mine\n  ses_1  (no title)\nErase 2 sessions for good? [y/N]" in shown
        opened.type(typed)
        assert opened.end() == code
    assert listed(path) == left


def test_deleting_does_not_ask(path: Path) -> None:
    with terminal("delete", "--store", path, "ses_1") as opened:
        assert opened.end() == 0
    assert listed(path) == ["ses_0", "ses_2"]
