"""`rekindle new` and `rekindle resume`: a chat, in a real terminal."""

import json
import sys
from pathlib import Path

import pytest

from prepared_sessions import HARMFUL, STOPPING, cli, record
from pty_terminal import Terminal
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, is_running

# The bytes of these keys.
ALT_ENTER = "\x1b\r"
SILENCE = 0.6
"""Longer than a pause within typed text."""
CTRL_C = "\x03"
CTRL_D = "\x04"
TAB = "\t"
UP = "\x1b[A"
PROMPT = "❯"  # noqa: RUF001 - the prompt's character


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def new(store: Path, folder: Path, *agent: str) -> Terminal:
    command = agent or EXAMPLE_AGENT
    terminal = Terminal("new", "--store", store, "--", *command, cwd=folder)
    terminal.wait_for(PROMPT)
    return terminal


def sessions(store: Path) -> list[dict[str, object]]:
    return json.loads(cli("list", "--store", store, "--all", "--json").stdout)


def test_chat_can_be_left_and_resumed(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("My name is Ada.")
        terminal.wait_for("That makes 1 message so far.")
        terminal.enter("/quit")
        assert terminal.end() == 0
    (session,) = sessions(store)
    assert (session["cwd"], session["turns"]) == (str(folder), 1)
    with Terminal("resume", "--store", store, "--last", cwd=folder) as terminal:
        terminal.wait_for("turn 1")
        shown = terminal.wait_for(f"far.\n\n{PROMPT}")
        assert "My name is Ada." in shown
        assert "That makes 1 message so far." in shown
        terminal.enter("What did I say first?")
        terminal.wait_for("You said first: My name is Ada.")
        assert "(the agent did not remember this session" in terminal.shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    (session,) = sessions(store)
    assert session["turns"] == 2
    with SqliteStore(store) as opened:
        assert opened.lease_holder(str(session["id"])) is None


def test_chat_shows_all_updates_and_asks_for_permission(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type("3")
        terminal.type("\x7f")
        terminal.enter("think, plan, read, edit, run")
        terminal.wait_for("3  Reject (n)")
        for words in (
            "~ The user wants me to think.",
            "[>] Look at the question",
            "✓ Read /",
            "· Edit /",
            "+the oat milk",
            "? Edit",
            "1  Allow once (y)",
        ):
            assert words in terminal.shown
        terminal.type(UP)
        terminal.assert_unchanged(SILENCE)
        terminal.type("y")
        terminal.wait_for("→ Allow once")
        terminal.wait_for("✓ Edit /")
        terminal.wait_for("✓ echo hello")
        terminal.wait_for("so far.")
        assert "\x1b[32m+the oat milk" in terminal.raw
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_text_typed_before_a_question_does_not_answer_it(store: Path, folder: Path) -> None:
    with new(store, folder, *EXAMPLE_AGENT, "--delay", "0.3") as terminal:
        terminal.enter("read and edit")
        terminal.wait_for("✓ Read")
        terminal.type("y")
        terminal.wait_for("3  Reject (n)")
        terminal.type("n")
        terminal.wait_for("→ Reject")
        terminal.wait_for("✗ Edit")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_typed_sentence_does_not_answer_a_question(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("edit")
        terminal.wait_for("3  Reject (n)")
        for typed in ("\x1b[200~yes, what does this do?\x1b[201~", "what does this do? y", "2y"):
            terminal.type(typed)
            terminal.assert_unchanged(SILENCE)
        for letter in "why not":
            terminal.type(letter)
        terminal.assert_unchanged(SILENCE)
        terminal.type("n")
        terminal.wait_for("→ Reject")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_ctrl_c_cancels_the_turn_and_keeps_the_chat(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("slow")
        terminal.wait_for("I am waiting until you cancel.")
        terminal.type(CTRL_C)
        terminal.wait_for(f"(cancelled)\n\n{PROMPT}")
        terminal.enter("edit")
        terminal.wait_for("3  Reject (n)")
        terminal.type(CTRL_C)
        start = len(terminal.shown)
        terminal.wait_for(f"(cancelled)\n\n{PROMPT}", start - 100)
        terminal.enter("Hello")
        terminal.wait_for("That makes 3 messages so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_second_ctrl_c_leaves_if_the_agent_does_not_stop(store: Path, folder: Path) -> None:
    pid = folder / "pid"
    code = f"import os, runpy; open({str(pid)!r}, 'w').write(str(os.getpid()))"
    agent = (sys.executable, "-c", f"{code}; runpy.run_path({STOPPING[1]!r})")
    with new(store, folder, *agent) as terminal:
        terminal.enter("ignore")
        terminal.wait_for("2  Never (n)")
        terminal.type("1")
        terminal.wait_for("yes!")
        terminal.type(CTRL_C)
        terminal.wait_for("cancelling … (Ctrl-C again leaves)")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
        assert not any(sequence in terminal.raw for sequence in HARMFUL)
    assert not is_running(int(pid.read_text(encoding="utf-8")))


def test_ctrl_c_at_the_prompt_clears_the_line_or_leaves(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type("not sent")
        terminal.wait_for("not sent")
        terminal.type(CTRL_C)
        terminal.wait_for(f"not sent\n\n{PROMPT}")
        terminal.type(CTRL_C)
        terminal.wait_for(f"(Ctrl-C again, Ctrl-D or /quit leaves)\n\n{PROMPT}")
        terminal.type(CTRL_C)
        assert terminal.end() == 0
    assert [session["turns"] for session in sessions(store)] == [0]


def test_prompt_has_several_lines_and_history(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type(f"one{ALT_ENTER}two\\\rthree")
        terminal.wait_for("three")
        terminal.type("\r")
        terminal.wait_for("1 message so far.")
        terminal.type(UP)
        start = len(terminal.shown)
        terminal.wait_for("three", start)
        terminal.type("\r")
        terminal.wait_for("2 messages so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    lines = cli("show", "--store", store, str(sessions(store)[0]["id"])).stdout.splitlines()
    assert [line for line in lines if line.startswith(">")] == ["> one", "> two", "> three"] * 2


def test_slash_commands_are_completed(store: Path, folder: Path) -> None:
    session = record(store, folder, "Hello")
    with Terminal("resume", "--store", store, session) as terminal:
        terminal.wait_for(f"far.\n\n{PROMPT}")
        terminal.type("/pl")
        terminal.wait_for("Make a plan and go through it")
        terminal.type(f"{TAB}\r")
        terminal.wait_for("You said: /plan. That makes 2 messages so far.")
        terminal.enter("/help")
        terminal.wait_for("/count to 10  Count out loud")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_failed_turn_is_reported_and_keeps_the_chat(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("error")
        terminal.wait_for("(failed: failed, as the prompt asked)")
        terminal.enter("crash")
        terminal.wait_for("(failed: the agent exited with 3 before it answered session/prompt:")
        terminal.enter("how many prompts")
        terminal.wait_for("You sent 2 prompts before this one.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_chat_starts_with_the_last_turns(store: Path, folder: Path) -> None:
    session = record(store, folder, "one", "two", "three")
    with Terminal("resume", "--store", store, session, "--history", "1") as terminal:
        shown = terminal.wait_for(f"far.\n\n{PROMPT}")
        assert "(2 earlier turns: `rekindle show`)" in shown
        assert "turn 3" in shown
        assert "turn 2" not in shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_resume_without_session_shows_a_menu(store: Path, folder: Path) -> None:
    for words in ("first", "second"):
        record(store, folder, f"The {words} one")
    record(store, folder, "A long one, " * 20)
    with Terminal("resume", "--store", store, cwd=folder) as terminal:
        terminal.wait_for("Which one, 1 to 3? [1]")
        assert len(terminal.shown.splitlines()) == 4
        assert terminal.shown.index("second") < terminal.shown.index("first")
        terminal.enter("3")
        terminal.wait_for(f"The first one. That makes 1 message so far.\n\n{PROMPT}")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_new_uses_the_agent_used_last(store: Path, folder: Path) -> None:
    record(store, folder, "Hello")
    with Terminal("new", "--store", store, cwd=folder) as terminal:
        terminal.wait_for(PROMPT)
        terminal.enter("Hi")
        terminal.wait_for("That makes 1 message so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert len(sessions(store)) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["new", "--", "no-such-agent"], 127, "rekindle: command not found: no-such-agent\n"),
        (["new", "--cwd", "/no/such", "--", "x"], 2, "there is no folder /no/such"),
        (["resume", "--last"], 1, "no session is recorded yet: `rekindle new -- COMMAND` starts"),
        (["new"], 1, "no session is recorded yet"),
    ],
)
def test_impossible_chats_are_refused_with_a_reason(
    tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "REKINDLE_STORE": ""}
    with Terminal(*arguments, cwd=tmp_path, **home) as terminal:
        assert terminal.end() == code
        assert text in terminal.shown
        assert "Traceback" not in terminal.shown


def test_ctrl_c_during_agent_start_leaves(store: Path, folder: Path) -> None:
    with Terminal("new", "--store", store, "--", "sleep", "60", cwd=folder) as terminal:
        terminal.wait_for("starting the agent …")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
