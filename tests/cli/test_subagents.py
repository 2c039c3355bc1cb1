"""Sub-agents on the command line: shown, exported, listed, searched and deleted."""

import json
from pathlib import Path

import pytest

from prepared_sessions import cli
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import CWD, EXAMPLE_AGENT, REKINDLE, Client, selected


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, str, str]:
    """Record a session with a sub-agent; return the store and the ids of both records."""
    store = tmp_path / "store"
    client = Client(*REKINDLE, "run", "--store", store, "--", *EXAMPLE_AGENT)
    try:
        capabilities = {"subagents": {}}
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        session_id = client.new()
        turn = client.start(session_id, "delegate")
        asked = client.asked()
        client.send(id=asked["id"], **selected("allow-once"))
        client.answer(turn)
        client.end()
    finally:
        client.close()
    return store, session_id, f"{session_id}.{asked['params']['sessionId']}"


def test_sub_agents_go_with_their_session(recorded: tuple[Path, str, str], tmp_path: Path) -> None:
    store, session_id, child = recorded
    # `show` and the documents have the whole conversation of the sub-agent.
    shown = cli("show", "--store", store, session_id).stdout
    assert f"◇ Sub-agent Editor: Edits {CWD}/notes.txt\n" in shown
    assert "  I am on it." in shown
    assert shown.index("I am on it.") < shown.index("My sub-agent has edited the notes.")
    assert "I am on it." in cli("show", "--store", store, child).stdout
    described = json.loads(cli("show", "--store", store, session_id, "--json").stdout)
    items = described["conversation"][0]["items"]
    (subagent,) = [item for item in items if item["type"] == "subagent"]
    assert subagent["state"] == {"state": "idle", "stopReason": "end_turn"}
    kinds = [item["type"] for item in subagent["conversation"][0]["items"]]
    assert kinds == ["message", "tool_call", "message"]
    for name in ("markdown", "html", "json", "acp"):
        document = cli("export", "--store", store, session_id, "--format", name).stdout
        assert "I am on it." in document, name
    lines = cli("export", "--store", store, session_id, "--format", "acp").stdout.splitlines()
    named = [json.loads(line)["params"]["sessionId"] for line in lines]
    assert {session_id, child.removeprefix(f"{session_id}.")} == set(named)
    # It is listed on request only, and names its session there and in search results.
    assert child not in cli("list", "--store", store).stdout
    listed = json.loads(cli("list", "--store", store, "--all", "--json").stdout)
    (row,) = [it for it in listed if it["id"] == child]
    assert (row["parentId"], row["isSubagent"]) == (session_id, True)
    assert f"(sub-agent of {session_id})" in cli("list", "--store", store, "--all").stdout
    (hit,) = json.loads(cli("search", "--store", store, "--json", "on it").stdout)
    assert (hit["sessionId"], hit["parentId"]) == (child, session_id)
    assert f"(sub-agent of {session_id})" in cli("search", "--store", store, "on it").stdout
    # A bundle has both.
    bundle, other = tmp_path / "bundle", tmp_path / "other"
    cli("export", "--store", store, session_id, "--format", "bundle", "-o", bundle)
    cli("import", "--store", other, bundle)
    assert cli("show", "--store", other, session_id).stdout == shown
    # They are deleted, restored and purged together.
    cli("delete", "--store", store, session_id)
    with SqliteStore(store) as opened:
        assert opened.session(child).deleted_us is not None
    cli("undelete", "--store", store, session_id)
    with SqliteStore(store) as opened:
        assert opened.session(child).deleted_us is None
    cli("delete", "--store", store, session_id, "--now", "--yes")
    with SqliteStore(store) as opened:
        assert opened.session(child).is_purged
        assert list(opened.read(child)) == []


def test_prune_keeps_sub_agents_of_sessions_that_it_keeps(
    recorded: tuple[Path, str, str],
) -> None:
    store, _, child = recorded
    cli("prune", "--store", store, "--keep", "1", "--yes")
    with SqliteStore(store) as opened:
        assert opened.session(child).deleted_us is None
