"""Leases between real processes that share a store."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from stdio_client import EXAMPLE_AGENT, NEW, Client, is_running

Start = Callable[..., Client]
IMITATIONS = Path(__file__).parents[1] / "agents" / "agent_imitations.py"


def connect(start: Start, *options: str | Path) -> Client:
    client = start(*EXAMPLE_AGENT, options=options)
    client.call("initialize", {"protocolVersion": 1})
    return client


def test_a_session_in_use_can_be_shared_and_forked(start: Start) -> None:
    one, other = connect(start), connect(start)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    opening = NEW | {"sessionId": session_id}
    fork_id = other.call("session/fork", opening)["sessionId"]
    assert other.reply(fork_id, "what did I say first?").endswith("You said first: Hello")
    opened = other.call("session/load", opening)
    assert opened["_meta"]["rekindle"]["restored"] == "live"
    assert other.reply(session_id, "what did I say first?") == "You said first: Hello"
    assert "You said: Goodbye" in one.reply(session_id, "Goodbye")


def test_a_session_in_use_with_another_agent_is_refused(start: Start, tmp_path: Path) -> None:
    one = connect(start)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    other = start(sys.executable, IMITATIONS, "echo", tmp_path)
    other.call("initialize", {"protocolVersion": 1})
    opening = NEW | {"sessionId": session_id}
    for method in ("session/load", "session/resume"):
        error = other.answer(other.request(method, opening))["error"]
        assert f"in use by process {one.process.pid} on " in error["message"]
        assert "its agent is example-agent" in error["message"]
        assert "fork" in error["message"]
        assert error["data"]["pid"] == one.process.pid


def test_a_dead_holder_does_not_keep_its_lease(start: Start) -> None:
    one = connect(start)
    session_id = one.new()
    one.process.kill()
    one.process.wait()
    other = connect(start)
    other.call("session/load", NEW | {"sessionId": session_id})
    assert other.reply(session_id, "Hello").startswith("You said: Hello")


def test_close_and_disconnect_release_the_lease(start: Start) -> None:
    one, other = connect(start), connect(start)
    closed, left = one.new(), one.new()
    for session_id in (closed, left):
        one.prompt(session_id, "Hello")
    one.call("session/close", {"sessionId": closed})
    other.call("session/resume", NEW | {"sessionId": closed})
    one.end()
    assert not is_running(one.process.pid)
    other.call("session/resume", NEW | {"sessionId": left})


def test_takeover_moves_the_lease_to_another_process(start: Start) -> None:
    one = connect(start)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    other = connect(start, "--takeover")
    other.call("session/load", NEW | {"sessionId": session_id})
    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "Mine!"}]}
    error = one.answer(one.request("session/prompt", prompt))["error"]
    assert f"in use by process {other.process.pid} on " in error["message"]
    assert other.reply(session_id, "what did I say first?").endswith("You said first: Hello")


def test_a_symbolic_link_opens_the_same_store(start: Start, store_path: Path) -> None:
    link = store_path.with_name("elsewhere") / "link.db"
    link.parent.mkdir(parents=True)
    link.symlink_to(store_path)
    one, other = connect(start), connect(start, "--store", link)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    opened = other.call("session/load", NEW | {"sessionId": session_id})
    assert opened["_meta"]["rekindle"]["restored"] == "live"
    assert list(link.parent.iterdir()) == [link]


def test_a_deleted_live_folder_does_not_free_a_session(start: Start, store_path: Path) -> None:
    one, other = connect(start), connect(start)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    shutil.rmtree(f"{store_path}.live")
    opened = other.call("session/load", NEW | {"sessionId": session_id})
    assert opened["_meta"]["rekindle"]["restored"] == "live"
    assert one.reply(session_id, "what did I say first?") == "You said first: Hello"
    one.process.kill()
    one.process.wait()
    # The other process continues the session, and reports the end of the host.
    other.until(lambda m: "stopReason" in json.dumps(m))
    assert other.reply(session_id, "what did I say first?").endswith("You said first: Hello")


def test_a_lost_takeover_race_is_answered_with_advice_that_helps(start: Start) -> None:
    one, other = connect(start, "--takeover"), connect(start, "--takeover")
    session_id = one.new()
    one.prompt(session_id, "Hello")
    opening = NEW | {"sessionId": session_id}
    other.call("session/load", opening)
    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "Mine!"}]}
    error = one.answer(one.request("session/prompt", prompt))["error"]
    assert error["message"].endswith("or load or resume it again to use it here")
    one.call("session/load", opening)
    assert one.reply(session_id, "what did I say first?").endswith("You said first: Hello")
