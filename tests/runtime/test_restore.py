"""Sessions that are restored: after a kill, a crash or a hang, and of any length."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.model import AgentIdentity, Deleted, EntryBatch, Kind, Opened, Side
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, Client, is_running, kind, said

Start = Callable[..., Client]

MUTE = Path(__file__).parents[1] / "agents" / "agent_closes_stdout.py"
DAY_US = 24 * 3600 * 1_000_000
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


def connect(start: Start, *agent: str | Path, options: tuple[str, ...] = ()) -> Client:
    client = start(*(agent or EXAMPLE_AGENT), options=options)
    client.call("initialize", INITIALIZE)
    return client


@pytest.mark.requirement(16)
def test_a_forgetful_agent_remembers_after_kill_9_of_everything(start: Start) -> None:
    client = connect(start, *EXAMPLE_AGENT, "--offer", "none")
    session_id = client.new()
    client.prompt(session_id, "My name is Ada.")
    client.prompt(session_id, "think, plan, read")
    client.process.kill()
    client.process.wait()

    client = connect(start, *EXAMPLE_AGENT, "--offer", "none")
    client.call("session/load", NEW | {"sessionId": session_id})
    updates = client.prompt(session_id, "what did I say first?")
    assert said(updates).endswith("You said first: My name is Ada.")
    (notice,) = [it for it in updates if "rekindle" in it.get("_meta", {})]
    assert "Rekindle sent it the history" in notice["content"]["text"]
    # The handover is not replayed as a message of the user.
    client.received.clear()
    client.call("session/load", NEW | {"sessionId": session_id})
    told = client.updates(session_id)
    users = [it["content"]["text"] for it in told if kind(it) == "user_message_chunk"]
    assert users == ["My name is Ada.", "think, plan, read", "what did I say first?"]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_an_agent_that_has_lost_turns_receives_them_with_the_next_prompt(
    start: Start, tmp_path: Path, method: str, version: str
) -> None:
    memory, saved, received = (tmp_path / name for name in ("memory", "saved", "received"))
    agent = (*EXAMPLE_AGENT, "--memory", memory, "--protocol", version, "--offer", "load,resume")
    if version == "2":
        agent = (*agent, "--only-v2")
    client = connect(start, *agent)
    session_id = client.new()
    client.prompt(session_id, "The first task")
    client.prompt(session_id, "The second task")
    client.end()
    shutil.copytree(memory, saved)
    client = connect(start, *agent)
    client.call("session/load", NEW | {"sessionId": session_id})
    client.prompt(session_id, "The third task")
    client.prompt(session_id, "The fourth task")
    client.process.kill()
    client.process.wait()
    # The agent was killed before it wrote its last turns.
    shutil.rmtree(memory)
    saved.rename(memory)

    client = connect(start, "sh", "-c", f'tee {received} | "$0" "$@"', *agent)
    result = client.call(method, NEW | {"sessionId": session_id})
    assert result["_meta"]["rekindle"] == {"restored": "native", "missingTurns": 2}
    client.prompt(session_id, "how many prompts")
    client.end()
    prompt = json.loads(received.read_bytes().splitlines()[-1])["params"]["prompt"]
    assert prompt[-1] == {"type": "text", "text": "how many prompts"}
    carried = prompt[0]["text"]
    assert [name in carried for name in ("first", "second", "third", "fourth")] == [
        False, False, True, True,
    ]  # fmt: skip


def test_an_agent_that_exits_by_itself_has_saved_its_turns(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    agent = (*EXAMPLE_AGENT, "--memory", tmp_path / "memory", "--offer", "load,resume")
    client = connect(start, *agent)
    session_id = client.new()
    client.prompt(session_id, "Hello")
    client.end()
    client = connect(start, *agent)
    client.call("session/resume", NEW | {"sessionId": session_id})
    client.prompt(session_id, "Hello again")
    client.process.kill()
    client.process.wait()
    with SqliteStore(store_path) as store:
        session = store.session(session_id)
    assert (session.saved_turns, session.turns) == (1, 2)


def test_an_agent_that_closes_its_output_counts_as_exited(start: Start) -> None:
    # The response comes at once. With this grace time, a wait for the agent's exit would time out.
    client = connect(start, sys.executable, MUTE, options=("--grace", "600"))
    session_id = client.new()
    error = client.answer(client.start(session_id, "hush"))["error"]
    assert "before it answered session/prompt" in error["message"]
    client.prompt(session_id, "Hello?")
    assert client.end()[0] != 1


def test_a_dead_agent_does_not_delay_the_exit(start: Start) -> None:
    client = connect(start)
    session_id = client.new()
    client.answer(client.start(session_id, "crash"))
    code, _ = client.end()
    assert code == 3
    assert not is_running(client.process.pid)


def test_no_handover_gives_a_clear_error(start: Start) -> None:
    client = connect(start)
    session_id = client.new()
    client.prompt(session_id, "Hello")
    client.end()
    client = connect(start, options=("--no-handover",))
    code, data = client.error("session/load", NEW | {"sessionId": session_id})
    assert (code, data) == (-32603, {"sessionId": session_id})


def test_the_handover_respects_its_budget(start: Start, tmp_path: Path) -> None:
    client = connect(start)
    session_id = client.new()
    client.prompt(session_id, "The task. " + "x" * 5000)
    client.end()
    heard = tmp_path / "heard"
    agent = ("sh", "-c", f'tee {heard} | "$0" "$@"', *EXAMPLE_AGENT)
    client = connect(start, *agent, options=("--handover-budget", "1500"))
    client.call("session/load", NEW | {"sessionId": session_id})
    client.prompt(session_id, "Go on")
    client.end()
    prompt = json.loads(heard.read_bytes().splitlines()[-1])["params"]["prompt"]
    assert prompt[-1] == {"type": "text", "text": "Go on"}
    words = prompt[0]["text"]
    assert "The task." in words
    assert "characters omitted" in words
    assert len(words) <= 1500


def fill(path: Path, *, chunks: int) -> None:
    """Write a session of one long answer."""
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "word " * 8},
    }
    line = json.dumps({"params": {"sessionId": "long", "update": update}}).encode()
    prompt = json.dumps({"params": {"prompt": [{"type": "text", "text": "Go"}]}}).encode()

    def entry(kind: Kind, data: bytes, count: int = 1) -> EntryBatch:
        return EntryBatch(
            session_id="long", side=Side.AGENT, kind=kind, at_us=1, data=data, count=count
        )

    with SqliteStore(path) as store:
        agent = AgentIdentity(name="example-agent")
        store.write([Opened(session_id="long", at_us=1, cwd=NEW["cwd"], agent=agent)])
        store.write([entry(Kind.PROMPT, prompt)])
        for _ in range(chunks // 1000):
            store.write([entry(Kind.UPDATE, b"\n".join([line] * 1000), 1000)])
        store.write([entry(Kind.ANSWER, b'{"result":{"stopReason":"end_turn"}}')])


@pytest.mark.requirement(13)
def test_a_long_session_is_replayed_in_few_updates(start: Start, store_path: Path) -> None:
    store_path.parent.mkdir()
    fill(store_path, chunks=50_000)
    client = connect(start)
    client.call("session/load", NEW | {"sessionId": "long"})
    updates = client.updates("long")
    assert said(updates) == "word " * 8 * 50_000
    assert len(updates) <= 60


def test_a_client_can_send_during_a_long_replay(
    store_path: Path,
) -> None:
    store_path.parent.mkdir()
    fill(store_path, chunks=50_000)
    client = Client(
        *(sys.executable, "-m", "rekindle", "run", "--store", store_path, "--", *EXAMPLE_AGENT),
        read=False,
    )
    try:
        client.request("initialize", INITIALIZE)
        client.request("session/load", NEW | {"sessionId": "long"})
        # More than the pipe holds, while the replay of two megabytes is not read.
        params = {"sessionId": "long", "prompt": [{"type": "text", "text": "x" * 500_000}]}
        turn = client.request("session/prompt", params)
        client.start_reading()
        assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    finally:
        client.close()


def test_old_deleted_sessions_are_purged_automatically(start: Start, store_path: Path) -> None:
    store_path.parent.mkdir()
    fill(store_path, chunks=1000)
    now_us = time.time_ns() // 1000
    with SqliteStore(store_path) as store:
        store.write([Opened(session_id="young", at_us=1, cwd="/p")])
        store.write([Deleted(session_id="long", at_us=now_us - 31 * DAY_US)])
        store.write([Deleted(session_id="young", at_us=now_us - 29 * DAY_US)])
    client = connect(start)
    with SqliteStore(store_path) as store:
        patience = time.monotonic() + 20
        while store.deleted_ids(now_us) != ["young"]:
            assert time.monotonic() < patience
        assert list(store.read("long")) == []
    client.end()


def test_an_impossible_path_is_refused(start: Start) -> None:
    client = connect(start)
    session_id = client.new()
    for cwd in ("/home/\0p", "/home/\ud800"):
        code, _ = client.error("session/load", {"sessionId": session_id, "cwd": cwd})
        assert code == -32602
    client.prompt(session_id, "Still there?")


def test_a_prompt_after_the_agent_died_goes_to_the_restarted_agent(
    start: Start, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    agent = ("sh", "-c", f'echo $$ > {pid_file}; exec "$0" "$@"', *EXAMPLE_AGENT)
    client = connect(start, *agent)
    session_id = client.new()
    client.prompt(session_id, "Hello")
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    while is_running(pid):
        pass
    # Rekindle may or may not have noticed the exit: either way the prompt is answered.
    answer = client.answer(client.start(session_id, "what did I say first?"))
    if "error" in answer:
        assert "was killed by SIGKILL" in answer["error"]["message"]
        client.prompt(session_id, "what did I say first?")
    assert "You said first: Hello" in said(client.updates(session_id))


def descriptors_and_threads(pid: int) -> tuple[int, int]:
    """Return the number of descriptors and threads of a process."""
    process = Path("/proc") / str(pid)
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
def test_a_dead_agent_leaves_no_state(start: Start) -> None:
    client = connect(start)
    session_id = client.new()

    def kill_and_restart_agent() -> None:
        assert "error" in client.answer(client.start(session_id, "crash"))
        client.prompt(session_id, "Hello?")

    kill_and_restart_agent()
    before = descriptors_and_threads(client.process.pid)
    kill_and_restart_agent()
    deadline = time.monotonic() + 10
    while descriptors_and_threads(client.process.pid) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    after = descriptors_and_threads(client.process.pid)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
