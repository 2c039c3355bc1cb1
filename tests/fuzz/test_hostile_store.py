"""Commands on a store with hostile content show it, and do nothing else."""

import io
import random
from pathlib import Path

import pytest

from command_runs import run, terminal
from fuzz.hostile import PATHS, TEXTS
from fuzz.peers import converse
from fuzz.targets import entry_batch
from recorded_sessions import NOW, answered, asked, entry, told
from rekindle.cli.main import main
from rekindle.model import AgentIdentity, Change, Counted, Kind, Opened, Page, Titled, TitleSource
from rekindle.store.sqlite.store import SqliteStore
from safe_documents import INVISIBLE, STYLE, check

MUCH = 10_000
FORMATS = ("markdown", "html", "json", "acp", "bundle")


def hostile_session(session_id: str, words: str) -> list[Change]:
    agent = AgentIdentity(name=words[:200], version=words[:200], command=(words[:200], "--x"))
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": words,
        "title": words,
        "kind": words,
        "status": words,
        "rawInput": {words[:50]: words},
        "locations": [{"path": words}],
        "content": [{"type": "diff", "path": words, "oldText": words, "newText": f"x{words}"}],
    }
    return [
        Opened(session_id=session_id, at_us=NOW, agent=agent, cwd=f"/{words[:200]}"),
        Titled(session_id=session_id, at_us=NOW, source=TitleSource.AGENT, title=words[:500]),
        Counted(session_id=session_id, at_us=NOW, turns=1),
        asked(session_id, f"needle {words}"),
        told(session_id, words),
        entry(session_id, Kind.UPDATE, {"params": {"update": call}}),
        answered(session_id),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that contains only a store in a subfolder."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "home").mkdir()
    (folder / "out").mkdir()
    with SqliteStore(folder / "store" / "s.db") as store:
        for number, session_id in enumerate(PATHS):
            store.write(hostile_session(session_id, TEXTS[number % len(TEXTS)]))
        for words in TEXTS[:20]:
            store.write(hostile_session(f"x{words[:300]}", words[:3000]))
        for seed in range(3):
            # Add the records of random conversations.
            peers = converse(random.Random(seed), 0.3, 60)
            for session in peers.record.store.sessions(Page(limit=100, with_unopened=True)):
                name = f"random-{seed}-{session.id}"[:300]
                said = peers.record.store.read(session.id)
                store.write([entry_batch(name, it) for it in said if len(it.line) < MUCH])
    return folder


def every_id(folder: Path) -> list[str]:
    with SqliteStore(folder / "store" / "s.db", create=False) as store:
        return [it.id for it in store.sessions(Page(limit=1000, with_unopened=True))]


def files(folder: Path) -> set[str]:
    """Return all files except those of the store."""
    beside = (it for it in folder.rglob("*") if not it.name.startswith("s.db"))
    return {str(it.relative_to(folder)) for it in beside if it.parent.name != "s.db.live"}


def in_pipe(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the output of a command. Fail if it ends with an internal error."""
    code = main([words[0], "--store", str(folder / "store" / "s.db"), *words[1:]])
    printed = capsys.readouterr()
    assert code in {0, 1}, printed.err
    assert not INVISIBLE.search(printed.err)
    return printed.out


@pytest.fixture(autouse=True)
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "home")
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "home"))
    monkeypatch.setattr("sys.stdin", io.StringIO())


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["list", "--json"], ["list", "--all"], ["search", "needle"], ["stats"],
        ["search", "needle", "--json"], ["stats", "--json"], ["doctor"], ["doctor", "--json"],
        ["prune", "--older-than", "1d", "--dry-run"], ["reindex"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_lists_are_harmless(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = files(folder)
    assert not INVISIBLE.search(in_pipe(folder, capsys, *words))
    assert files(folder) == before


def test_shown_sessions_are_harmless(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(folder)
    for session_id in every_id(folder):
        shown = in_pipe(folder, capsys, "show", "--tools", "--thoughts", "--", session_id)
        assert not INVISIBLE.search(shown)
        assert not INVISIBLE.search(in_pipe(folder, capsys, "show", "--json", "--", session_id))
    assert files(folder) == before


@pytest.mark.parametrize("name", FORMATS)
def test_export_writes_only_the_named_file(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = files(folder)
    out = folder / "out" / name
    for session_id in every_id(folder):
        in_pipe(
            folder, capsys,
            "export", "--format", name, "--force", "-o", str(out), "--", session_id,
        )  # fmt: skip
        assert files(folder) == {*before, f"out/{name}"}
        assert out.stat().st_mode & 0o777 == 0o600
        if name == "html":
            check(out.read_text(encoding="utf-8"))
        elif name != "bundle":
            assert not INVISIBLE.search(out.read_text(encoding="utf-8"))
    out.unlink()


@pytest.mark.parametrize(
    "words",
    [["list"], ["search", "needle"], ["stats"], ["doctor"], ["show", "--tools", "--", "$(id)"]],
    ids=lambda it: it[0],
)
def test_terminal_output_has_no_hostile_control_codes(folder: Path, words: list[str]) -> None:
    store = str(folder / "store" / "s.db")
    home = str(folder / "home")
    with terminal(words[0], "--store", store, *words[1:], HOME=home, PAGER="cat") as opened:
        assert opened.end() in {0, 1}
        shown = opened.shown
    # Rekindle itself writes colours, and the codes that replace the line of a progress bar.
    rest = STYLE.sub("", shown).replace("\r\x1b[2K", "").replace("\x1b[K", "").replace("\r", "")
    assert not INVISIBLE.search(rest), INVISIBLE.findall(rest)


def test_completion_offers_ids_and_titles_as_plain_text(folder: Path) -> None:
    store = str(folder / "store" / "s.db")
    for words in (["show", ""], ["list", "--agent", ""]):
        done = run("complete", "--", *words, REKINDLE_STORE=store)
        assert done.returncode == 0
        kind, *offered = done.stdout.splitlines()
        assert kind == "words"
        assert offered
        assert not INVISIBLE.search(done.stdout.replace("\t", ""))


def test_bundle_of_hostile_sessions_changes_only_the_target_store(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(folder)
    out = str(folder / "out" / "all")
    in_pipe(folder, capsys, "export", "--format", "bundle", "--all", "-o", out)
    other = str(folder / "out" / "s.db")
    assert main(["import", "--store", other, out]) == 0
    assert not INVISIBLE.search(capsys.readouterr().out)
    assert files(folder) == {*before, "out/all"}
    Path(out).unlink()
