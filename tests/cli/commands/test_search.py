"""`rekindle search` and `rekindle reindex`, as a person and as a script use them."""

import json
import os
import pty
import re
import time
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

import warm_start
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.model import (
    AgentIdentity,
    Deleted,
    EntryBatch,
    Kind,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import CWD, EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client
from store_damage import overwrite

NOW = 1_700_000_000_000_000
HOUR = 3_600_000_000
TOKEN = "ghp_" + "aB3dE5gH7jK9" * 3


def cli(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    done = warm_start.run(
        [*REKINDLE, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env=os.environ | environment,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def prompt(session: str, text: str, at_us: int) -> EntryBatch:
    line = json.dumps({"params": {"prompt": [{"type": "text", "text": text}]}}).encode()
    return EntryBatch(
        session_id=session, side=Side.CLIENT, kind=Kind.PROMPT, at_us=at_us, data=line
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    agents = {
        "ses_one": AgentIdentity(name="OpenCode", command=("opencode", "acp")),
        "ses_two": AgentIdentity(command=("/opt/gemini", "--acp")),
    }
    with SqliteStore(path) as opened:
        for number, (session, agent) in enumerate(agents.items()):
            at_us = NOW + number * HOUR
            title = f"About \x1b[31m{session}"
            output = Opened(session_id=session, at_us=at_us, agent=agent, cwd=f"/p/{session}")
            titled = Titled(session_id=session, at_us=at_us, source=TitleSource.AGENT, title=title)
            opened.write(
                [output, titled, prompt(session, f"Hello \x1b]0;x\x07\nyou {number}", at_us)]
            )
        opened.write([prompt("ses_one", f"My token is {TOKEN}, hush", NOW + 1)])
    return path


def test_hits_are_sorted_by_relevance(store: Path) -> None:
    expected = (
        "ses_two\t2023-11-14T23:13:20.000+00:00\tgemini\t/p/ses_two\t1"
        "\tAbout \\x1b[31mses_two\tHello ]0;x you 1\n"
        "ses_one\t2023-11-14T22:13:20.000+00:00\tOpenCode\t/p/ses_one\t1"
        "\tAbout \\x1b[31mses_one\tHello ]0;x you 0\n"
    )
    assert cli("search", "--store", store, "hello") == (0, expected, "")


def test_json_has_all_fields_of_a_hit(store: Path) -> None:
    code, shown, _ = cli("search", "--store", store, "--json", "token", "hush")
    (hit,) = json.loads(shown)
    assert code == 0
    assert hit.pop("score") > 0
    assert hit == {
        "sessionId": "ses_one",
        "title": "About \x1b[31mses_one",
        "agent": "OpenCode",
        "cwd": "/p/ses_one",
        "turn": 2,
        "at": "2023-11-14T22:13:20.000+00:00",
        "origin": "user",
        "snippet": "My token is ***, hush",
        "matches": [[3, 8], [17, 21]],
    }


def test_secrets_are_masked_by_default(store: Path) -> None:
    for words in (["hush"], [TOKEN], ["--json", "hush"]):
        assert TOKEN not in cli("search", "--store", store, *words)[1]
        assert TOKEN in cli("search", "--store", store, "--no-redact", *words)[1]


def test_secrets_in_titles_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        words = f"deploy with {TOKEN} please"
        opened.write(
            [
                Opened(session_id="s", at_us=NOW, agent=AgentIdentity(name=TOKEN), cwd=f"/{TOKEN}"),
                Titled(session_id="s", at_us=NOW, source=TitleSource.PROMPT, title=words),
                prompt("s", words, NOW),
            ]
        )
    for options in ([], ["--json"]):
        shown = cli("search", "--store", path, *options, "deploy")[1]
        assert "deploy with ghp_*** please" in shown
        assert TOKEN not in shown
        # In the title, the agent's name, the folder and the snippet.
        whole = cli("search", "--store", path, "--no-redact", *options, "deploy")[1]
        assert whole.count(TOKEN) == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["hello"], ["ses_two", "ses_one"]),
        (["hello", "--limit", "1"], ["ses_two"]),
        (["hello", "--cwd", "/p/x/../ses_one/"], ["ses_one"]),
        (["hello", "--agent", "GEMINI"], ["ses_two"]),
        (["hello", "--since", "2023-11-14T23:00:00+00:00"], ["ses_two"]),
        (["hello", "--since", "3d"], []),
        (["hello", "--since", "200y"], ["ses_two", "ses_one"]),
        (['"hello you"'], []),
        (["hell*", "you"], ["ses_two", "ses_one"]),
        (["--", "hello", "-1"], ["ses_one"]),
        (["hello -1"], ["ses_one"]),
        (["hello(you"], []),
        (['"hello'], ["ses_two", "ses_one"]),
        (["AND"], []),
    ],
)
def test_search_filters(store: Path, options: list[str], expected: list[str]) -> None:
    code, shown, error_output = cli("search", "--store", store, "--json", *options)
    assert (code, error_output) == (0, "")
    assert [hit["sessionId"] for hit in json.loads(shown)] == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no words to search for; type a word"),
        (["--", "-x"], "no words to search for"),
        (["--limit", "0", "x"], "--limit must be from 1"),
        (["--since", "yesterday", "x"], "not a time: yesterday"),
    ],
)
def test_wrong_usage_ends_with_2(store: Path, arguments: list[str], text: str) -> None:
    code, shown, error_output = cli("search", "--store", store, *arguments)
    assert (code, shown) == (2, "")
    assert text in error_output


