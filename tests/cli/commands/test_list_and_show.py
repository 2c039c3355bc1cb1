"""`rekindle list` and `rekindle show`, as a person and as a script use them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import warm_start
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.model import (
    AgentIdentity,
    Counted,
    EntryBatch,
    Kind,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

HOUR = 3_600_000_000
NOW = 1_700_000_000_000_000


def cli(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm_start.run(
        [*REKINDLE, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env=os.environ | environment,
    )


def entry(session: str, kind: Kind, message: object, at_us: int = NOW) -> EntryBatch:
    line = json.dumps(message).encode()
    return EntryBatch(session_id=session, side=Side.AGENT, kind=kind, at_us=at_us, data=line)


def update(session: str, kind: str, /, **fields: object) -> EntryBatch:
    return entry(
        session,
        Kind.UPDATE,
        {"params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}},
    )


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


HELLO = {"params": {"prompt": [text("Hello\nyou")]}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    agents = {
        "ses_one": AgentIdentity(name="OpenCode", version="1.2", command=("opencode", "acp")),
        "ses_two": AgentIdentity(command=("/opt/gemini", "--acp")),
    }
    with SqliteStore(path) as opened:
        for number, (session, agent) in enumerate(agents.items()):
            at_us = NOW + number * HOUR
            opened.write(
                [
                    Opened(session_id=session, at_us=at_us, agent=agent, cwd=f"/p/{session}"),
                    Titled(
                        session_id=session,
                        at_us=at_us,
                        source=TitleSource.AGENT,
                        title=f"About {session} \x1b[31mred\x1b[0m",
                    ),
                    entry(
                        session, Kind.PROMPT, {"params": {"prompt": [text("Hello\nyou")]}}, at_us
                    ),
                    Counted(session_id=session, at_us=at_us, turns=1, messages=1),
                ]
            )
        opened.write(
            [
                update("ses_one", "agent_thought_chunk", content=text("Hm.")),
                update("ses_one", "agent_message_chunk", content=text("Hi \x1b]0;owned\x07")),
                update("ses_one", "agent_message_chunk", content=text("there")),
                update("ses_one", "tool_call", toolCallId="t", title="Read a", status="completed"),
                update("ses_one", "tool_call", toolCallId="u", kind="edit"),
                update("ses_one", "plan", entries=[{"content": "Do it", "status": "completed"}]),
                entry("ses_one", Kind.GAP, {"lostEntries": 2}),
                entry("ses_one", Kind.ANSWER, {"result": {"stopReason": "max_tokens"}}),
            ]
        )
    return path


def test_list_is_sorted_by_last_use(store: Path) -> None:
    done = cli("list", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["ses_two", "ses_one"]
    assert rows[0][1] == "2023-11-14T23:13:20.000+00:00"
    assert [row[2] for row in rows] == ["gemini", "OpenCode"]
    assert rows[0][3] == "/p/ses_two"
    assert rows[0][5] == r"About ses_two \x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--cwd", "/p/ses_one"], ["ses_one"]),
        (["--cwd", "/p/x/../ses_one/"], ["ses_one"]),
        (["--cwd", "/p"], []),
        (["--agent", "opencode"], ["ses_one"]),
        (["--agent", "gemini"], ["ses_two"]),
        (["--limit", "1"], ["ses_two"]),
    ],
)
def test_list_filters(store: Path, options: list[str], expected: list[str]) -> None:
    done = cli("list", "--store", store, "--json", *options)
    assert done.returncode == 0
    assert [session["id"] for session in json.loads(done.stdout)] == expected


def test_list_json_has_all_fields(store: Path) -> None:
    session = json.loads(cli("list", "--store", store, "--json").stdout)[1]
    assert session == {
        "id": "ses_one",
        "agentSessionId": "ses_one",
        "agent": {"name": "OpenCode", "version": "1.2", "command": ["opencode", "acp"]},
        "cwd": "/p/ses_one",
        "additionalDirectories": [],
        "title": "About ses_one \x1b[31mred\x1b[0m",
        "titleSource": "agent",
        "createdAt": "2023-11-14T22:13:20.000+00:00",
        "updatedAt": "2023-11-14T22:13:20.000+00:00",
        "parentId": None,
        "archivedAt": None,
        "deletedAt": None,
        "turns": 1,
        "messages": 1,
        "entries": 9,
        "origin": None,
        "state": "idle",
    }


def test_show_accepts_an_id_prefix(store: Path) -> None:
    done = cli("show", "--store", store, "ses_o")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == r"About ses_one \x1b[31mred\x1b[0m"
    assert lines[1] == "ses_one · OpenCode · /p/ses_one"
    assert lines[4:] == [
        "> Hello",
        "> you",
        "~ Hm.",
        r"Hi \x1b]0;owned\x07there",
        "✓ Read a",
        "· edit",
        "  [x] Do it",
        "(2 entries are missing: the store could not be written)",
        "(max_tokens)",
    ]


def test_interrupted_turn_is_marked(store: Path) -> None:
    assert cli("show", "--store", store, "ses_two").stdout.splitlines()[-1] == (
        "(interrupted, or still running)"
    )


def test_show_json(store: Path) -> None:
    shown = json.loads(cli("show", "--store", store, "ses_one", "--json").stdout)
    (turn,) = shown["conversation"]
    assert (turn["turn"], turn["stopReason"], turn["error"]) == (1, "max_tokens", None)
    assert [item["type"] for item in turn["items"]] == [
        "message",
        "message",
        "message",
        "tool_call",
        "tool_call",
        "plan",
        "gap",
    ]
    assert turn["items"][0]["content"] == [text("Hello\nyou")]


@pytest.mark.parametrize(
    ("session", "words"),
    [
        ("ses_", "'ses_' matches 2 sessions; type more of a title or of an id"),
        ("nobody", "no session matches 'nobody'"),
        ("", "no session matches ''"),
    ],
)
def test_unknown_or_ambiguous_id_is_an_error(store: Path, session: str, words: str) -> None:
    done = cli("show", "--store", store, session)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == (3 if session == "ses_" else 1)


def test_missing_default_store_counts_as_empty(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "REKINDLE_STORE": ""}
    done = cli("list", **home)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"rekindle: note: {NO_SESSIONS_YET}\n",
    )
    assert cli("list", "--json", **home).stdout == "[]\n"
    assert cli("show", "x", **home).returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_missing_named_store_is_an_error(tmp_path: Path) -> None:
    done = cli("list", "--store", tmp_path / "none.db")
    assert done.returncode == 1
    assert done.stderr.startswith(f"rekindle: error: there is no store at {tmp_path / 'none.db'}; ")


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_store_from_the_environment(store: Path, prefix: str) -> None:
    done = cli("list", REKINDLE_STORE=f"{prefix}{store}")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--limit", "0"],
        ["list", "--limit", "x"],
        ["list", "--limit", "99999999999999999999"],
        ["list", "--store", "~nosuchuser/x"],
        ["run", "--grace", "inf", "--", "true"],
        ["run", "--grace", "-1", "--", "true"],
        ["list", "--nonsense"],
        ["list", "--store", "mysql://x"],
        ["list", "--store", "sqlite:///"],
        ["show"],
        ["no-such-command"],
        [],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rekindle: error: " if arguments else "usage: rekindle")
    assert "Traceback" not in done.stderr


def test_version_is_printed() -> None:
    assert cli("--version").stdout.startswith("rekindle 0.")
    assert "Record sessions:" in cli("--help").stdout


def test_closed_pipe_is_not_an_error(store: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, "ses_one"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + 13, b"")


def test_unencodable_character_is_not_an_error(store: Path) -> None:
    done = cli("show", "--store", store, "ses_one", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    shown = cli("list", "--store", store, "--json", PYTHONIOENCODING="ascii")
    assert len(json.loads(shown.stdout)) == 2


def test_content_of_unexpected_types_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with SqliteStore(path) as opened:
        opened.write(
            [
                update("s", "plan", entries=["a string", {"content": 5}]),
                update("s", "agent_message_chunk", content={"type": "text", "text": None, "x": 1}),
                update("s", "tool_call", toolCallId=5, title=["list"]),
            ]
        )
    for options in ([], ["--json"]):
        done = cli("show", "--store", path, "s", *options)
        assert (done.returncode, done.stderr) == (0, "")


def test_system_error_is_reported_in_one_line(tmp_path: Path) -> None:
    done = cli("list", "--store", tmp_path / ("x" * 300))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
