"""Turns that only the agent has are recorded in their place."""

import json

from hypothesis import given, strategies as st

from rekindle.model import Change, Counted, Entry, EntryBatch, Kind, Side, Truncated
from rekindle.proxy.foreign_turns import ForeignTurnRecorder, place_after
from rekindle.store.memory import MemoryStore
from rekindle.transcript.model import TranscriptMessage
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_match import ReplayedTurn, ReplayReader

RECORDER = ForeignTurnRecorder(session_id="s1", agent_id="a1", protocol=1, at_us=99)


def update(kind: str, **fields: object) -> tuple[str, bytes]:
    params = {"sessionId": "a1", "update": {"sessionUpdate": kind, **fields}}
    return kind, json.dumps({"method": "session/update", "params": params}).encode()


def text(kind: str, text: str) -> tuple[str, bytes]:
    return update(kind, content={"type": "text", "text": text})


def foreign(prompt: str, *answers: str) -> ReplayedTurn:
    reader = ReplayReader()
    reader.add(*text("user_message_chunk", prompt))
    for answer in answers:
        reader.add(*text("agent_message_chunk", answer))
        reader.add(*update("plan", entries=[]))
    return reader.snapshot()[0]


def recorded(store: MemoryStore, *prompts: str) -> Transcript:
    for number, prompt in enumerate(prompts):
        for change in RECORDER.append([foreign(prompt, f"About {prompt}")]):
            assert isinstance(change, EntryBatch | Counted)
            store.write([change])
        assert number < 9
    return fold(store.read("s1"))


def prompts(entries: list[Entry]) -> list[str]:
    messages = (turn.items[0] for turn in fold(entries).turns)
    return [it.blocks[0]["text"] for it in messages if isinstance(it, TranscriptMessage)]


def entries_of(changes: list[Change]) -> list[EntryBatch]:
    return [change for change in changes if isinstance(change, EntryBatch)]


def test_a_foreign_turn_is_recorded_like_any_other() -> None:
    counted, prompt, *updates, answer = RECORDER.append([foreign("Go", "One", "Two")])
    assert counted == Counted(session_id="s1", at_us=99, turns=1, messages=3)
    assert isinstance(prompt, EntryBatch)
    assert (prompt.side, prompt.kind) == (Side.CLIENT, Kind.PROMPT)
    blocks = json.loads(prompt.data)["params"]["prompt"]
    assert blocks == [{"type": "text", "text": "Go"}]
    lines = [json.loads(it.data) for it in updates if isinstance(it, EntryBatch)]
    assert [it["params"]["sessionId"] for it in lines] == ["s1"] * 4
    assert isinstance(answer, EntryBatch)
    assert json.loads(answer.data)["id"] == json.loads(prompt.data)["id"]
    assert json.loads(answer.data)["result"] == {"stopReason": "end_turn"}


def test_each_foreign_turn_has_its_own_request_id() -> None:
    changes = RECORDER.append([foreign("Go", "One"), foreign("Go", "One")])
    ids = [json.loads(it.data)["id"] for it in entries_of(changes) if it.kind is Kind.PROMPT]
    assert len(set(ids)) == 2


def test_the_blocks_of_a_whole_message_become_the_prompt() -> None:
    reader = ReplayReader()
    blocks = [{"type": "text", "text": "See"}, {"type": "image", "data": "", "mimeType": "x"}]
    reader.add(*update("user_message", messageId="u", content=blocks))
    reader.add(*update("user_message", messageId="u", content="not a block"))
    reader.add(*text("agent_message_chunk", "Seen"))
    prompt = entries_of(RECORDER.append(reader.snapshot()))[0]
    assert json.loads(prompt.data)["params"]["prompt"] == blocks


@given(st.sets(st.integers(0, 4)), st.integers(1, 3))
def test_inserted_turns_keep_the_order_of_the_agent(afters: set[int], count: int) -> None:
    store = MemoryStore()
    transcript = recorded(store, *"ABCD")
    before = list(store.read("s1"))
    turns = [
        (place_after(transcript, after), foreign(f"{after}.{n}", "Yes"))
        for after in sorted(afters)
        for n in range(count)
    ]
    earlier = [(place, turn) for place, turn in turns if place is not None]
    changes = RECORDER.insert(earlier, before[earlier[0][0] - 1 :]) if earlier else []
    store.write([*changes, *RECORDER.append([turn for place, turn in turns if place is None])])
    expected: list[str] = []
    for number in range(5):
        expected += [f"{number}.{n}" for n in range(count) if number in afters]
        expected += ["ABCD"[number]] if number < 4 else []
    entries = list(store.read("s1"))
    assert prompts(entries) == expected
    kept = [entry.line for entry in entries if b".0" not in entry.line]
    assert [line for line in kept if b"About" in line] == [
        entry.line for entry in before if b"About" in entry.line
    ]
    assert store.session("s1").turns == 4 + len(afters) * count


def test_an_inserted_turn_gets_the_time_of_its_place() -> None:
    entry = Entry(seq=7, side=Side.CLIENT, kind=Kind.PROMPT, at_us=5, line=b"{}", protocol=2)
    changes = RECORDER.insert([(7, foreign("Go", "One"))], [entry])
    assert changes[0] == Truncated(session_id="s1", at_us=99, until_seq=6)
    assert {change.at_us for change in changes[1:]} == {5}
    last = entries_of(changes)[-1]
    assert (last.data, last.protocol, last.kind) == (b"{}", 2, Kind.PROMPT)


def test_a_transcript_without_later_items_has_no_place() -> None:
    assert place_after(Transcript(), 0) is None
