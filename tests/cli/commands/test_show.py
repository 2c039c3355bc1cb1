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
from rekindle.cli.progress import ProgressBar
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

S = "ses_1"
AT = 1_700_000_000_000_000
SECOND = 1_000_000


def entry(kind: Kind, message: object, at_us: int = AT) -> EntryBatch:
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    data = json.dumps(message).encode()
    return EntryBatch(session_id=S, side=side, kind=kind, at_us=at_us, data=data)


def update(kind: str, /, **fields: object) -> EntryBatch:
    output = {"sessionUpdate": kind, **fields}
    return entry(Kind.UPDATE, {"params": {"sessionId": S, "update": output}})


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
    Counted(session_id=S, at_us=AT, turns=2),
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
        timeout=TIMEOUT,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_show_folds_thoughts_and_tools_and_shows_diffs(store: Path) -> None:
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
        "changes": [{"operation": "modify", "path": item} for item in ("/p/c", "/p/d")],
        "patch": {"text": "--- c\n+++ c\n@@ -1 +1 @@\n-1\n+2\ndiff --git d d\n+++ d\n@@ @@\n+x"},
    },
]


@pytest.mark.parametrize("options", [[], ["--tools"]])
def test_every_diff_names_its_file(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "s.db"
    call = update("tool_call", toolCallId="t", title="T", status="completed", content=CHANGES)
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], call, answer(1)])
    lines = show(path, S, *options)
    assert lines[5:] == [
        "✓ T",
        "  add /p/new",
        "  +hello",
        "  (/p/long: 100000 lines became 1; too long to compare)",
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


def test_unusual_content_has_the_labels_of_exports(tmp_path: Path) -> None:
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


def test_show_one_turn(store: Path) -> None:
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
def test_unknown_turn_is_an_error(store: Path, number: str) -> None:
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, S, "--turn", number],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    words = f"rekindle: error: the session has no turn {number}; its turns are 1 to 2\n"
    assert done.stderr == words


def test_session_is_chosen_by_title_or_as_last(store: Path) -> None:
    assert show(store, "--title", "TITLE")[1] == "ses_1 · Agent · /p"
    done = warm_start.run(
        [*REKINDLE, "show", "--store", store, "--last"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.stdout.startswith("A title\n")
    assert "── turn 1" in done.stdout
    assert (
        done.stderr
        == "rekindle: note: this project has no session; the last used session is of /p\n"
    )


def test_raw_prints_the_recorded_lines(store: Path) -> None:
    lines = [item.data.decode() for item in CONVERSATION if isinstance(item, EntryBatch)]
    assert show(store, S, "--raw") == lines
    assert show(store, S, "--raw", "--turn", "1") == lines[:6]
    assert show(store, S, "--raw", "--last") == lines[6:]


# -- on a terminal --------------------------------------------------------------------------


def shown(store: Path, *options: str, rows: int = 100, **environ: str) -> Terminal:
    with Terminal("show", "--store", store, S, *options, rows=rows, **environ) as terminal:
        assert terminal.end() == 0
        return terminal


def test_terminal_shows_markdown_in_colour(store: Path) -> None:
    terminal = shown(store)
    assert "This is bold and a link (https://example.org)." in terminal.shown
    assert "\x1b[32m+2" in terminal.raw
    assert "\x1b[31m-two" in terminal.raw
    assert "\x1b]8;" not in terminal.raw


@pytest.mark.parametrize(("options", "environ"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_colours_can_be_disabled(store: Path, options: list[str], environ: dict[str, str]) -> None:
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
def test_escape_sequences_of_agents_are_removed(tmp_path: Path, words: str) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said(f"[bold]x[/bold] {words}")])
    terminal = shown(path)
    for harmful in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert harmful not in terminal.raw
    assert "[bold]x[/bold]" in terminal.shown


def test_html_is_shown_as_text(tmp_path: Path) -> None:
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


def test_tabs_keep_the_layout(tmp_path: Path) -> None:
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


def test_folded_tool_call_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    title = "a command that is long " * 10 + "to its end"
    call = update("tool_call", toolCallId="t", title=title, status="completed")
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], call])
    (row,) = [line for line in shown(path).shown.split("\n") if "command" in line]
    assert len(row) <= 80
    assert row.endswith("…")
    assert "to its end" in shown(path, "--tools").shown.replace("\n  ", " ")


def test_pager_counts_wrapped_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], said("wordy " * 10_000), answer(1)])
    for options in ([], ["--raw"]):
        paged = shown(path, *options, rows=40, PAGER="sed s/^/paged:/").shown
        assert "paged:" in paged
    lines = shown(path).shown.split("\n")
    assert max(map(len, lines)) <= 80
    assert not any(line.strip().endswith("wor") for line in lines)


def test_pager_starts_only_if_text_exceeds_the_screen(store: Path) -> None:
    pager = {"PAGER": "sed s/^/paged:/"}
    assert "paged:" not in shown(store, **pager).shown
    assert "paged:" in shown(store, rows=10, **pager).shown
    assert "paged:" not in shown(store, "--no-pager", rows=10, **pager).shown
    assert "Nothing." in shown(store, rows=10, PAGER="no-such-pager").shown


def test_terminal_without_a_known_size_is_supported(store: Path) -> None:
    with Terminal("show", "--store", store, S, rows=0, columns=0, PAGER="cat -") as terminal:
        assert terminal.end() == 0
        assert "Nothing." in "".join(terminal.shown.split("\n"))


