import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import playbook
from playbook import CLIENT
from rekindle.proxy.connection_state import EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.proxy.journal import Journal
from rekindle.proxy.peers import AGENT, Peer

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, *, update: bool) -> None:
    script, played = playbook.play_file(path, update=update)
    assert played == script


def test_other_lines_are_handled_after_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    update = b'{"method":"session/update","params":{"sessionId":"%s"}}'
    lines = [update % b"one", b'{"method":"x"}', update % b"two"]
    relay = Engine(EngineSettings())
    relay.add_client()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "agent_message", fail)
        step = relay.receive(AGENT, b"\n".join(lines), 1)
    assert step.to_clients[CLIENT] == lines
    assert {change.session_id for change in step.changes} == {"one", "two"}
    assert [it.quote for it in step.reports] == ["RuntimeError('a fault')"]


def test_internal_error_leaves_no_changes_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    update = b'{"method":"session/update","params":{"sessionId":"%s"}}'
    relay = Engine(EngineSettings())
    relay.add_client()
    with monkeypatch.context() as patch:
        patch.setattr("rekindle.proxy.journal._OpenBatch.close", fail)
        with pytest.raises(RuntimeError):
            relay.receive(AGENT, update % b"lost", 1)
    relay.recover()
    changes = relay.receive(AGENT, update % b"kept", 2).changes
    assert {change.session_id for change in changes} == {"kept"}


def test_internal_error_in_a_flow_is_reported_and_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    book = playbook.Playbook()
    monkeypatch.setattr("rekindle.proxy.handlers.list.describe", fail)
    book.do_open("s1")
    book.do_said("s1 Hello | Hi")
    book.receive(CLIENT, ['{"id":1,"method":"session/list","params":{}}'])
    answer, told = book.out
    assert '"error":{"code":-32603,"message":"a bug in Rekindle: see its stderr and log"}' in answer
    assert told == "!  a bug in Rekindle, please report it: RuntimeError('a fault')"


def test_internal_error_in_a_replay_is_reported_and_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> Iterator[object]:
        raise RuntimeError("a fault")
        yield

    book = playbook.Playbook()
    monkeypatch.setattr("rekindle.proxy.handlers.open.replay_v1", fail)
    book.do_agent("Fake load")
    book.do_open("s1")
    params = '{"sessionId":"s1","cwd":"/p","mcpServers":[]}'
    book.receive(CLIENT, [f'{{"id":1,"method":"session/load","params":{params}}}'])
    answer, told = book.out
    assert '"error":{"code":-32603,"message":"a bug in Rekindle: see its stderr and log"}' in answer
    assert told == "!  a bug in Rekindle, please report it: RuntimeError('a fault')"


def test_untranslatable_line_is_not_forwarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    book = playbook.Playbook()
    book.do_speaks("1 2")
    book.do_agent("Fake")
    book.do_open("s1")
    monkeypatch.setattr("rekindle.proxy.agent_messages.translate_update", fail)
    update = '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{}}'
    line = f'{{"method":"session/update","params":{{"sessionId":"s1","update":{update}}}}}'
    book.receive(AGENT, [line])
    assert book.out == ["!  a bug in Rekindle, please report it: RuntimeError('a fault')"]


def test_engine_knows_open_requests_and_whether_the_agent_can_restart() -> None:
    book = playbook.Playbook()
    assert not book.engine.can_restart_agent
    book.do_agent("Fake load")
    assert book.engine.can_restart_agent
    assert not book.engine.is_waiting_for_agent
    book.receive(CLIENT, ['{"id":1,"method":"x"}'])
    assert book.engine.is_waiting_for_agent
    book.receive(AGENT, ['{"id":1,"result":{}}'])
    load = '{"id":2,"method":"session/load","params":{"sessionId":"s","cwd":"/p"}}'
    book.receive(CLIENT, [load])
    assert book.engine.is_waiting_for_agent


def test_endless_replay_is_not_awaited() -> None:
    book = playbook.Playbook()
    book.do_agent("Fake load")
    book.do_open("s1")
    book.do_said("s1 Hello | Hi")
    book.do_killed("")
    book.do_agent("Fake load")
    load = '{"id":1,"method":"session/load","params":{"sessionId":"s1","cwd":"/p"}}'
    book.receive(CLIENT, [load])
    book.receive(AGENT, ['{"id":"rekindle-1","result":{}}'])
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    line = {"method": "session/update", "params": {"sessionId": "s1", "update": update}}
    user = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Hello"}}
    said = {"method": "session/update", "params": {"sessionId": "s1", "update": user}}
    book.receive(AGENT, [json.dumps(said)])
    for _ in range(100):
        assert not book.out[-1].startswith("<c")
        book.receive(AGENT, [json.dumps(line)])
        book.do_wait("0.1")
    assert '"restored":"native"' in book.out[-1]


def test_each_client_has_its_own_number() -> None:
    engine = Engine(EngineSettings())
    assert engine.add_client() == CLIENT
    engine.remove_client(CLIENT, 1)
    assert engine.add_client() == Peer(2)


def test_a_line_of_a_client_that_has_left_is_ignored() -> None:
    engine = Engine(EngineSettings())
    engine.remove_client(engine.add_client(), 1)
    assert engine.receive(CLIENT, b'{"method":"x"}', 2).to_agent == []
