"""JSON-RPC batches, which the pages of version 2 define.

No rule says that a receiver must accept batches, and the official SDKs refuse every array with one
-32600. An agent that does the same is not judged by the rules of the members.
"""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_REQUEST
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import turns
from rekindle.conformance.scenarios.stop import stop_turn
from rekindle.conformance.session_runner import SessionRunner
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import Json, as_object, decode, encode

UNKNOWN = "_rekindle/check"
_IDS = ("rekindle-check-1", "rekindle-check-2")
_NO_BATCHES = "the agent refuses every batch as a whole, as the official SDKs do"


async def check_batch(runner: SessionRunner) -> None:
    """Check how an agent of version 2 handles batches."""
    if runner.protocol == 1:
        return
    check = runner.results.check
    sent, lines = await send_line(runner, b"[]")
    check("batch.empty", _not_one_refusal(sent, lines))
    both = [_message(methods.LIST, _IDS[0]), _message(UNKNOWN, _IDS[1])]
    sent, lines = await send_line(runner, encode(both))
    if _is_one_refusal(lines):
        runner.results.end_scenario("batch", _NO_BATCHES, Verdict.NOT_OFFERED)
        return
    check("batch.array", _bad_array(sent, lines))
    sent, lines = await send_line(runner, encode([_message(UNKNOWN)]))
    check("batch.silent", _answered(sent, lines))
    sent, lines = await send_line(runner, encode([17, _message(methods.LIST, _IDS[0])]))
    check("batch.members", _bad_members(sent, lines))
    stopped = await stop_turn(
        runner,
        lambda peer, session: peer.write(encode([_message(methods.CANCEL, sessionId=session.id)])),
    )
    check("batch.cancel", turns.not_cancelled(stopped.turn))


def _message(method: str, request_id: str | None = None, **params: object) -> Json:
    named: Json = {} if request_id is None else {"id": request_id}
    return {"jsonrpc": "2.0", **named, "method": method, "params": params}


async def send_line(runner: SessionRunner, data: bytes) -> tuple[TraceLine, list[TraceLine]]:
    """Send a line that may be invalid; return it, and the lines that the agent sends for it.

    The agent may exit, so that a new process serves the next request.
    """
    peer = await runner.processes.current()
    since = len(peer.lines) + 1
    sent = peer.write(data)
    # A response to this means that the agent has read the line before it.
    barrier = await peer.response_to(peer.request(UNKNOWN, {}), runner.settings.timeout)
    await _wait_for_ids(peer, data, since, runner.settings.quiet_seconds)
    if barrier.response is None:
        await runner.processes.stop(kill=True)
    came = [it for it in peer.lines[since:] if not it.is_sent and it is not barrier.response]
    return sent, [it for it in came if not it.method]


async def _wait_for_ids(peer: Peer, data: bytes, since: int, seconds: float) -> None:
    """Wait for the responses to the requests of a batch, which may come late."""
    for name in _IDS:
        if name.encode() in data:
            await peer.wait_for(lambda it, name=name: it.id == name, since, max(seconds, 1.0))


def _is_refusal(message: Json) -> bool:
    code = as_object(message.get("error")).get("code")
    return message.get("id", 0) is None and code == INVALID_REQUEST


def _is_one_refusal(lines: list[TraceLine]) -> bool:
    """Return whether a line was refused as a whole: the only answer is one -32600."""
    return len(lines) == 1 and _is_refusal(lines[0].message)


def _not_one_refusal(sent: TraceLine, lines: list[TraceLine]) -> Iterator[Fault]:
    if not _is_one_refusal(lines):
        message = "an empty batch is not answered with one -32600, with null as its id"
        yield Fault(message, (sent, *lines))


def _answered(sent: TraceLine, lines: list[TraceLine]) -> Iterator[Fault]:
    if lines:
        yield Fault("a batch of notifications is answered", (sent, *lines))


def _bad_members(sent: TraceLine, lines: list[TraceLine]) -> Iterator[Fault]:
    messages = [it.message for it in lines]
    if not any(map(_is_refusal, messages)):
        message = "an invalid member of a batch gets no -32600, with null as its id"
        yield Fault(message, (sent, *lines))
    if not any(it.get("id") == _IDS[0] and "result" in it for it in messages):
        yield Fault("the request beside an invalid member does not work", (sent, *lines))


def _bad_array(sent: TraceLine, lines: list[TraceLine]) -> Iterator[Fault]:
    arrays = [it for it in lines if isinstance(decode(it.data), list)]
    ids = {it.id for it in lines if it.is_response}
    if not ids.issuperset(_IDS):
        yield Fault("a request of a batch is not answered", (sent, *lines))
    elif len(arrays) != 1 or not all(it.is_member for it in lines if it.is_response):
        yield Fault("the answers to a batch are not one array", (sent, *lines))
