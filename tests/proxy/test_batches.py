import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw

from engine_pair import EnginePair, Sent
from playbook import CLIENT
from rekindle.acp.jsonrpc import request_key, response
from rekindle.proxy.batches import OpenBatches, as_array_line, take_apart
from rekindle.proxy.peers import AGENT, Peer

Json = dict[str, Any]

ONE, TWO = Peer(1), Peer(2)


def batch(*ids: int) -> list[bytes]:
    return [b'{"id":%d,"method":"_x"}' % number for number in ids]


def answer(number: int) -> bytes:
    return response(Raw(b"%d" % number), {})


def decoded(lines: list[bytes]) -> list[Any]:
    return [json.loads(line) for line in lines]


def test_members_that_are_not_messages_are_separated() -> None:
    messages = [b'{"id":1,"method":"_x"}', b'{"method":"_x"}', b'{"id":2,"result":{}}']
    others = [b"1", b"[]", b"{}", b'{"id":3}', b'"text"']
    parts = take_apart([messages[0], *others, *messages[1:]])
    assert parts.messages == messages
    assert parts.request_keys == [request_key(Raw(b"1"))]
    codes = [(it["id"], it["error"]["code"]) for it in decoded(parts.errors)]
    assert codes == [(None, -32600)] * 5


def test_a_request_whose_id_cannot_be_compared_is_not_awaited() -> None:
    assert take_apart([b'{"id":true,"method":"_x"}']).request_keys == []


def test_answers_are_collected_in_one_array() -> None:
    batches = OpenBatches()
    batches.add(ONE, take_apart([*batch(1, 2), b"3"]))
    other = answer(7)
    assert batches.collect(ONE, [answer(2), other, b"text"]) == [other, b"text"]
    assert batches.collect(TWO, [answer(1)]) == [answer(1)]
    assert batches.open
    (array,) = batches.collect(ONE, [answer(1)])
    assert [it["id"] for it in json.loads(array)] == [None, 2, 1]
    assert not batches.open
    assert batches.collect(ONE, [answer(1)]) == [answer(1)]


def test_batches_of_a_peer_that_has_exited_are_dropped() -> None:
    batches = OpenBatches()
    batches.add(AGENT, take_apart(batch(1)))
    batches.drop(AGENT)
    assert not batches.open
    batches.drop(AGENT)
    assert batches.collect(AGENT, [answer(1)]) == [answer(1)]


@given(st.lists(st.lists(st.integers(0, 5), min_size=1), max_size=4), st.randoms())
def test_every_answer_is_sent_once(groups: list[list[int]], random: Any) -> None:  # noqa: ANN401
    batches = OpenBatches()
    for group in groups:
        batches.add(ONE, take_apart(batch(*group)))
    answers = [answer(number) for group in groups for number in group]
    random.shuffle(answers)
    sent = [line for it in answers for line in batches.collect(ONE, [it])]
    assert not batches.open
    received = [as_array_line([json_line(it)]) for line in sent for it in json.loads(line)]
    assert sorted(received) == sorted(as_array_line([it]) for it in answers)
    assert sorted(len(json.loads(line)) for line in sent) == sorted(map(len, groups))


def json_line(message: Json) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def pair(client: int, agent: int) -> EnginePair:
    made = EnginePair()
    made.do_speaks(f"{client} {agent}")
    made.do_agent("Fake")
    made.do_open("s1")
    return made


def send(made: EnginePair, peer: Peer, line: str) -> Sent:
    made.out.clear()
    made.receive(peer, [line])
    return Sent(made.out)


@pytest.mark.parametrize(("client", "agent"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_a_dead_agent_leaves_no_request_of_a_batch_without_an_answer(
    client: int, agent: int
) -> None:
    made = pair(client, agent)
    two = [{"id": number, "method": "_x", "params": {}} for number in (5, 6)]
    assert [it["id"] for it in send(made, CLIENT, json.dumps(two)).to_agent] == [5, 6]
    assert made.reply(6, {}).to_client == ([{"id": 6, "result": {}}] if client == 1 else [])
    received = made.exit().to_client
    assert len(received) == 1
    (answers,) = [received] if client == 1 else received
    by_id = {it["id"]: it for it in answers}
    assert by_id.keys() == ({5} if client == 1 else {5, 6})
    assert by_id[5]["error"]["data"]["agentEnded"] is True


@pytest.mark.parametrize("agent", [1, 2])
def test_strict_mode_refuses_a_batch_only_in_version_1(agent: int) -> None:
    made = EnginePair()
    made.do_with("strict")
    made.do_speaks(f"{agent} {agent}")
    made.client_version = made.agent_version = agent
    made.do_agent("Fake")
    sent = send(made, CLIENT, '[{"jsonrpc":"2.0","id":5,"method":"_x","params":{}}]')
    assert len(sent.to_agent) == agent - 1
    assert len(sent.to_client) == 2 - agent
    # A batch of the agent may have an answer, so it is never dropped.
    update = '[{"jsonrpc":"2.0","method":"_x/y","params":{}}]'
    assert len(send(made, AGENT, update).to_client) == 1
