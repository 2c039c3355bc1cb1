"""`rekindle show` as one reads it: folded and unfolded, on paper, on a terminal, and live."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import warm_start
from pty_terminal import Terminal
from rekindle.cli.main import main
from rekindle.cli.progress import Bar
from rekindle.model import AgentIdentity, EntryBatch, Kind, Opened, Side, Titled, TitleSource
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import PATIENCE, REKINDLE

S = "ses_1"
AT = 1_700_000_000_000_000
SECOND = 1_000_000


def entry(kind: Kind, message: object, at_us: int = AT) -> EntryBatch:
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    data = json.dumps(message).encode()
    return EntryBatch(session_id=S, side=side, kind=kind, at_us=at_us, data=data)


def update(kind: str, /, **fields: object) -> EntryBatch:
    told = {"sessionUpdate": kind, **fields}
    return entry(Kind.UPDATE, {"params": {"sessionId": S, "update": told}})


def said(words: str) -> EntryBatch:
    return update("agent_message_chunk", content=text(words))


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def prompt(number: int, words: str) -> EntryBatch:
    return entry(Kind.PROMPT, {"id": number, "params": {"prompt": [text(words)]}})


def answer(number: int, reason: str = "end_turn", at_us: int = AT) -> EntryBatch:
    return entry(Kind.ANSWER, {"id": number, "result": {"stopReason": reason}}, at_us)


DIFF = {"type": "diff", "path": "/p/a", "oldText": "one\ntwo\n", "newText": "one\n2\n"}
PATCH = {
    "type": "diff",
    "changes": [{"operation": "modify", "path": "/p/b"}],
    "patch": {
        "format": "git_patch",
        "text": "diff --git a/b b/b\nindex 1..2\n--- a/b\n+++ b/b\n@@ -7 +7 @@\n--- x\n+++ y\n",
    },
}
CONVERSATION = [
    Opened(session_id=S, at_us=AT, agent=AgentIdentity(name="Agent"), cwd="/p"),
    Titled(session_id=S, at_us=AT, source=TitleSource.USER, title="A title"),
    prompt(1, "Hello"),
    update("agent_thought_chunk", content=text("First.\nSecond.")),
    update(
        "tool_call",
        toolCallId="r",
        title="Read a",
        status="completed",
        rawInput={"path": "a"},
        content=[{"type": "content", "content": text("one\ntwo\n")}],
    ),
    update("tool_call", toolCallId="e", title="Edit a", status="failed", content=[DIFF, PATCH]),
    said("# Well\n\nThis is **bold** and [a link](https://example.org).\n"),
    answer(1, at_us=AT + 75 * SECOND),
    prompt(2, "And then?"),
    said("Nothing."),
    answer(2, "refusal"),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write(CONVERSATION)
    return path


def show(store: Path, *options: str) -> list[str]:
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_thoughts_and_tools_are_folded_and_diffs_are_shown(store: Path) -> None:
    assert show(store, S) == [
        "A title",
        "ses_1 · Agent · /p",
        "",
        "── turn 1 · 2023-11-14 22:13 · 1 min 15 s ──",
        "> Hello",
        "~ First. …",
        "✓ Read a",
        "✗ Edit a",
        "  /p/a",
        "   one",
        "  -two",
        "  +2",
        "  /p/b",
        "  @@ -7 +7 @@",
        "  --- x",
        "  +++ y",
        "# Well",
        "",
        "This is **bold** and [a link](https://example.org).",
        "",
        "── turn 2 · 2023-11-14 22:13 ──",
        "> And then?",
        "Nothing.",
        "(refusal)",
    ]


def test_thoughts_and_tools_can_be_unfolded_or_hidden(store: Path) -> None:
    whole = show(store, S, "--thoughts", "--tools")
    assert whole[5:7] == ["~ First.", "~ Second."]
    assert whole[7:11] == ["✓ Read a", '  ← {"path": "a"}', "  → one", "  → two"]
    without = show(store, S, "--no-thoughts", "--no-tools")
    assert without[4:6] == ["> Hello", "# Well"]


CHANGES = [
    {"type": "diff", "path": "/p/new", "oldText": None, "newText": "hello\n"},
    {"type": "diff", "path": "/p/long", "oldText": "a\n" * 100_000, "newText": "b\n"},
    {"type": "diff", "changes": [{"operation": "move", "oldPath": "/p/a", "path": "/p/b"}]},
    {
        "type": "diff",
        "changes": [{"operation": "modify", "path": it} for it in ("/p/c", "/p/d")],
        "patch": {"text": "--- c\n+++ c\n@@ -1 +1 @@\n-1\n+2\ndiff --git d d\n+++ d\n@@ @@\n+x"},
    },
]


@pytest.mark.parametrize("options", [[], ["--tools"]])
def test_every_change_says_which_file_it_is_of(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "s.db"
    call = update("tool_call", toolCallId="t", title="T", status="completed", content=CHANGES)
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], call, answer(1)])
    lines = show(path, S, *options)
    assert lines[5:] == [
        "✓ T",
        "  add /p/new",
        "  +hello",
        "  (/p/long: 100000 lines became 1, too long to compare)",
        *(["  → b"] if options else []),
        "  (move /p/a → /p/b)",
        "  /p/c, /p/d",
        "  c",
        "  @@ -1 +1 @@",
        "  -1",
        "  +2",
        "  d",
        "  @@ @@",
        "  +x",
    ]


def test_what_is_odd_is_told_as_documents_tell_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write(
            [
                *CONVERSATION[:3],
                update("tool_call", toolCallId="t", title="T", status="paused"),
                update("plan", entries=[{"status": "completed"}, {"content": "x"}]),
                entry(Kind.ANSWER, {"id": 1, "error": {"message": None}}),
            ]
        )
    assert show(path, S)[5:] == ["· T", "  [x]", "  [ ] x", "(failed: no reason given)"]


def test_one_turn_can_be_chosen(store: Path) -> None:
    for options in (["--turn", "2"], ["--turn", "-1"], ["--last"]):
        assert show(store, S, *options)[3:] == [
            "── turn 2 · 2023-11-14 22:13 ──",
            "> And then?",
            "Nothing.",
            "(refusal)",
        ]
    (turn,) = json.loads("\n".join(show(store, S, "--turn", "1", "--json")))["conversation"]
    assert turn["turn"] == 1


@pytest.mark.parametrize("number", ["0", "3", "-3"])
def test_a_turn_that_is_not_there_is_an_error(store: Path, number: str) -> None:
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, S, "--turn", number],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    words = f"rekindle: no turn {number} in this session: its turns are 1 to 2\n"
    assert done.stderr == words


def test_a_session_can_be_chosen_by_its_title_or_as_the_last(store: Path) -> None:
    assert show(store, "--title", "TITLE")[1] == "ses_1 · Agent · /p"
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, "--last"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.startswith("A title\n")
    assert "── turn 1" in done.stdout
    assert done.stderr == "rekindle: no session of this folder; the last of all is of /p\n"


def test_the_entries_are_shown_as_they_were_on_the_wire(store: Path) -> None:
    lines = [it.data.decode() for it in CONVERSATION if isinstance(it, EntryBatch)]
    assert show(store, S, "--raw") == lines
    assert show(store, S, "--raw", "--turn", "1") == lines[:6]
    assert show(store, S, "--raw", "--last") == lines[6:]


# -- on a terminal --------------------------------------------------------------------------


def shown(store: Path, *options: str, rows: int = 100, **environ: str) -> Terminal:
    with Terminal("show", "--store", store, S, *options, rows=rows, **environ) as terminal:
        assert terminal.end() == 0
        return terminal


def test_a_terminal_gets_markdown_and_colours(store: Path) -> None:
    terminal = shown(store)
    assert "This is bold and a link (https://example.org)." in terminal.shown
    assert "\x1b[32m+2" in terminal.raw
    assert "\x1b[31m-two" in terminal.raw
    assert "\x1b]8;" not in terminal.raw


@pytest.mark.parametrize(("options", "environ"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_colours_can_be_left_out(store: Path, options: list[str], environ: dict[str, str]) -> None:
    terminal = shown(store, *options, **environ)
    assert "This is bold and a link" in terminal.shown
    for colour in range(30, 38):
        assert f"\x1b[{colour}m" not in terminal.raw


@pytest.mark.parametrize(
    "words",
    [
        "\x1b]0;owned\x07",
        "&#27;[31m &#x9b;2J",
        "`\x1b[2J`",
        "```\n\x1b[2J\n```",
        "[\x1b[2J](http://x)",
        "| \x1b[2J |\n|---|\n| \x9b2J |",
        "&#x202e;evil",
    ],
)
def test_nothing_that_an_agent_says_reaches_the_terminal_as_a_command(
    tmp_path: Path, words: str
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said(f"[bold]x[/bold] {words}")])
    terminal = shown(path)
    for harmful in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert harmful not in terminal.raw
    assert "[bold]x[/bold]" in terminal.shown


def test_what_looks_like_html_is_text(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    words = "A Vec<String> in <config>.\n\n<div>\nThis matters.\n</div>\n\na<br>b\n\n<summary>Log"
    pictures = "Before ![alt](https://x/p.png) after, [![b](https://x/b.svg)](https://y)."
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said(f"{words}\n\n{pictures}")])
    terminal = shown(path)
    for whole in ("A Vec<String> in <config>.", "This matters.", "a<br>b", "<summary>Log"):
        assert whole in terminal.shown
    pictures = "Before alt (https://x/p.png) after, b (https://x/b.svg) (https://y)."
    assert pictures in terminal.shown


TABBED = "all:\n\tgcc\t-o x x.c"


def test_tabs_tear_nothing_apart(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    call = {"toolCallId": "t", "title": "T", "status": "completed"}
    output = [{"type": "content", "content": text(TABBED)}]
    table = "| a | b |\n|---|---|\n| one\ttwo | x |"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:2], prompt(1, TABBED), said(table)])
        opened.write([update("tool_call", content=output, **call)])
    terminal = shown(path, "--tools")
    assert "❯ all:\n          gcc     -o x x.c\n" in terminal.shown  # noqa: RUF001 - the prompt
    assert "  → all:\n            gcc     -o x x.c\n" in terminal.shown
    assert "one    two  x" in terminal.shown


def test_a_folded_tool_call_is_one_row_and_an_unfolded_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    title = "a command that is long " * 10 + "to its end"
    call = update("tool_call", toolCallId="t", title=title, status="completed")
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], call])
    (row,) = [line for line in shown(path).shown.split("\n") if "command" in line]
    assert len(row) <= 80
    assert row.endswith("…")
    assert "to its end" in shown(path, "--tools").shown.replace("\n  ", " ")


def test_rows_are_counted_and_not_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said("wordy " * 10_000), answer(1)])
    for options in ([], ["--raw"]):
        paged = shown(path, *options, rows=40, PAGER="sed s/^/paged:/").shown
        assert "paged:" in paged
    lines = shown(path).shown.split("\n")
    assert max(map(len, lines)) <= 80
    assert not any(line.strip().endswith("wor") for line in lines)


def test_a_pager_is_started_only_for_what_is_longer_than_the_screen(store: Path) -> None:
    pager = {"PAGER": "sed s/^/paged:/"}
    assert "paged:" not in shown(store, **pager).shown
    assert "paged:" in shown(store, rows=10, **pager).shown
    assert "paged:" not in shown(store, "--no-pager", rows=10, **pager).shown
    assert "Nothing." in shown(store, rows=10, PAGER="no-such-pager").shown


def test_leaving_the_pager_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], *[said(f"{'x ' * 500}\n")] * 1000])
    assert shown(path, rows=10, PAGER="head -n 5").shown.count("\n") == 5


# -- as it happens --------------------------------------------------------------------------


@pytest.fixture
def following(store: Path) -> Iterator["subprocess.Popen[str]"]:
    process = warm_start.Popen(
        [*REKINDLE, "show", "--store", store, S, "--last", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_a_session_is_followed_as_it_happens(
    store: Path, following: "subprocess.Popen[str]"
) -> None:
    assert following.stdout
    assert following.stderr
    assert [following.stdout.readline() for _ in range(7)][-1] == "(refusal)\n"
    call = {"toolCallId": "t", "title": "Run it"}
    with SqliteStore(store) as opened:
        opened.write([prompt(3, "Go on"), said("I "), said("do.\n")])
        assert [following.stdout.readline() for _ in range(4)][2:] == ["> Go on\n", "I do.\n"]
        opened.write([update("tool_call", status="pending", **call)])
        opened.write([update("tool_call_update", status="completed", **call)])
        assert following.stdout.readline() == "✓ Run it\n"
        opened.write([update("plan", entries=[{"content": "Do it", "status": "completed"}])])
        assert following.stdout.readline() == "  [x] Do it\n"
        opened.write([answer(3, "max_tokens")])
        assert following.stdout.readline() == "(max_tokens)\n"
    following.send_signal(signal.SIGINT)
    assert following.wait(PATIENCE) == 130
    assert following.stderr.read() == ""


def test_a_turn_that_is_going_on_is_followed_from_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said("One, ")])
        with Terminal("show", "--store", path, S, "--follow") as terminal:
            terminal.wait_for("One,")
            opened.write([said("two.")])
            opened.write([answer(1)])
            assert "One, two." in terminal.wait_for("two.")
            opened.write([prompt(2, "More"), said("And three")])
            terminal.wait_for("And three")
            terminal.type("\x03")
            assert terminal.end() == 130
            assert terminal.shown.endswith("And three^C\n")


def test_a_terminal_that_knows_only_text_gets_only_text(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said("One ")])
        with Terminal("show", "--store", path, S, "--follow", TERM="dumb") as terminal:
            terminal.wait_for("One")
            call = {"toolCallId": "t", "title": "Run it"}
            opened.write([said("word " * 40), update("tool_call", status="pending", **call)])
            opened.write([update("tool_call_update", status="completed", **call), answer(1)])
            terminal.wait_for("✓ Run it")
            assert "\x1b" not in terminal.raw
            terminal.type("\x03")
            assert terminal.end() == 130


def test_what_is_asked_for_is_told_while_following(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    call = {
        "toolCallId": "t",
        "title": "bash",
        "kind": "execute",
        "rawInput": {"command": "curl x | sh"},
        "locations": [{"path": "/etc/passwd", "line": 7}],
    }
    question = entry(Kind.PERMISSION, {"id": "q", "params": {"toolCall": call, "options": []}})
    with SqliteStore(path) as opened:
        opened.write(CONVERSATION[:3])
        for options in ([], ["--no-tools"]):
            command = ("show", "--store", path, S, "--follow", *options)
            with Terminal(*command) as terminal:
                terminal.wait_for("Hello")
                opened.write([question])
                shown = terminal.wait_for("(the agent asks for permission: bash (execute))")
                assert "command: curl x | sh\n  @ /etc/passwd:7\n" in shown
                terminal.type("\x03")
                assert terminal.end() == 130


def test_lines_are_followed_too(store: Path) -> None:
    command = [*REKINDLE, "show", "--store", store, S, "--raw", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        for _ in range(9):
            process.stdout.readline()
        with SqliteStore(store) as opened:
            opened.write([said("more")])
        assert b"more" in process.stdout.readline()
        process.kill()


def test_a_reader_who_leaves_ends_the_following(store: Path) -> None:
    command = [*REKINDLE, "show", "--store", store, S, "--follow"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        with SqliteStore(store) as opened:
            opened.write([prompt(3, "Go on")])
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


def test_who_waits_for_a_long_session_is_told_how_far_it_is(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int | None]] = []
    monkeypatch.setattr(Bar, "at", lambda _, done, total: told.append((done, total)))
    assert main(["show", "--store", str(store), S]) == 0
    assert told == [(seq, 9) for seq in range(1, 10)]
