"""Sessions imported from each tool are like any other, for clients of both versions."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warm_start
from rekindle.model import Kind
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, said
from stdio_client_v2 import HELLO, START, ClientV2
from tool_files import ANSWER, CWD, PROMPT, TOOLS, Gemini, ToolSessionFile

Start = Callable[..., Client]
AGENT = Path(__file__).parents[1] / "agents" / "agent_with_session_file.py"
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
FORGETFUL = (*EXAMPLE_AGENT, "--offer", "none")


pytestmark = pytest.mark.one_of(2)


@pytest.fixture(params=TOOLS, ids=lambda it: it.tool)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> ToolSessionFile:
    return request.param(tmp_path)


@pytest.fixture
def imported(made: ToolSessionFile, store_path: Path) -> ToolSessionFile:
    assert "1 session: 1 new" in made.imports(store_path)
    return made


@pytest.fixture
def start_v2(store_path: Path) -> Iterator[Callable[..., ClientV2]]:
    clients: list[ClientV2] = []

    def start(*command: str | Path) -> ClientV2:
        client = ClientV2(*REKINDLE, "run", "--store", store_path, "--", *command)
        clients.append(client)
        client.call("initialize", HELLO)
        return client

    yield start
    for client in clients:
        client.close()


def connect(start: Start, *agent: str | Path) -> Client:
    client = start(*agent)
    client.call("initialize", INITIALIZE)
    return client


def own_agent(
    made: ToolSessionFile, offers: str, name: str | None = None
) -> tuple[str | Path, ...]:
    """Return the command of the tool's agent, or of an agent with another name."""
    return (sys.executable, AGENT, name or made.agent, offers, made.file, made.home / "heard")


def agent_requests(made: ToolSessionFile) -> list[tuple[str, str | None]]:
    """Return the agent's requests with their sessions, without `initialize` and `session/list`."""
    lines = (made.home / "heard").read_bytes().splitlines()
    handed_over = [json.loads(line) for line in lines]
    told = [
        (it["method"].removeprefix("session/"), it["params"].get("sessionId")) for it in handed_over
    ]
    return [it for it in told if it[0] not in {"initialize", "list"}]


