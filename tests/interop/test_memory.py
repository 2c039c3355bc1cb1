"""The memory scenario of `make interop`, with an agent that saves its turns in different ways."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path

import pytest

from interop.memory import MemoryScenario, describe, judge
from interop.model import behaviour
from interop.model.dialect import ModelMessage, ModelRequest
from interop.model.server import serving
from interop.outcome import MemoryOutcome
from interop.workspace import Workspace
from rekindle.client import connect

AGENT = Path(__file__).parents[1] / "support" / "model_agent.py"
TAP = Path(__file__).parents[2] / "interop" / "tap.py"
TURNS = ("alpha", "bravo", "charlie", "delta")


def request(*texts: str) -> ModelRequest:
    messages = tuple(ModelMessage("user", text) for text in texts)
    return ModelRequest(messages=messages, tools=(), is_streamed=False, model="fake")


def turn(name: str) -> str:
    return f"{behaviour.task(name)}\n{behaviour.answer_mark(name)}"


def test_turns_in_one_place_each_are_ok() -> None:
    outcome = judge(request(*map(turn, TURNS)), "1", "load", {"restored": "native"})
    assert outcome == MemoryOutcome(moment="1", method="load", restored="native")
    assert outcome.is_ok
    assert judge(request("\n".join(map(turn, TURNS))), "1", "load").is_ok


def test_turn_without_its_answer_is_missing() -> None:
    outcome = judge(request(*map(turn, TURNS[:3]), behaviour.task("delta")), "1", "resume")
    assert outcome.missing == ("delta",)
    assert not outcome.is_ok
    assert describe(outcome).startswith("missing: delta")


def test_turn_in_the_history_and_in_a_reminder_is_doubled() -> None:
    shown = request(*map(turn, TURNS), f"the record:\n{turn('charlie')}")
    outcome = judge(shown, "1", "load", {"restored": "native", "missingTurns": 1})
    assert (outcome.doubled, outcome.missing_turns) == (("charlie",), 1)
    assert not outcome.is_ok


def test_interrupted_turn_is_counted_but_not_judged() -> None:
    shown = request(*map(turn, TURNS), behaviour.slow_task("mike"), behaviour.slow_task("mike"))
    outcome = judge(shown, "turn", "load")
    assert (outcome.is_ok, outcome.interrupted) == (True, 2)
    assert judge(shown, "1", "load").interrupted is None


@contextmanager
def scenario_of(folder: Path, *traits: str) -> Generator[MemoryScenario, None, None]:
    """Yield a scenario with an agent of these traits."""
    project = folder / "home" / "project"
    kept = folder / "home" / "kept"
    for path in (project, kept):
        path.mkdir(parents=True)
    received: list[ModelRequest] = []
    with serving(lambda _: None, received.append) as url, chdir(project):
        command = (sys.executable, str(AGENT), f"{url}/v1", str(kept), *traits)
        environ = {"REKINDLE_STORE": str(folder / "home" / "s.db")}
        workspace = Workspace(project, command, environ)
        start = partial(connect, on_permission=None)
        yield MemoryScenario(workspace, start, received, folder / "traffic", print)


@pytest.mark.slow
def test_agent_that_saves_each_turn_is_restored_natively(tmp_path: Path) -> None:
    with scenario_of(tmp_path, "load", "resume") as scenario:
        scenario.run(["turn", "answer"])
    assert [(it.moment, it.method) for it in scenario.outcomes] == [
        ("turn", "load"),
        ("turn", "resume"),
        ("answer", "load"),
        ("answer", "resume"),
    ]
    assert {it.restored for it in scenario.outcomes} == {"native"}
    assert {it.missing for it in scenario.outcomes} == {()}
    traffic = (tmp_path / "traffic" / "answer-load-agent.jsonl").read_text(encoding="utf-8")
    assert "session/prompt" in traffic


@pytest.mark.slow
def test_agent_without_sessions_receives_everything_once(tmp_path: Path) -> None:
    with scenario_of(tmp_path) as scenario:
        scenario.run(["answer"])
    assert [(it.is_ok, it.restored) for it in scenario.outcomes] == [(True, "handover")] * 2


@pytest.mark.slow
def test_false_claim_of_memory_is_a_failure(tmp_path: Path) -> None:
    with scenario_of(tmp_path, "load", "resume", "forgets") as scenario:
        scenario.run(["answer"])
    assert {it.missing for it in scenario.outcomes} == {TURNS}


def test_agent_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    with scenario_of(tmp_path, "dies") as scenario:
        scenario.run(["answer"])
    assert {it.is_ok for it in scenario.outcomes} == {False}
    assert all(it.error for it in scenario.outcomes)


@pytest.mark.parametrize("code", [0, 3])
def test_tap_forwards_both_directions_and_the_exit_code(code: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"import sys; print(sys.stdin.readline().upper(), end=''); sys.exit({code})"
    done = subprocess.run(
        [sys.executable, "-I", str(TAP), str(log), sys.executable, "-c", program],
        input="one\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("ONE\n", code)
    assert log.read_text(encoding="utf-8") == "> one\n< ONE\n"


@pytest.mark.slow
def test_turns_that_an_agent_has_not_saved_are_sent_once(tmp_path: Path) -> None:
    # It saves at a clean exit: the first two turns, but not the two before the kill.
    with scenario_of(tmp_path, "load", "resume", "late") as scenario:
        scenario.run(["turn", "answer"])
    assert {(it.is_ok, it.restored) for it in scenario.outcomes} == {(True, "native")}
    in_turn, at_answer = scenario.outcomes[:2], scenario.outcomes[2:]
    assert [it.missing_turns for it in in_turn] == [3, 3]
    # On a busy machine the agent may save the last turns before the signal reaches it.
    assert {it.missing_turns for it in at_answer} <= {0, 1, 2}
