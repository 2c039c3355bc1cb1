"""The cost of a hostile message grows with its size, never with the square of it.

With linear costs each test takes well under a second, with quadratic costs minutes. The tests
measure CPU time, so that the load of the machine does not matter.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from fuzz.strict_playbook import StrictPlaybook
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.update_kinds import update_to_v1
from rekindle.export.content import call_parts
from rekindle.jsonvalue import encode
from rekindle.model import Entry, Kind, Side
from rekindle.proxy.peers import AGENT, FIRST_CLIENT
from rekindle.text.sanitize import clean, without_controls
from rekindle.transcript.reducer import fold

MAX_SECONDS = 4.0
MANY = 12_000
TEXT = {"type": "text", "text": "x"}

Json = dict[str, Any]


@contextmanager
def limited_cpu_time() -> Generator[None]:
    before = time.process_time()
    yield
    assert time.process_time() - before < MAX_SECONDS


@pytest.mark.parametrize(
    "words", ["\x9d", "\x1b]", "\x1b]\x9d", "\x9b1;", "\x1bP", "\r", "\x1b[" + "1;" * 50]
)
def test_unterminated_escape_sequences_cost_linear_time(words: str) -> None:
    text = words * (400_000 // len(words))
    with limited_cpu_time():
        assert "\x9d" not in clean(text) + without_controls(text)


def playbook(client: int = 1, agent: int = 1) -> StrictPlaybook:
    made = StrictPlaybook()
    made.do_speaks(f"{client} {agent}")
    made.do_agent("Fake load")
    made.do_open("s1")
    return made


@pytest.mark.parametrize(
    "ending",
    [
        b'"params" :{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]}}}',
        b'"params":{"sessionId":"s1","x":[],"update":{"sessionUpdate":"plan","entries":[]}}}',
        b'"params":{"sessionId":"s1',
    ],
    ids=["spaced", "nested", "cut short"],
)
def test_repeated_names_cost_linear_time(ending: bytes) -> None:
    line = b"{" + b'"method":"session/update",' * 40_000 + ending
    with limited_cpu_time():
        playbook().receive_bytes(AGENT, line)


def test_long_fences_cost_linear_time() -> None:
    words = "`" * 100_000 + "\n" + ("`" * 99_999 + "x") * 3
    part = {"type": "content", "content": {"type": "text", "text": words}}
    call = fold([entry(1, {"sessionUpdate": "tool_call", "toolCallId": "t", "content": [part]})])
    with limited_cpu_time():
        list(call_parts(call.turns[0].items[0], {}))  # type: ignore[arg-type]


def entry(seq: int, update: Json, protocol: int = 2) -> Entry:
    line = encode({"params": {"sessionId": "s1", "update": update}})
    return Entry(
        seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=seq, line=line, protocol=protocol
    )


CHUNK = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t"}
CALL = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
SAID = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}
STREAMS: dict[str, Callable[[int], Json]] = {
    "parts of a call": lambda _: {**CHUNK, "content": {"type": "content", "content": TEXT}},
    "terminals of a call": lambda it: {
        **CHUNK,
        "content": {"type": "terminal", "terminalId": f"x{it}"},
    },
    "names beside a call": lambda it: {**CALL, "_meta": {f"k{it}": 1}},
    "names beside a message": lambda it: {**SAID, "_meta": {f"k{it}": 1}},
    "names of a session": lambda it: {"sessionUpdate": "session_info_update", f"k{it}": 1},
    "calls and turns": lambda it: [
        {"sessionUpdate": "state_update", "state": "running"},
        {**CALL, "toolCallId": f"t{it}", "content": []},
        {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"},
    ][it % 3],
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_updates_cost_linear_time(name: str) -> None:
    updates = [STREAMS[name](number) for number in range(MANY)]
    entries = [entry(seq, update) for seq, update in enumerate(updates, 1)]
    with limited_cpu_time():
        fold(entries)
    live = LiveToV1()
    written = 0
    with limited_cpu_time():
        for update in updates:
            written += len(encode(update_to_v1(live, update)))
    assert written < 10 * len(encode(updates))


def test_replacing_a_message_of_many_chunks_costs_linear_time() -> None:
    live = LiveToV1()
    with limited_cpu_time():
        for _ in range(5 * MANY):
            update_to_v1(live, SAID)
        whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT]}
        assert update_to_v1(live, whole)


def test_nested_batches_cost_linear_time() -> None:
    prompt = b'{"id":1,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}'
    line = prompt
    for _ in range(480):
        line = b"[" + prompt + b"," + line + b"]"
    with limited_cpu_time():
        made = playbook()
        made.receive_bytes(FIRST_CLIENT, line)
        made.receive_bytes(AGENT, line)
    assert made.reports == []
