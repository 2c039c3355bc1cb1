"""Changes by commands, as an editor sees them."""

from collections.abc import Callable
from pathlib import Path

from command_runs import run
from stdio_client import EXAMPLE_AGENT, NEW, Client

Start = Callable[..., Client]


def connect(start: Start) -> Client:
    client = start(*EXAMPLE_AGENT)
    client.call("initialize", {"protocolVersion": 1})
    return client


def test_a_fork_made_on_the_command_line_can_be_loaded(start: Start, store_path: Path) -> None:
    one = connect(start)
    session_id = one.new()
    one.prompt(session_id, "Hello")
    one.prompt(session_id, "Goodbye")
    fork_id = run("fork", "--store", store_path, session_id, "--until", "1").stdout.strip()
    other = connect(start)
    other.call("session/load", NEW | {"sessionId": fork_id})
    assert other.reply(fork_id, "what did I say first?").endswith("You said first: Hello")
    assert other.reply(fork_id, "how many prompts?").find("Goodbye") == -1


def test_editors_see_new_titles_and_no_archived_sessions(start: Start, store_path: Path) -> None:
    client = connect(start)
    renamed, archived = client.new(), client.new()
    for session_id in (renamed, archived):
        client.prompt(session_id, "Hello")
    assert run("rename", "--store", store_path, renamed, "Mine").returncode == 0
    assert run("archive", "--store", store_path, archived).returncode == 0
    client.prompt(renamed, "title")
    (listed,) = client.call("session/list", {})["sessions"]
    assert (listed["sessionId"], listed["title"]) == (renamed, "Mine")
    run("unarchive", "--store", store_path, archived)
    assert len(client.call("session/list", {})["sessions"]) == 2
