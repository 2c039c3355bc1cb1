"""Lines whose envelope can be read but not their whole keep their id and method."""

import json

import pytest
from msgspec import Raw

from playbook import CLIENT, Playbook
from rekindle.acp.rewrite import with_id, with_session_id
from rekindle.jsonvalue import decode
from rekindle.proxy.peers import AGENT
from version_conversations import Conversation

UNREADABLE = [
    pytest.param("[" * 401 + "]" * 401, id="nested"),
    pytest.param("9" * 5000, id="number"),
]
unreadable = pytest.mark.parametrize("odd", UNREADABLE)


def sent(book: Playbook, mark: str) -> list[str]:
    return [line[3:] for line in book.out if line.startswith(mark)]


def test_a_line_below_the_depth_limit_is_decoded() -> None:
    assert decode(b"[" * 400 + b"]" * 400) is not None
    assert decode(b"[" * 401 + b"]" * 401) is None
    assert decode(b"[" + b"[]," * 1000 + b"[]]") is not None
    assert decode(b'"' + b"[" * 1000 + b'"') == "[" * 1000


@unreadable
def test_a_request_is_forwarded_unchanged(odd: str) -> None:
    conversation = Conversation(1, 2)
    conversation.book.out.clear()
    params = f'{{"sessionId":"s","configId":"m","value":{odd}}}'
    line = f'{{"id":7,"method":"session/set_config_option","params":{params}}}'
    conversation.book.receive(CLIENT, [line])
    assert sent(conversation.book, "<a") == [line]
    answer = f'{{"id":7,"result":{{"configOptions":{odd}}}}}'
    conversation.book.receive(AGENT, [answer])
    assert sent(conversation.book, "<c") == [answer]


@unreadable
@pytest.mark.parametrize(("client", "agent"), [(1, 2), (2, 1)])
def test_a_permission_request_and_its_answer_keep_their_id(
    client: int, agent: int, odd: str
) -> None:
    conversation = Conversation(client, agent)
    conversation.book.out.clear()
    params = f'{{"sessionId":"s","options":{odd}}}'
    asked = f'{{"id":7,"method":"session/request_permission","params":{params}}}'
    conversation.book.receive(AGENT, [asked])
    assert asked in sent(conversation.book, "<c")
    answer = f'{{"id":7,"result":{{"outcome":{odd}}}}}'
    conversation.book.receive(CLIENT, [answer])
    assert sent(conversation.book, "<a") == [answer]


@unreadable
def test_an_unreadable_prompt_is_forwarded_without_the_history(odd: str) -> None:
    book = Playbook()
    book.do_agent("Fake")
    book.do_open("s")
    book.do_said("s Hello | Hi")
    book.do_killed("")
    book.do_agent("Fake")
    params = {"sessionId": "s", "cwd": "/p", "mcpServers": []}
    book.exchange("session/resume", params, {})
    book.receive(AGENT, ['{"id":"rekindle-1","result":{"sessionId":"t"}}'])
    book.out.clear()
    line = f'{{"id":7,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{odd}]}}}}'
    book.receive(CLIENT, [line])
    assert sent(book, "<a") == [line.replace('"s"', '"t"')]


@pytest.mark.parametrize("own_id", [rb'"\xff"', b'"a"', b"1"])
def test_a_restarted_agent_may_use_any_request_id(own_id: bytes) -> None:
    book = Playbook()
    book.do_agent("Fake load")
    book.do_open("s")
    book.do_ended("1")
    book.exchange("_x/y", {}, {})
    book.out.clear()
    own_id = own_id.decode("unicode_escape").encode("latin-1")
    step = book.engine.receive(AGENT, b'{"id":%s,"method":"_x/y"}' % own_id, 5)
    (line,) = step.to_clients[CLIENT]
    assert json.loads(line)["id"].startswith("rekindle-1-")
    assert step.reports == []
    odd = b'{"method":"$/cancel_request","params":{"requestId":1,"x":%s}}' % (b"9" * 5000)
    assert book.engine.receive(AGENT, odd, 6).to_clients[CLIENT] == [odd]


@unreadable
def test_only_ids_change_in_a_line_that_cannot_be_encoded_again(odd: str) -> None:
    line = f'{{"id":1,"params":{{"sessionId":"a","x":{odd}}}}}'.encode()
    assert with_id(line, Raw(b"2")) == line.replace(b'"id":1', b'"id":2')
    assert with_session_id(line, "b", "c") == line
    assert with_session_id(line, "a", "c") == line.replace(b'"a"', b'"c"')