def rekindle(store: Path, command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return warm_start.run(
        [*REKINDLE, command, "--store", store, *words],
        capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def as_json(store: Path, command: str, *words: str | Path) -> Any:  # noqa: ANN401 - any JSON
    done = rekindle(store, command, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def prompts(store: Path, session_id: str) -> list[str]:
    """Return the prompts of a session."""
    with SqliteStore(store) as opened:
        entries = [it for it in opened.read(session_id) if it.kind is Kind.PROMPT]
    blocks = [json.loads(it.line)["params"]["prompt"] for it in entries]
    return ["".join(block["text"] for block in it) for it in blocks]


# -- list and load --------------------------------------------------------------------------


def test_a_v1_client_lists_and_loads_an_imported_session(
    start: Start, imported: ToolSessionFile
) -> None:
    client = connect(start, *FORGETFUL)
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (
        imported.session_id, CWD, PROMPT,
    )  # fmt: skip
    assert listed["_meta"]["rekindle"]["importedFrom"] == imported.tool
    assert client.call("session/list", {"cwd": "/elsewhere"})["sessions"] == []
    client.received.clear()
    client.call("session/load", imported.opened)
    updates = client.updates(imported.session_id)
    assert (said(updates, "user_message_chunk"), said(updates)) == (PROMPT, ANSWER)
    updates = client.prompt(imported.session_id, "what did I say first?")
    assert said(updates).endswith(f"You said first: {PROMPT}")


def test_a_v2_client_lists_and_resumes_an_imported_session(
    start_v2: Callable[..., ClientV2], imported: ToolSessionFile
) -> None:
    client = start_v2(*FORGETFUL)
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert (listed["sessionId"], listed["title"]) == (imported.session_id, PROMPT)
    assert listed["_meta"]["rekindle"]["importedFrom"] == imported.tool
    assert client.call("session/list", {"cwd": "/elsewhere"})["sessions"] == []
    updates = client.resume(imported.session_id, CWD, **START)
    (user,) = [it for it in updates if it["sessionUpdate"] == "user_message"]
    assert [it["text"] for it in user["content"]] == [PROMPT]
    assert ANSWER in json.dumps(updates)
    assert client.reply(imported.session_id, "what did I say first?").endswith(PROMPT)


# -- restore --------------------------------------------------------------------------------


@pytest.mark.parametrize("offers", ["resume,load", "load,late"])
def test_the_original_agent_restores_the_session_natively(
    start: Start, imported: ToolSessionFile, offers: str
) -> None:
    client = connect(start, *own_agent(imported, offers))
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert listed["_meta"]["rekindle"]["restoresNatively"] is True
    client.received.clear()
    answer = client.call("session/resume", imported.opened)
    assert answer["_meta"]["rekindle"]["restored"] == "native"
    # A resuming client gets no replay, even if the agent sends one.
    assert client.updates(imported.session_id) == []
    assert client.reply(imported.session_id, "Go on") == "Live."
    client.end()
    means = offers.partition(",")[0]
    assert agent_requests(imported) == [
        (means, imported.session_id),
        ("prompt", imported.session_id),
    ]
    (prompt,) = [it for it in handed_over(imported) if it["method"] == "session/prompt"]
    assert [it["text"] for it in prompt["params"]["prompt"]] == ["Go on"]


def handed_over(made: ToolSessionFile) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.home / "heard").read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("offers", "name", "is_gone"),
    [("none", None, ""), ("resume,load", "another agent", ""), ("resume,load", None, "gone")],
    ids=["without-means", "another", "its-file-is-gone"],
)
def test_another_agent_gets_a_handover(
    start: Start, imported: ToolSessionFile, offers: str, name: str | None, is_gone: str
) -> None:
    if is_gone:
        imported.file.unlink()
    client = connect(start, *own_agent(imported, offers, name))
    answer = client.call("session/resume", imported.opened)
    assert answer["_meta"]["rekindle"]["restored"] == "handover"
    assert client.reply(imported.session_id, "Go on").endswith("Live.")
    client.end()
    new = f"of-{name or imported.agent}"
    ways = [(it, imported.session_id) for it in ("resume", "load") if is_gone]
    assert agent_requests(imported) == [*ways, ("new", None), ("prompt", new)]
    (prompt,) = [it for it in handed_over(imported) if it["method"] == "session/prompt"]
    told = "".join(it["text"] for it in prompt["params"]["prompt"])
    assert f"User: {PROMPT}\nYou: {ANSWER}" in told


# -- fork, close, delete --------------------------------------------------------------------


def test_fork_close_and_delete_reach_the_original_agent(
    start: Start, imported: ToolSessionFile, store_path: Path
) -> None:
    session_id = imported.session_id
    client = connect(start, *own_agent(imported, "resume,fork,close,delete,list"))
    ids = {it["sessionId"] for it in client.call("session/list", {"cwd": CWD})["sessions"]}
    assert ids == {session_id, "only-there"}
    fork = client.call("session/fork", imported.opened)
    assert fork["sessionId"] == f"of-{imported.agent}"
    client.call("session/resume", imported.opened)
    assert client.call("session/close", {"sessionId": session_id}) == {}
    assert client.call("session/delete", {"sessionId": session_id}) == {}
    ids = {it["sessionId"] for it in client.call("session/list", {"cwd": CWD})["sessions"]}
    assert ids == {fork["sessionId"], "only-there"}
    code, _ = client.error("session/load", imported.opened)
    assert code == -32002
    client.end()
    assert agent_requests(imported) == [
        (it, session_id) for it in ("fork", "resume", "close", "delete")
    ]  # fmt: skip
    # A deleted session stays deleted without --undelete.
    assert "1 deleted here" in imported.imports(store_path)
    imported.add("Still there?", "Yes.")
    assert "1 deleted here" in imported.imports(store_path)
    assert [it["id"] for it in as_json(store_path, "list", "--all")] == [fork["sessionId"]]
    imported.imports(store_path, imported.tool, "--undelete")
    assert prompts(store_path, session_id) == [PROMPT, "Still there?"]


def test_another_agent_does_not_delete_its_own_session(
    start: Start, imported: ToolSessionFile
) -> None:
    client = connect(start, *own_agent(imported, "resume,fork,delete", "another agent"))
    fork = client.call("session/fork", imported.opened)
    assert fork["_meta"]["rekindle"]["restored"] == "handover"
    assert client.call("session/delete", {"sessionId": imported.session_id}) == {}
    assert client.call("session/list", {"cwd": CWD})["sessions"][0]["sessionId"] != (
        imported.session_id
    )
    client.end()
    assert agent_requests(imported) == [("new", None)]


# -- on the command line --------------------------------------------------------------------


def test_search_export_and_import_keep_the_origin(
    imported: ToolSessionFile, store_path: Path, tmp_path: Path
) -> None:
    hits = as_json(store_path, "search", "Ada")
    assert {it["sessionId"] for it in hits} == {imported.session_id}
    origin = as_json(store_path, "list", "--all")[0]["origin"]
    assert origin["tool"] == imported.tool
    assert origin["path"].partition("#")[0] == str(imported.file)
    bundle, there = tmp_path / "b.rekindle", tmp_path / "there.db"
    done = rekindle(store_path, "export", "--all", "--format", "bundle", "-o", bundle)
    assert done.returncode == 0, done.stderr
    imported.imports(there, bundle)
    assert as_json(there, "list", "--all")[0]["origin"] == origin
    assert "1 unchanged" in imported.imports(there)
    # After the move it follows the file as before.
    imported.add("And now?", "Now, too.")
    assert "1 session: 1 updated" in imported.imports(there)
    assert prompts(there, imported.session_id) == [PROMPT, "And now?"]


def test_an_imported_session_continues_on_the_command_line(
    imported: ToolSessionFile, store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "moved"
    here.mkdir()
    session_id = imported.session_id
    assert "relocate" in rekindle(store_path, "prompt", session_id, "Hi", "--", "true").stderr
    assert rekindle(store_path, "relocate", session_id, here).returncode == 0
    # Its agent was never started here, and is not installed.
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(here))
        done = rekindle(store_path, "prompt", session_id, "Hi")
    assert (done.returncode, "is not installed: `npm install -g" in done.stderr) == (127, True)
    words = ("what did I say first?", "--", *FORGETFUL)
    done = rekindle(store_path, "prompt", session_id, *words)
    assert f"You said first: {PROMPT}" in done.stdout, done.stderr
    fork = rekindle(store_path, "fork", session_id)
    assert fork.returncode == 0, fork.stderr
    assert len(as_json(store_path, "list", "--all")) == 2


def test_imported_sessions_are_pruned_only_on_request(
    imported: ToolSessionFile, store_path: Path
) -> None:
    assert rekindle(store_path, "compact").returncode == 0
    looked = rekindle(store_path, "prune", "--older-than", "1d", "--dry-run")
    assert imported.session_id in looked.stdout
    assert "would delete 1 session" in looked.stderr
    assert len(as_json(store_path, "list", "--all")) == 1
    assert rekindle(store_path, "prune", "--older-than", "1d", "--now", "--yes").returncode == 0
    assert "1 deleted here" in imported.imports(store_path)
    assert as_json(store_path, "list", "--all") == []


# -- recorded here and by the tool in turns --------------------------------------------------


def test_a_session_recorded_here_and_by_the_tool_is_not_duplicated(
    start: Start, imported: ToolSessionFile, store_path: Path
) -> None:
    expected = [PROMPT]
    for number in (1, 2):
        client = connect(start, *own_agent(imported, "resume"))
        client.call("session/resume", imported.opened)
        client.prompt(imported.session_id, f"Recorded {number}")
        client.end()
        imported.add(f"Recorded {number}", "Live.")
        assert "1 session: 1 unchanged" in imported.imports(store_path)
        # Now without Rekindle.
        imported.add(f"Alone {number}", "In the terminal.")
        assert "1 session: 1 updated" in imported.imports(store_path)
        expected += [f"Recorded {number}", f"Alone {number}"]
    assert prompts(store_path, imported.session_id) == expected
    (listed,) = as_json(store_path, "list", "--all")
    assert (listed["turns"], listed["messages"]) == (5, 10)
    client = connect(start, *own_agent(imported, "resume"))
    client.call("session/load", imported.opened)
    updates = client.updates(imported.session_id)
    users = [it for it in updates if it["sessionUpdate"] == "user_message_chunk"]
    assert [it["content"]["text"] for it in users] == expected


def test_a_session_that_was_only_loaded_still_follows_its_file(
    start: Start, imported: ToolSessionFile, store_path: Path
) -> None:
    client = connect(start, *FORGETFUL)
    client.call("session/load", imported.opened)
    client.end()
    imported.add("Alone", "In the terminal.")
    assert "1 session: 1 updated" in imported.imports(store_path)
    assert prompts(store_path, imported.session_id) == [PROMPT, "Alone"]


def test_a_session_without_a_folder_can_be_relocated(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    made = Gemini(tmp_path)
    (made.file.parents[1] / ".project_root").unlink()
    made.imports(store_path)
    client = connect(start, *FORGETFUL)
    assert client.call("session/list", {})["sessions"] == []
    refused = client.answer(client.request("session/load", made.opened))["error"]["message"]
    assert f"rekindle relocate {made.session_id}" in refused
    client.end()
    done = rekindle(store_path, "prompt", made.session_id, "Hi", "--", "true")
    assert f"rekindle relocate {made.session_id}" in done.stderr
    here = tmp_path / "here"
    here.mkdir()
    done = rekindle(store_path, "relocate", made.session_id, here)
    assert f": ? → {here}" in done.stdout, done.stderr
    client = connect(start, *FORGETFUL)
    (listed,) = client.call("session/list", {"cwd": str(here)})["sessions"]
    assert listed["sessionId"] == made.session_id
    client.call("session/load", made.opened | {"cwd": str(here)})
    client.end()
    # A later import does not change the folder back.
    (made.file.parents[1] / ".project_root").write_text(CWD)
    made.add("Alone", "In the terminal.")
    made.imports(store_path)
    assert as_json(store_path, "list", "--all")[0]["cwd"] == str(here)
