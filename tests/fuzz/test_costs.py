"""What a hostile agent says costs no more than its size: never the square of it.

Each takes well under a second where costs are as they should be, and minutes where not. Time is
counted in seconds of the processor, so that a busy machine changes nothing.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from fuzz.ring import Ring
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.export.content import call_parts
from rekindle.jsonvalue import encode
from rekindle.model import Entry, Kind, Side
from rekindle.text.sanitize import clean, without_controls
from rekindle.transcript.reducer import fold

MOST_SECONDS = 4.0
MANY = 12_000
TEXT = {"type": "text", "text": "x"}

Json = dict[str, Any]


@contextmanager
def cheaply() -> Generator[None]:
    before = time.process_time()
    yield
    assert time.process_time() - before < MOST_SECONDS


@pytest.mark.parametrize(
    "words", ["\x9d", "\x1b]", "\x1b]\x9d", "\x9b1;", "\x1bP", "\r", "\x1b[" + "1;" * 50]
)
def test_escape_sequences_without_an_end(words: str) -> None:
    text = words * (400_000 // len(words))
    with cheaply():
        assert "\x9d" not in clean(text) + without_controls(text)


def ring(client: int = 1, agent: int = 1) -> Ring:
    made = Ring()
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
def test_names_that_are_said_again_and_again(ending: bytes) -> None:
    line = b"{" + b'"method":"session/update",' * 40_000 + ending
    with cheaply():
        ring().take(Side.AGENT, line)


def test_fences_of_any_length() -> None:
    words = "`" * 100_000 + "\n" + ("`" * 99_999 + "x") * 3
    part = {"type": "content", "content": {"type": "text", "text": words}}
    call = fold([entry(1, {"sessionUpdate": "tool_call", "toolCallId": "t", "content": [part]})])
    with cheaply():
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
def test_a_stream_of_updates(name: str) -> None:
    updates = [STREAMS[name](number) for number in range(MANY)]
    entries = [entry(seq, update) for seq, update in enumerate(updates, 1)]
    with cheaply():
        fold(entries)
    live = LiveToV1()
    told = 0
    with cheaply():
        for update in updates:
            told += len(encode(live.update(update)))
    said = len(encode(updates))
    assert told < 10 * said


def test_a_message_of_many_pieces_that_is_then_said_whole() -> None:
    live = LiveToV1()
    with cheaply():
        for _ in range(5 * MANY):
            live.update(SAID)
        whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT]}
        assert live.update(whole)


def test_batches_in_batches() -> None:
    prompt = b'{"id":1,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}'
    line = prompt
    for _ in range(480):
        line = b"[" + prompt + b"," + line + b"]"
    with cheaply():
        made = ring()
        made.take(Side.CLIENT, line)
        made.take(Side.AGENT, line)
    assert made.reports == []
