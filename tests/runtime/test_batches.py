"""Batches between a real client and the example agent, in both versions."""

import json
from collections.abc import Callable

import pytest

from stdio_client import EXAMPLE_AGENT, NEW, Client, Json

Start = Callable[..., Client]
INFO = {"name": "c", "version": "1"}


@pytest.fixture(params=[1, 2])
def client(request: pytest.FixtureRequest, start: Start) -> Client:
    version: int = request.param
    client = start(*EXAMPLE_AGENT, "--protocol", str(version))
    v2 = {"info": INFO, "capabilities": {}}
    client.call("initialize", {"protocolVersion": version, **(v2 if version > 1 else {})})
    return client


def batch(*messages: Json) -> bytes:
    return json.dumps([{"jsonrpc": "2.0", **it} for it in messages]).encode() + b"\n"


def test_a_batched_cancel_ends_the_turn(client: Client) -> None:
    session_id = client.call("session/new", NEW)["sessionId"]
    client.go_slow(session_id)
    client.write(batch({"method": "session/cancel", "params": {"sessionId": session_id}}))
    client.until(lambda it: "cancelled" in json.dumps(it))


def test_every_member_of_a_batch_is_answered(client: Client) -> None:
    two = [{"id": name, "method": "_x/unknown", "params": {}} for name in ("a", "b")]
    client.write(batch(*two))
    client.write(b"[]\n")
    client.write(b'[{"jsonrpc":"2.0","id":7,"method":"_x\n')
    codes: dict[object, int] = {}
    while len(codes) < 4:
        received = json.loads(client.next_line())
        for it in received if isinstance(received, list) else [received]:
            code = it["error"]["code"]
            codes[code if it["id"] is None else it["id"]] = code
    assert codes == {"a": -32601, "b": -32601, -32600: -32600, -32700: -32700}
