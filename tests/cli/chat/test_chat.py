"""`rekindle new` and `rekindle resume`: a chat, in a real terminal."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from prepared_sessions import HARMFUL, STOPPING, cli, record
from pty_terminal import Terminal
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, is_running

AGENTS = Path(__file__).parents[2] / "agents"
# The bytes of these keys.
ALT_ENTER = "\x1b\r"
SILENCE = 0.6
"""Longer than a pause within typed text."""
BACKSPACE = "\x7f"
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_U = "\x15"
TAB = "\t"
UP = "\x1b[A"
PROMPT = "❯"  # noqa: RUF001 - the prompt's character
READY = f"Ctrl-D leaves · /help\n\n{PROMPT}"
"""The end of the opening hint, and the first prompt."""
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
LEAVE_HINT = "Ctrl-C again leaves, also Ctrl-D or /quit"


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
    terminal.wait_for(READY)
    return terminal


@pytest.fixture
def gate(folder: Path) -> Path:
    """Return the file that ends a pause of the agent."""
    return folder / "gate"


def pausing(gate: Path) -> tuple[str, ...]:
    """Return the command of an agent that pauses until a file appears."""
    return (sys.executable, str(AGENTS / "agent_waits_for_file.py"), str(gate))


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
        shown = terminal.wait_for(READY)
        assert "My name is Ada." in shown
        assert "That makes 1 message so far." in shown
        terminal.enter("What did I say first?")
        terminal.wait_for("You said first: My name is Ada.")
        assert "(the agent had lost this session" in terminal.shown
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
            "[x] Look at the question",
            "✓ Read /",
            "· Edit /",
            "+the oat milk",
            "? Allow Edit",
            "1  Allow once (y)",
        ):
            assert words in terminal.shown
        terminal.type(UP)
        terminal.answer("y", SILENCE)
        terminal.wait_for("→ Allow once")
        terminal.wait_for("✓ Edit /")
        terminal.wait_for("✓ echo hello")
        terminal.wait_for("so far.")
        assert "\x1b[32m+the oat milk" in terminal.raw
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_text_typed_before_a_question_does_not_answer_it(
    store: Path, folder: Path, gate: Path
) -> None:
    with new(store, folder, *pausing(gate)) as terminal:
        terminal.enter("read, wait and edit")
        terminal.wait_for("✓ Read")
        terminal.type("y")
        terminal.wait_for(f"{PROMPT} y")
        gate.touch()
        shown = terminal.wait_for("3  Reject (n)")
        # Only the question is on the screen.
        assert "working" not in shown.partition("3  Reject (n)")[2]
        terminal.answer("n", pause=1.2)
        terminal.wait_for("→ Reject")
        terminal.wait_for("✗ Edit")
        # The letter is part of the next prompt.
        terminal.wait_for(f"so far.\n\n{PROMPT} y")
        terminal.type(f"{CTRL_U}{CTRL_D}")
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
        terminal.answer("n", SILENCE)
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
        terminal.wait_for(f"(cancelled)\n\n{PROMPT}", 2)
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
        terminal.answer("1")
        terminal.wait_for("yes!")
        terminal.type(CTRL_C)
        terminal.wait_for("(Ctrl-C again leaves)")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
        assert "To continue: rekindle resume" in terminal.shown
        assert "cancelling" not in terminal.shown
        assert not any(sequence in terminal.raw for sequence in HARMFUL)
    assert not is_running(int(pid.read_text(encoding="utf-8")))


def test_ctrl_c_at_the_prompt_clears_the_line_or_leaves(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type("not sent")
        terminal.wait_for("not sent")
        terminal.type(CTRL_C)
        terminal.wait_for(f"not sent\n\n{PROMPT}")
        terminal.type(CTRL_C)
        terminal.wait_for(f"{PROMPT} {LEAVE_HINT}")
        # After a letter, it takes two again to leave.
        terminal.type("x")
        terminal.wait_for(f"{PROMPT} x")
        terminal.type(f"{BACKSPACE}{CTRL_C}")
        terminal.wait_for(f"{PROMPT} {LEAVE_HINT}")
        # The hint disappears with the next letter, and is not repeated.
        terminal.enter("Hello")
        terminal.wait_for("1 message so far.")
        assert LEAVE_HINT not in terminal.shown
        terminal.wait_for(f"so far.\n\n{PROMPT}")
        terminal.type(CTRL_C)
        terminal.wait_for(LEAVE_HINT)
        terminal.type(CTRL_C)
        assert terminal.end() == 0
        assert LEAVE_HINT not in terminal.shown


def test_prompt_has_several_lines_and_history(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type(f"one{ALT_ENTER}two\\\rthree")
        terminal.wait_for("three")
        terminal.type("\r")
        terminal.wait_for(f"1 message so far.\n\n{PROMPT}")
        terminal.type(UP)
        terminal.wait_for(f"{PROMPT} one\n  two\n  three", 2)
        terminal.type("\r")
        terminal.wait_for("2 messages so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    lines = cli("show", "--store", store, str(sessions(store)[0]["id"])).stdout.splitlines()
    assert [line for line in lines if line.startswith(">")] == ["> one", "> two", "> three"] * 2


def test_slash_commands_are_completed(store: Path, folder: Path) -> None:
    session = record(store, folder, "Hello")
    with Terminal("resume", "--store", store, session) as terminal:
        terminal.wait_for(READY)
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
        shown = terminal.wait_for(READY)
        assert "(2 earlier turns: `rekindle show`)" in shown
        assert "turn 3" in shown
        assert "turn 2" not in shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_resume_without_the_picker_shows_a_menu(store: Path, folder: Path) -> None:
    for words in ("first", "second"):
        record(store, folder, f"The {words} one")
    record(store, folder, "A long one, " * 20)
    with Terminal("resume", "--store", store, cwd=folder, TERM="dumb") as terminal:
        terminal.wait_for("Which one, 1 to 3? [1]")
        assert len(terminal.shown.splitlines()) == 4
        assert terminal.shown.index("second") < terminal.shown.index("first")
        terminal.enter("3")
        terminal.wait_for(READY)
        assert "You said: The first one. That makes 1 message so far." in terminal.shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_new_uses_the_agent_used_last(store: Path, folder: Path) -> None:
    record(store, folder, "Hello")
    with Terminal("new", "--store", store, cwd=folder) as terminal:
        terminal.wait_for(READY)
        terminal.enter("Hi")
        terminal.wait_for("That makes 1 message so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert len(sessions(store)) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["new", "--", "no-such-agent"],
            127,
            "rekindle: error: command not found: no-such-agent: ",
        ),
        (["new", "cladue"], 127, "command not found: cladue: did you mean claude?"),
        (["new", "--cwd", "/no/such", "--", "x"], 2, "there is no folder /no/such"),
        (["resume", "--last"], 1, "no sessions are recorded yet; configure an editor"),
        (["new"], 2, "no agent was used here before: name one"),
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
        terminal.wait_for("starting the agent…")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown


# -- the opening and the end ----------------------------------------------------------------


def test_hint_explains_the_keys_once(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        for key in ("Enter sends", "Alt-Enter: new line", "Ctrl-C cancels", "Ctrl-D leaves"):
            assert terminal.shown.count(key) == 1
        terminal.enter("Hello")
        terminal.wait_for(f"so far.\n\n{PROMPT}")
        assert terminal.shown.count("Enter sends") == 1
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.parametrize("is_default", [False, True], ids=["option", "default"])
def test_leaving_prints_the_command_that_continues(
    store: Path, folder: Path, *, is_default: bool
) -> None:
    environ = {"REKINDLE_STORE": str(store)} if is_default else {}
    option = () if is_default else ("--store", store)
    with Terminal("new", *option, "--", *EXAMPLE_AGENT, cwd=folder, **environ) as terminal:
        terminal.wait_for(READY)
        terminal.enter("Hello")
        terminal.wait_for(f"so far.\n\n{PROMPT}")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        (session,) = sessions(store)
        words = shlex.split(terminal.shown.replace("\n", "").rpartition("To continue: ")[2])
        assert words == ["rekindle", "resume", *map(str, option), session["id"]]
        assert terminal.shown.count("To continue: ") == 1


def test_chat_without_a_turn_has_nothing_to_continue(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "To continue" not in terminal.shown


# -- while the agent works ------------------------------------------------------------------


def test_sign_moves_with_the_elapsed_time_until_the_turn_ends(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("slow")
        terminal.wait_for_match(r"working… \d+ s \(Ctrl-C cancels\)")
        assert len({sign for sign in FRAMES if sign in terminal.raw}) > 2
        terminal.type(CTRL_C)
        terminal.wait_for(f"(cancelled)\n\n{PROMPT}")
        assert "working" not in terminal.shown
        # The hint is not repeated in the next turn.
        start = len(terminal.raw)
        terminal.enter("slow")
        terminal.wait_for("working…")
        terminal.type(CTRL_C)
        terminal.wait_for(f"(cancelled)\n\n{PROMPT}", 2)
        assert "(Ctrl-C cancels)" not in terminal.raw[start:]
        assert terminal.raw.count(HIDE_CURSOR) > 1
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        # Drawing hides the cursor for a moment, so only the end is certain.
        assert terminal.raw.rfind(SHOW_CURSOR) > terminal.raw.rfind(HIDE_CURSOR)


def test_dumb_terminal_has_no_sign(store: Path, folder: Path) -> None:
    command = ("new", "--store", store, "--", *EXAMPLE_AGENT, "--delay", "0.1")
    with Terminal(*command, cwd=folder, TERM="dumb") as terminal:
        terminal.wait_for(READY)
        terminal.enter("plan")
        terminal.wait_for("so far.")
        assert "working" not in terminal.raw
        assert "starting" not in terminal.raw
        assert not any(sign in terminal.raw for sign in FRAMES)
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_prompt_typed_during_a_turn_is_queued_and_sent_next(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("edit")
        terminal.wait_for("3  Reject (n)")
        terminal.answer("n")
        terminal.wait_for(f"so far.\n\n{PROMPT}")
        terminal.enter("slow")
        terminal.wait_for("I am waiting until you cancel.")
        terminal.type("My name is")
        terminal.wait_for(f"{PROMPT} My name is")
        terminal.enter(" Ada.")
        terminal.wait_for("  queued: My name is Ada.\n  ↑ edits the last queued prompt")
        terminal.type(UP)
        terminal.wait_for(f"{PROMPT} My name is Ada.")
        assert "queued: " not in terminal.shown
        # A cancelled turn does not send it.
        terminal.enter("")
        terminal.wait_for("  queued: My name is Ada.")
        terminal.type(CTRL_C)
        terminal.wait_for(f"(cancelled)\n\n{PROMPT} My name is Ada.")
        terminal.enter(" Really.")
        terminal.wait_for("You said: My name is Ada. Really. That makes 3 messages so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_queued_prompts_are_sent_one_after_another(store: Path, folder: Path, gate: Path) -> None:
    with new(store, folder, *pausing(gate)) as terminal:
        # The keys after the first Enter are typed ahead.
        terminal.type("wait 1\rtwo\rwait 3\r")
        terminal.wait_for("  queued: two\n  queued: wait 3")
        gate.touch()
        terminal.wait_for("You said: two. That makes 2 messages so far.")
        terminal.wait_for(f"{PROMPT} wait 3\n\n")
        assert f"{PROMPT} two\n\nYou said: two. That makes 2 messages so far." in terminal.shown
        assert "queued: " not in terminal.shown
        terminal.type("draft")
        terminal.wait_for(f"{PROMPT} draft")
        gate.touch()
        terminal.wait_for(f"3 messages so far.\n\n{PROMPT} draft")
        # Queued prompts are in the history, too.
        terminal.type(f"{CTRL_U}{UP}")
        terminal.wait_for(f"so far.\n\n{PROMPT} wait 3", 2)
        terminal.type(f"{CTRL_U}{CTRL_D}")
        assert terminal.end() == 0


def test_user_can_leave_during_a_turn(store: Path, folder: Path) -> None:
    with new(store, folder) as terminal:
        terminal.enter("slow")
        terminal.wait_for("I am waiting until you cancel.")
        terminal.type(CTRL_D)
        terminal.wait_for("queued: /quit")
        terminal.type(CTRL_C)
        assert terminal.end() == 0


def test_failed_turn_keeps_the_queued_prompts(store: Path, folder: Path, gate: Path) -> None:
    with new(store, folder, *pausing(gate)) as terminal:
        terminal.enter("wait, then error")
        terminal.wait_for("working…")
        terminal.enter("second")
        terminal.wait_for("queued: second")
        gate.touch()
        terminal.wait_for(f"(failed: failed, as the prompt asked)\n\n{PROMPT} second")
        terminal.enter(" chance")
        terminal.wait_for("You said: second chance. That makes 2 messages so far.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_plan_is_updated_in_place(store: Path, folder: Path, gate: Path) -> None:
    with new(store, folder, *pausing(gate)) as terminal:
        terminal.enter("plan")
        for steps in (">  ", "x> ", "xx>"):
            texts = ("Look at the question", "Find an answer", "Say it")
            lines = (f"  [{mark}] {text}" for mark, text in zip(steps, texts, strict=True))
            shown = terminal.wait_for("\n".join(lines))
            assert shown.count("Find an answer") == 1
            gate.touch()
        terminal.wait_for("[x] Say it")
        gate.touch()
        shown = terminal.wait_for(f"so far.\n\n{PROMPT}")
        assert shown.count("Find an answer") == 1
        assert "  [x] Look at the question\n  [x] Find an answer\n  [x] Say it\n\nYou" in shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0