def test_no_hits_are_reported(store: Path, tmp_path: Path) -> None:
    nothing = (0, "", "rekindle: note: nothing found\n")
    assert cli("search", "--store", store, "nonsense") == nothing
    fewer = "no message has all these words; try fewer, or the beginning of a word and *"
    assert cli("search", "--store", store, "hush", "nonsense")[2] == f"rekindle: note: {fewer}\n"
    empty = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "REKINDLE_STORE": ""}
    assert cli("search", "x", **empty) == (0, "", f"rekindle: note: {NO_SESSIONS_YET}\n")
    assert cli("search", "--json", "x", **empty)[1] == "[]\n"
    assert cli("reindex", **empty)[0] == 1
    assert cli("search", "--store", tmp_path / "none.db", "x")[0] == 1
    assert not (tmp_path / "data").exists()


def on_a_terminal(*arguments: str | Path) -> str:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    done = warm_start.run(
        [*REKINDLE, *arguments], stdout=theirs, timeout=TIMEOUT, check=True, env=environment
    )
    assert done.returncode == 0
    os.close(theirs)
    shown = b""
    # The kernel passes the output on in pieces, and reports its end as an error.
    with open(ours, "rb", buffering=0) as terminal, suppress(OSError):  # noqa: PTH123 - a descriptor
        while piece := terminal.read(100_000):
            shown += piece
    return shown.decode()


def test_terminal_highlights_the_search_terms(store: Path) -> None:
    years = int((time.time() - NOW / 1e6) / 86400 / 7 / 52)
    shown = on_a_terminal("search", "--store", store, "hush").replace("\r\n", "\n")
    plain = re.sub(r"\x1b\[[0-9;]*m| +$", "", shown, flags=re.MULTILINE)
    assert plain == (
        f"ses_one  {years} y · OpenCode · /p/ses_one · turn 2 · About \\x1b[31mses_one\n"
        "  My token is ***, hush\n\n"
    )
    assert "\x1b[33mhush\x1b[0m" in shown


def test_deleted_session_is_not_found(store: Path) -> None:
    def ids() -> list[str]:
        return [hit["sessionId"] for hit in json.loads(cli(*search)[1])]

    search = ("search", "--store", store, "--json", "hello")
    assert ids() == ["ses_two", "ses_one"]
    cli("delete", "--store", store, "ses_two")
    assert ids() == ["ses_one"]
    cli("undelete", "--store", store, "ses_two")
    assert ids() == ["ses_two", "ses_one"]
    cli("delete", "--store", store, "ses_one", "--purge-now", "--yes")
    for file in store.parent.glob("s.db.index*"):
        assert b"hush" not in file.read_bytes()
    assert ids() == ["ses_two"]


