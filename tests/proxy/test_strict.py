import json

import pytest

from rekindle.acp.jsonrpc import read_envelope
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.strict import StrictMode, Violation

CLIENT = Peer(1)
INITIALIZE = b'{"id":1,"method":"initialize","params":{"protocolVersion":%d}}'


def check(strict: StrictMode, peer: Peer, line: bytes) -> Violation | None:
    return strict.violation(peer, line, read_envelope(line))


def error(violation: Violation | None) -> dict[str, object]:
    assert violation is not None
    assert violation.response is not None
    return json.loads(violation.response)["error"]


@pytest.mark.parametrize("line", [b"", b"  "])
@pytest.mark.parametrize("peer", [CLIENT, AGENT])
def test_a_blank_line_breaks_no_rule(line: bytes, peer: Peer) -> None:
    assert check(StrictMode(), peer, line) is None


@pytest.mark.parametrize(
    ("line", "code"), [(b"not JSON", -32700), (b"[]", -32600), (b"{}", -32600), (b"5", -32600)]
)
def test_a_line_of_the_client_must_be_one_message(line: bytes, code: int) -> None:
    assert error(check(StrictMode(), CLIENT, line))["code"] == code


def test_the_client_must_initialize_first() -> None:
    strict = StrictMode()
    line = b'{"id":1,"method":"session/list"}'
    assert error(check(strict, CLIENT, line))["message"] == "session/list before initialize"
    assert check(strict, CLIENT, INITIALIZE % 1) is None
    assert check(strict, CLIENT, line) is None


@pytest.mark.parametrize("method", ["session/new", "session/load"])
@pytest.mark.parametrize(("version", "is_broken"), [(1, True), (2, False)])
def test_version_1_requires_a_list_of_servers(
    method: str, version: int, *, is_broken: bool
) -> None:
    strict = StrictMode()
    check(strict, CLIENT, INITIALIZE % version)
    without = json.dumps({"id": 2, "method": method, "params": {}}).encode()
    with_list = json.dumps({"id": 2, "method": method, "params": {"mcpServers": []}}).encode()
    assert (check(strict, CLIENT, without) is not None) is is_broken
    assert check(strict, CLIENT, with_list) is None


@pytest.mark.parametrize("line", [b"Warning: hello", b"{}", b"[]"])
def test_a_line_of_the_agent_that_is_no_message_is_reported_and_not_answered(line: bytes) -> None:
    violation = check(StrictMode(), AGENT, line)
    assert violation is not None
    assert violation.response is None
    assert violation.report.quote == repr(line.decode())


def test_a_message_of_the_agent_breaks_no_rule() -> None:
    assert check(StrictMode(), AGENT, b'{"method":"x"}') is None
    assert check(StrictMode(), AGENT, b'{"id":1,"result":null}') is None
