"""A chat whose session another window uses, too, in real terminals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from prepared_sessions import cli
from pty_terminal import Terminal
from stdio_client import EXAMPLE_AGENT, REKINDLE, Client, selected

SLOW = (*EXAMPLE_AGENT, "--delay", "0.03")
READY = "Ctrl-D leaves · /help\n\n❯"  # noqa: RUF001 - the prompt's character
CTRL_D = "\x04"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def editor(store: Path) -> Iterator[Client]:
    """Return another window of the session."""
    client = Client(*REKINDLE, "run", "--store", store, "--", *SLOW)
    client.call("initialize", {"protocolVersion": 1})
    yield client
    client.close()


@pytest.fixture
def session_id(store: Path, editor: Client) -> str:
    created = editor.call("session/new", {"cwd": str(store.parent), "mcpServers": []})
    editor.prompt(created["sessionId"], "Hello")
    return created["sessionId"]


def resume(store: Path, session_id: str) -> Terminal:
    return Terminal("resume", "--store", store, session_id, "--", *SLOW)


def test_turns_of_another_window_are_shown_and_the_draft_is_kept(
    store: Path, editor: Client, session_id: str
) -> None:
    with resume(store, session_id) as terminal:
        terminal.wait_for(READY)
        terminal.type("My")
        turn = editor.start(session_id, "count to 25")
        terminal.wait_for("in another window")
        terminal.type(" draft")
        assert editor.answer(turn)["result"] == {"stopReason": "end_turn"}
        terminal.wait_for("23 24 25")
        terminal.wait_for("❯ My draft")  # noqa: RUF001
        terminal.type("\r")
        terminal.wait_for("You said: My draft. That makes 3 messages so far.")
        assert terminal.shown.count("count to 25") == 1
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_prompt_typed_meanwhile_is_sent_next(
    store: Path, editor: Client, session_id: str
) -> None:
    with resume(store, session_id) as terminal:
        terminal.wait_for(READY)
        editor.start(session_id, "count to 40")
        terminal.wait_for("in another window")
        terminal.enter("And mine")
        terminal.wait_for("queued: And mine")
        terminal.wait_for("You said: And mine.")
        assert terminal.shown.index("39 40") < terminal.shown.index("❯ And mine")  # noqa: RUF001
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_chat_that_comes_in_mid_turn_shows_it_whole_and_once(
    store: Path, editor: Client, session_id: str
) -> None:
    turn = editor.start(session_id, "edit")
    asked = editor.asked()
    with resume(store, session_id) as terminal:
        terminal.wait_for("in another window")
        assert terminal.shown.count("❯ edit") == 1  # noqa: RUF001
        editor.send(id=asked["id"], **selected("allow-once"))
        assert editor.answer(turn)["result"] == {"stopReason": "end_turn"}
        terminal.wait_for("✓ Edit")
        terminal.wait_for("You said: edit.")
        terminal.enter("Done?")
        terminal.wait_for("You said: Done?")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.usefixtures("editor")
def test_a_window_is_asked_when_the_other_one_has_left(store: Path, session_id: str) -> None:
    third = Client(*REKINDLE, "run", "--store", store, "--", *SLOW)
    third.call("initialize", {"protocolVersion": 1})
    folder = {"cwd": str(store.parent), "mcpServers": []}
    third.call("session/load", folder | {"sessionId": session_id})
    with resume(store, session_id) as terminal:
        terminal.wait_for(READY)
        third.start(session_id, "edit")
        third.asked()
        terminal.wait_for("in another window")
        third.close()
        terminal.wait_for("3  Reject (n)")
        terminal.answer("y")
        terminal.wait_for("You said: edit.")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_single_prompt_prints_only_its_own_answer(
    store: Path, editor: Client, session_id: str
) -> None:
    turn = editor.start(session_id, "count to 40")
    editor.until(lambda m: "agent_message_chunk" in str(m))
    done = cli("prompt", "--store", store, session_id, "And mine", "--", *SLOW)
    assert done.stdout == "You said: And mine. That makes 3 messages so far.\n"
    assert editor.answer(turn)["result"] == {"stopReason": "end_turn"}


def test_a_chat_whose_session_was_stopped_names_the_remedy(store: Path, session_id: str) -> None:
    with resume(store, session_id) as terminal:
        terminal.wait_for(READY)
        assert cli("stop", "--store", store, session_id).returncode == 0
        terminal.enter("Are you there?")
        terminal.wait_for("rekindle resume")
        shown = " ".join(terminal.shown.split())
        assert f"closed elsewhere: leave, and `rekindle resume {session_id}`" in shown
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_prompt_that_waited_behind_the_own_turn_is_shown(
    store: Path, editor: Client, session_id: str
) -> None:
    with resume(store, session_id) as terminal:
        terminal.wait_for(READY)
        terminal.enter("count to 25")
        terminal.wait_for("1 2 3")
        turn = editor.start(session_id, "Queued")
        assert editor.answer(turn)["result"] == {"stopReason": "end_turn"}
        terminal.wait_for("You said: Queued.")
        assert "❯ Queued" in terminal.shown  # noqa: RUF001
        terminal.type(CTRL_D)
        assert terminal.end() == 0
