"""The schema validator of the tests accepts valid messages and rejects others."""

import pytest

import schema
from rekindle.model import Side
from schema import ConnectionValidator, Json, problems

CLIENT, AGENT = Side.CLIENT, Side.AGENT
TEXT = {"type": "text", "text": "Hello"}
INFO = {"name": "c", "version": "1"}

pytestmark = pytest.mark.usefixtures("sdk")


def request(method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def notification(method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def update(kind: str, **fields: object) -> Json:
    return notification("session/update", sessionId="s", update={"sessionUpdate": kind, **fields})


def result(**fields: object) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "result": fields}


VALID = [
    (1, CLIENT, request("initialize", protocolVersion=1)),
    (2, CLIENT, request("initialize", protocolVersion=2, info=INFO)),
    (1, CLIENT, request("session/new", cwd="/p", mcpServers=[])),
    (2, CLIENT, request("session/new", cwd="/p")),
    (1, CLIENT, request("session/fork", sessionId="s", cwd="/p", mcpServers=[])),
    (2, CLIENT, request("session/resume", sessionId="s", cwd="/p", replayFrom={"type": "start"})),
    (2, CLIENT, request("session/resume", sessionId="s", cwd="/p", replayFrom={"type": "_x"})),
    (1, CLIENT, {"jsonrpc": "2.0", "id": 1, "method": "session/list"}),
    (1, CLIENT, request("_anything", x=1)),
    (2, AGENT, notification("$/cancel_request", requestId=[])),
    (1, CLIENT, notification("session/cancel", sessionId="s", _meta={"x": 1})),
    (1, AGENT, update("agent_message_chunk", content=TEXT)),
    (1, AGENT, update("plan_removed", planId="p")),
    (2, AGENT, update("agent_message_chunk", messageId="m", content=TEXT)),
    (2, AGENT, update("state_update", state="idle", stopReason="end_turn")),
    (2, AGENT, update("_ours", x=1)),
]


@pytest.mark.parametrize(("version", "by", "message"), VALID)
def test_valid_message_passes(version: int, by: Side, message: Json) -> None:
    assert problems(version, by, message) == []


WRONG = [
    (1, CLIENT, {"id": 1, "method": "session/list"}, 'jsonrpc: must be "2.0"'),
    (1, CLIENT, request("session/new", cwd="/p"), 'params: "mcpServers" is a required property'),
    (1, AGENT, request("session/new"), "session/new: version 1 has no such request by the agent"),
    (1, CLIENT, notification("session/list"), "session/list: version 1 has no such notification"),
    (2, CLIENT, request("session/load"), "session/load: version 2 has no such request"),
    (2, CLIENT, {**request("session/list"), "id": None}, "id: null is not valid"),
    (1, AGENT, update("agent_message_chunk"), 'params.update: "content" is a required property'),
    (
        1,
        AGENT,
        update("agent_message_chunk", content={"type": "text"}),
        'params.update.content: "text" is a required property',
    ),
    (
        2,
        AGENT,
        update("agent_message_chunk", content=TEXT),
        'params.update: "messageId" is a required property',
    ),
    (1, AGENT, update("agent_message"), "params.update: version 1 has no agent_message"),
    (1, AGENT, update("_ours"), "params.update: version 1 has no _ours"),
    (2, AGENT, update("tool_call"), "params.update: version 2 has no tool_call"),
    (1, AGENT, result(), "id: 1 was not asked"),
    (1, AGENT, {**result(), "error": {}}, "a response has an id, and either a result or an error"),
]


@pytest.mark.parametrize(("version", "by", "message", "problem"), WRONG)
def test_problem_of_an_invalid_message_is_named(
    version: int, by: Side, message: Json, problem: str
) -> None:
    first, *_ = problems(version, by, message)
    assert first.startswith(problem)


def test_response_is_validated_against_its_request() -> None:
    asked = request("session/prompt", sessionId="s", prompt=[])
    assert problems(1, AGENT, result(stopReason="end_turn"), asked) == []
    assert problems(2, AGENT, result(messageId="m"), asked) == []
    assert problems(2, AGENT, result(stopReason="end_turn"), asked) == [
        'result: "messageId" is a required property'
    ]
    assert problems(1, CLIENT, result(), asked) == [
        "session/prompt: version 1 has no such request to the client"
    ]
    assert problems(1, AGENT, result(x=1), request("_anything")) == []
    failed = {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "no"}}
    assert problems(1, AGENT, failed, asked)[0].startswith("error.code: ")


def test_methods_of_the_unstable_schema_are_validated() -> None:
    asked = request("session/fork", sessionId="s", cwd="/p")
    assert problems(1, AGENT, result(), asked) == ['result: "sessionId" is a required property']
    capabilities = {"sessionCapabilities": {"fork": True}}
    answer = result(protocolVersion=1, agentCapabilities=capabilities)
    (problem,) = problems(1, AGENT, answer, request("initialize"))
    assert problem.startswith("result.agentCapabilities.sessionCapabilities.fork: true is not")


def test_connection_uses_the_negotiated_version() -> None:
    validator = ConnectionValidator()
    assert validator.problems(CLIENT, request("initialize", protocolVersion=2))
    validator.observe(CLIENT, request("initialize", protocolVersion=2, info=INFO))
    assert validator.problems(AGENT, result(protocolVersion=2, info=INFO)) == []
    assert validator.problems(CLIENT, request("session/new", cwd="/p")) == []
    assert validator.problems(AGENT, result(sessionId="s")) == []
    assert validator.problems(AGENT, result(sessionId="s")) == ["id: 1 was not asked"]


def test_agent_may_negotiate_version_1_down_from_2() -> None:
    validator = ConnectionValidator()
    validator.observe(CLIENT, request("initialize", protocolVersion=2, info=INFO))
    assert validator.problems(AGENT, result(protocolVersion=1)) == []
    assert validator.problems(AGENT, update("agent_message_chunk", content=TEXT)) == []


def test_unknown_kinds_of_an_agent_may_be_forwarded() -> None:
    validator = ConnectionValidator()
    validator.observe(AGENT, update("made_up", x=1))
    assert validator.problems(AGENT, update("made_up", x=2)) == []
    validator.observe(AGENT, update("agent_message", messageId="m"))
    assert validator.problems(AGENT, update("agent_message", messageId="m"))


def test_missing_schemas_skip_tests_except_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert schema.why_missing() is None
    monkeypatch.setattr(schema, "SDK", schema.SDK / "nowhere")
    monkeypatch.delenv("CI", raising=False)
    assert "make sdk" in str(schema.why_missing())
    monkeypatch.setenv("CI", "true")
    with pytest.raises(schema.NotInstalled):
        schema.why_missing()