def test_quitting_the_pager_early_is_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as opened:
        opened.write([*CONVERSATION[:3], *[said(f"{'x ' * 500}\n")] * 1000])
    assert shown(path, rows=10, PAGER="head -n 5").shown.count("\n") == 5


# -- following ------------------------------------------------------------------------------


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


def test_follow_shows_new_turns(store: Path, following: "subprocess.Popen[str]") -> None:
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
    assert following.wait(TIMEOUT) == 130
    assert following.stderr.read() == ""


def test_follow_shows_a_rewind(store: Path, following: "subprocess.Popen[str]") -> None:
    assert following.stdout
    assert [following.stdout.readline() for _ in range(7)][-1] == "(refusal)\n"
    with SqliteStore(store) as opened:
        opened.write([update("history_truncated", lastMessageId=None)])
        assert following.stdout.readline() == "(the session was rewound; 0 turns remain)\n"
        opened.write([prompt(3, "Again"), said("Yes.\n"), answer(3)])
        assert [following.stdout.readline() for _ in range(4)][2:] == ["> Again\n", "Yes.\n"]
        opened.write([update("history_truncated", lastMessageId="nobody")])
        opened.write([prompt(4, "More"), answer(4)])
        assert [following.stdout.readline() for _ in range(3)][2:] == ["> More\n"]


def test_follow_continues_a_running_turn(tmp_path: Path) -> None:
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


def test_dumb_terminal_gets_no_escape_sequences(tmp_path: Path) -> None:
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


def test_follow_shows_permission_requests(tmp_path: Path) -> None:
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


def test_follow_raw_prints_new_lines(store: Path) -> None:
    command = [*REKINDLE, "show", "--store", store, S, "--raw", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        for _ in range(9):
            process.stdout.readline()
        with SqliteStore(store) as opened:
            opened.write([said("more")])
        assert b"more" in process.stdout.readline()
        process.kill()


def test_closed_pipe_ends_follow(store: Path) -> None:
    command = [*REKINDLE, "show", "--store", store, S, "--follow"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        with SqliteStore(store) as opened:
            opened.write([prompt(3, "Go on")])
        assert process.wait(TIMEOUT) == 141
        assert process.stderr.read() == b""


def test_long_session_shows_progress(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output: list[tuple[int, int | None]] = []
    monkeypatch.setattr(ProgressBar, "update", lambda _, done, total: output.append((done, total)))
    assert main(["show", "--store", str(store), S]) == 0
    assert output == [(seq, 9) for seq in range(1, 10)]


# -- secrets --------------------------------------------------------------------------------

TOKEN = f"ghp_{'aB3dE5gH7jK9' * 3}"


@pytest.fixture
def secretive(tmp_path: Path) -> Path:
    """Return a store whose session has a secret in its title and in every part."""
    path = tmp_path / "s.db"
    content = [{"type": "content", "content": text(f"export {TOKEN}")}]
    with SqliteStore(path) as opened:
        opened.write(
            [
                Opened(session_id=S, at_us=AT, agent=AgentIdentity(name="Agent"), cwd="/p"),
                Titled(session_id=S, at_us=AT, source=TitleSource.USER, title=f"Use {TOKEN}"),
                prompt(1, f"Log in with {TOKEN}."),
                update("agent_thought_chunk", content=text(f"They use {TOKEN}.")),
                update(
                    "tool_call",
                    toolCallId="r",
                    title=f"echo {TOKEN}",
                    status="completed",
                    rawInput={"token": TOKEN},
                    content=content,
                ),
                said(f"I have used {TOKEN[:9]}"),
                said(f"{TOKEN[9:]} now."),
                answer(1),
            ]
        )
    return path


def test_secrets_are_masked_unless_asked_for(
    secretive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["show", "--store", str(secretive), S, "--tools", "--thoughts"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert TOKEN not in shown
    assert shown.count("ghp_***") == 6
    assert shown.startswith("Use ghp_***\n")
    assert main([*options, "--no-redact"]) == 0
    assert capsys.readouterr().out.count(TOKEN) == 7
    # Programs get the record.
    for option in ("--json", "--raw"):
        with SqliteStore(secretive, create=False) as store:
            expected = sum(TOKEN in entry.line.decode() for entry in store.read(S))
        assert main([*options, option]) == 0
        assert capsys.readouterr().out.count(TOKEN) >= expected


def test_recorded_messages_are_masked_on_a_terminal(secretive: Path) -> None:
    for option, is_masked in (([], True), (["--no-redact"], False)):
        with Terminal("show", "--store", secretive, S, "--raw", *option) as terminal:
            assert terminal.end() == 0
            assert (TOKEN in terminal.shown.replace("\n", "")) is not is_masked


def test_followed_session_is_masked(secretive: Path) -> None:
    following = Terminal("show", "--store", secretive, S, "-f", COLUMNS="200")
    with SqliteStore(secretive) as opened, following as terminal:
        terminal.wait_for("I have used ghp_***")
        opened.write([prompt(2, f"Again: {TOKEN}"), said(f"So {TOKEN[:20]}")])
        opened.write([said(f"{TOKEN[20:]} it is.\n")])
        terminal.wait_for("So ghp_*** it is.")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert TOKEN not in terminal.shown