def test_wait_for_a_locked_index_is_bounded(store: Path) -> None:
    cli("search", "--store", store, "hello")
    with SqliteStore(store) as opened:
        opened.write([prompt("ses_one", "hello again", NOW + 2 * HOUR)])
    with closing(apsw.Connection(f"{store}.index")) as other:
        other.execute("begin immediate")
        code, shown, error_output = cli("search", "--store", store, "hello")
        assert (code, len(shown.splitlines())) == (0, 2)
        assert error_output == (
            f"rekindle: warning: the index {store}.index is in use by another process; "
            "the search may miss the latest turns\n"
        )
        other.execute("rollback")
        assert len(cli("search", "--store", store, "hello")[1].splitlines()) == 3


def test_locked_store_can_be_searched(store: Path) -> None:
    with closing(apsw.Connection(str(store))) as other:
        other.execute("begin immediate")
        code, shown, error_output = cli("search", "--store", store, "hello")
        assert (code, len(shown.splitlines()), error_output) == (0, 2, "")


def test_reindex_rebuilds_the_index(store: Path) -> None:
    cli("search", "--store", store, "hello")
    with closing(apsw.Connection(f"{store}.index")) as db:
        db.execute("delete from passage_0")
    assert cli("search", "--store", store, "hello")[1] == ""
    assert cli("reindex", "--store", store) == (0, "indexed 5 passages of 2 sessions\n", "")
    assert len(cli("search", "--store", store, "hello")[1].splitlines()) == 2


def test_damaged_index_is_reported(store: Path) -> None:
    cli("search", "--store", store, "hello")
    with closing(apsw.Connection(f"{store}.index")) as db:
        db.execute("update passage_0_data set block = x'ffffffffff'")
    code, _, error_output = cli("search", "--store", store, "hello")
    assert code == 1
    words = f"the index {store}.index is damaged; `rekindle reindex` rebuilds it"
    assert error_output == f"rekindle: error: {words}\n"
    assert cli("reindex", "--store", store)[0] == 0
    assert len(cli("search", "--store", store, "hello")[1].splitlines()) == 2


@pytest.mark.parametrize(
    ("table", "is_indexed"),
    [("stretch", False), ("session", False), ("session", True), ("lease", True)],
)
def test_search_in_a_damaged_store_warns_of_missing_hits(
    store: Path, table: str, *, is_indexed: bool
) -> None:
    if is_indexed:
        cli("search", "--store", store, "hello")
    overwrite(store, table)
    code, shown, error_output = cli("search", "--store", store, "nobody")
    assert (code, shown) == (1, "")
    first, *rest = error_output.splitlines()
    assert first.startswith(f"rekindle: error: the store {store} is damaged: ")
    assert first.endswith("; `rekindle doctor --fix` recovers what can be read")
    assert rest in ([], ["rekindle: note: nothing found in the readable part of the store"])


def test_running_conversation_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(Client(*REKINDLE, "run", "--store", path, "--", *EXAMPLE_AGENT)) as client:
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session_id = client.new()
        for number in range(3):
            words = f"unusual{number}"
            client.prompt(session_id, words)
            (hit,) = json.loads(cli("search", "--store", path, "--json", "--cwd", CWD, words)[1])
            assert (hit["sessionId"], hit["turn"]) == (session_id, number + 1)


def test_expired_sessions_are_purged_from_the_index(store: Path) -> None:
    cli("search", "--store", store, "hello")
    with SqliteStore(store) as opened:
        opened.write([Deleted(session_id="ses_one", at_us=1)])
    log = store.parent / "log"
    command = (*REKINDLE, "run", "--store", store, "--log", log, "--", *EXAMPLE_AGENT)
    with closing(Client(*command)) as client:
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        deadline = time.monotonic() + TIMEOUT
        while "purged ses_one" not in log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            client.call("session/list", {})
    for file in store.parent.glob("s.db.index*"):
        assert b"hush" not in file.read_bytes()


def test_search_reports_that_only_archived_sessions_match(store: Path) -> None:
    cli("archive", "--store", store, "ses_one")
    expected = "rekindle: note: only archived sessions match; --archived includes them\n"
    assert cli("search", "--store", store, "hush") == (0, "", expected)
    assert cli("search", "--store", store, "hush", "--archived")[1].startswith("ses_one\t")
    assert cli("search", "--store", store, "--json", "hush") == (0, "[]\n", "")
    nothing = (0, "", "rekindle: note: nothing found\n")
    assert cli("search", "--store", store, "hush", "--agent", "gemini") == nothing
    assert cli("search", "--store", store, "xyzzy", "--archived") == nothing
