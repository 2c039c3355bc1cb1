"""The comparison of an agent's replay with the record."""

import pytest
from hypothesis import given, strategies as st

from rekindle.acp.jsonrpc import update_line
from rekindle.jsonvalue import encode
from rekindle.model import Entry, Kind, Side
from rekindle.transcript import replay_match as module
from rekindle.transcript.handover import handover_text
from rekindle.transcript.model import Role, TranscriptMessage, TranscriptTurn
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_match import (
    MemoryReport,
    RecordedTurn,
    ReplayedTurn,
    ReplayReader,
    compare,
    is_caught_up,
    recorded_turns,
    unsaved_turns,
)


def turn(number: int, prompt: str, answer: str = "", **options: bool) -> RecordedTurn:
    squeezed = "".join(answer.split())
    return RecordedTurn(number=number, prompt=prompt, answer=squeezed, **options)


def chunk(kind: str, text: str) -> tuple[str, bytes]:
    content = {"type": "text", "text": text}
    return kind, update_line("s1", {"sessionUpdate": kind, "content": content})


def user(text: str) -> tuple[str, bytes]:
    return chunk("user_message_chunk", text)


def agent(text: str) -> tuple[str, bytes]:
    return chunk("agent_message_chunk", text)


def tool_call() -> tuple[str, bytes]:
    update = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls"}
    return "tool_call", update_line("s1", update)


def report(recorded: list[RecordedTurn], *replay: tuple[str, bytes]) -> MemoryReport:
    reader = ReplayReader(recorded)
    for kind, line in replay:
        reader.add(kind, line)
    return compare(recorded, reader.snapshot())


TWO = [turn(1, "Hello", "Hi"), turn(2, "Thanks", "Bye")]


def test_every_replayed_turn_is_known() -> None:
    found = report(TWO, user("Hello"), agent("Hi"), user("Thanks"), agent("Bye"))
    assert (found.known, found.missing, found.foreign) == ({1, 2}, (), ())


def test_turns_after_the_last_known_one_are_missing() -> None:
    four = [*TWO, turn(3, "Third", "a"), turn(4, "Fourth", "b")]
    found = report(four, user("Hello"), agent("Hi"), user("Thanks"), agent("Bye"))
    assert found.missing == (3, 4)


def test_nothing_is_missing_if_nothing_is_known() -> None:
    assert report(TWO).missing == ()
    assert report(TWO, agent("Welcome!")).known == frozenset()


def test_a_repeated_prompt_counts_as_often_as_it_is_replayed() -> None:
    again = [turn(number, "go on", str(number)) for number in (1, 2, 3)]
    found = report(again, user("go on"), agent("1"), user("go on"), agent("2"))
    assert found.known == {1, 2}
    assert found.missing == (3,)


def test_a_prompt_may_come_in_several_chunks() -> None:
    found = report(TWO, user("Hel"), user("lo"), agent("Hi"), user("Thanks"), agent("Bye"))
    assert found.known == {1, 2}


def test_a_prompt_is_recognised_behind_context_that_the_agent_adds() -> None:
    found = report(TWO, user("<context>\nToday is Monday\n</context>"), user("Hello"), agent("Hi"))
    assert found.known == {1}
    long = [turn(1, "please write a test for the parser")]
    found = report(long, user("[context] please write a  test\nfor the parser [end]"))
    assert found.known == {1}


def test_a_short_prompt_inside_another_text_is_not_recognised() -> None:
    assert report([turn(1, "yes")], user("yesterday was fine, says the log")).known == set()


def test_a_short_prompt_is_recognised_behind_a_handover() -> None:
    text = handover_text(Transcript())
    found = report([turn(1, "a"), turn(2, "b", carries_history=True)], user(text + "b"), agent("c"))
    assert found.known == {1, 2}


def test_a_prompt_that_carried_the_history_proves_the_turns_before_it() -> None:
    turns = [turn(1, "a"), turn(2, "b"), turn(3, "c", carries_history=True), turn(4, "d")]
    found = report(turns, user("c"), agent("x"))
    assert found.known == {1, 2, 3}
    assert found.missing == (4,)


def test_two_prompts_without_an_answer_between_them_may_be_joined() -> None:
    cut_off = turn(1, "Hello", is_completed=False)
    found = report([cut_off, TWO[1]], user("Hello"), user("Thanks"), agent("Bye"))
    assert found.known == {1, 2}


def test_earlier_turns_that_the_agent_summarised_are_not_missing() -> None:
    turns = [turn(number, f"prompt {number}") for number in range(1, 6)]
    found = report(turns, user("prompt 1"), agent("a"), user("prompt 4"), user("prompt 5"))
    assert found.missing == ()
    found = report(turns, user("prompt 5"), agent("a"))
    assert found.missing == ()


def test_a_turn_before_a_new_opening_is_missing_even_if_a_later_one_is_known() -> None:
    turns = [turn(1, "a"), turn(2, "b", precedes_opening=True), turn(3, "c")]
    found = report(turns, user("a"), agent("1"), user("c"), agent("3"))
    assert found.missing == (2,)


def test_a_command_without_an_answer_is_never_missing() -> None:
    replay = (user("Hello"), agent("Hi"), user("Thanks"), agent("Bye"))
    assert report([*TWO, turn(3, "/compact")], *replay).missing == ()
    assert report([*TWO, turn(3, "/usage", "You used 3 tokens")], *replay).missing == ()
    assert report([*TWO, turn(3, "/home/x has a bug", "Yes")], *replay).missing == (3,)


def test_answers_prove_turns_where_the_agent_replays_no_prompts() -> None:
    found = report(TWO, agent("Hi"), tool_call(), agent("Bye"))
    assert found.known == {1, 2}
    assert report(TWO, tool_call(), agent("Hi")).missing == (2,)


def test_a_long_answer_proves_a_turn_whose_prompt_the_agent_changed() -> None:
    turns = [turn(1, "look at the picture", "It shows a red house on a hill.")]
    found = report(turns, user("[image]"), agent("It shows a red house on a hill."))
    assert found.known == {1}
    assert found.foreign == ()
    assert report([turn(1, "a", "ok")], user("[image]"), agent("ok")).known == frozenset()


def test_a_turn_that_only_the_agent_has_is_foreign() -> None:
    found = report(
        TWO, user("Hello"), agent("Hi"), user("Bare"), tool_call(), agent("x"), user("Thanks"),
        agent("Bye"),
    )  # fmt: skip
    assert found.known == {1, 2}
    [(after, foreign)] = found.foreign
    assert after == 1
    assert foreign.prompt == ["Bare"]
    assert foreign.lines == [user("Bare")[1], tool_call()[1], agent("x")[1]]


def test_a_remark_without_an_answer_is_not_a_foreign_turn() -> None:
    found = report(TWO, user("Hello"), agent("Hi"), user("Thanks"), agent("Bye"), user("[stopped]"))
    assert found.foreign == ()


def test_a_handover_is_not_a_foreign_turn() -> None:
    found = report(TWO, user("Hello"), agent("Hi"), user(handover_text(Transcript())), agent("x"))
    assert found.foreign == ()


def test_nothing_is_foreign_if_nothing_is_known() -> None:
    assert report(TWO, user("Another"), agent("session")).foreign == ()


def test_lines_of_recorded_turns_are_not_kept() -> None:
    reader = ReplayReader([turn(1, "Hello", "Hi!")])
    for kind, line in (user("Hel"), user("lo"), agent("Hi"), agent("!")):
        reader.add(kind, line)
    [only] = reader.snapshot()
    assert len(only.lines) == 4
    reader.add(*user("Next"))
    assert [len(it.lines) for it in reader.snapshot()] == [0, 1]
    assert only.answers == ["Hi!"]


def test_messages_of_version_2_are_read_whole() -> None:
    content = [{"type": "text", "text": "Hello"}, {"type": "image", "data": "", "mimeType": "i"}]
    whole = update_line("s1", {"sessionUpdate": "user_message", "messageId": "m", "content": []})
    message = update_line("s1", {"sessionUpdate": "user_message", "content": content})
    found = report(TWO, ("user_message", whole), ("user_message", message), agent("Hi"))
    assert found.known == {1}


def test_a_prompt_without_text_is_known_where_the_agent_replays_one() -> None:
    image = {"type": "image", "data": "", "mimeType": "i"}
    line = update_line("s1", {"sessionUpdate": "user_message_chunk", "content": image})
    found = report([turn(1, ""), turn(2, "b")], ("user_message_chunk", line), agent("x"), user("b"))
    assert found.known == {1, 2}


def test_reading_continues_after_a_first_result() -> None:
    reader = ReplayReader(TWO)
    reader.add(*user("Hello"))
    reader.add(*agent("Hi"))
    assert compare(TWO, reader.snapshot()).known == {1}
    reader.add(*user("Thanks"))
    reader.add(*agent("Bye"))
    assert compare(TWO, reader.snapshot()).known == {1, 2}


@pytest.mark.parametrize(
    ("completed", "known", "expected"),
    [([True, True], {1, 2}, True), ([True, True], {1}, False), ([True, False], {1}, True),
     ([False], {1}, True), ([False], set(), False)],
)  # fmt: skip
def test_a_replay_is_caught_up_with_the_last_completed_turn(
    completed: list[bool], known: set[int], *, expected: bool
) -> None:
    turns = [turn(n, str(n), is_completed=it) for n, it in enumerate(completed, 1)]
    assert is_caught_up(turns, MemoryReport(known=frozenset(known))) is expected


@given(
    st.lists(st.sampled_from(["go on", "yes", "fix it", "a longer prompt of the user"])), st.data()
)
def test_a_prefix_of_the_record_makes_exactly_the_rest_missing(
    prompts: list[str], data: st.DataObject
) -> None:
    turns = [turn(number, prompt) for number, prompt in enumerate(prompts, 1)]
    kept = data.draw(st.integers(0, len(prompts)))
    replay = [it for prompt in prompts[:kept] for it in (user(prompt), agent("ok"))]
    found = report(turns, *replay)
    assert found.known == set(range(1, kept + 1))
    assert found.missing == (tuple(range(kept + 1, len(prompts) + 1)) if kept else ())


def entry(seq: int, kind: Kind, line: object, side: Side = Side.AGENT) -> Entry:
    return Entry(seq=seq, side=side, kind=kind, at_us=seq, line=encode(line))


def test_recorded_turns_are_made_from_a_transcript() -> None:
    blocks = [{"type": "text", "text": "Hello\n there"}, {"type": "image"}]
    other = [{"type": "text", "text": "stop"}]
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi  you"}}
    transcript = fold([
        entry(1, Kind.PROMPT, {"id": 1, "params": {"prompt": blocks}}, Side.CLIENT),
        entry(2, Kind.REMINDER, {"type": "text", "text": "…"}),
        entry(3, Kind.UPDATE, {"params": {"update": said}}),
        entry(4, Kind.ANSWER, {"id": 1, "result": {"stopReason": "end_turn"}}),
        entry(5, Kind.READY, {"result": {}}),
        entry(6, Kind.PROMPT, {"id": 2, "params": {"prompt": other}}, Side.CLIENT),
        entry(7, Kind.ANSWER, {"id": 2, "result": {"stopReason": "cancelled"}}),
    ])  # fmt: skip
    assert recorded_turns(transcript.turns) == [
        turn(1, "Hello there", "Hi you", carries_history=True, precedes_opening=True),
        turn(2, "stop", is_completed=False),
    ]


def test_turns_without_a_prompt_are_left_out() -> None:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}}
    transcript = fold([entry(1, Kind.UPDATE, {"params": {"update": said}})])
    assert recorded_turns(transcript.turns) == []


def test_a_prompt_without_text_is_known_by_its_answer_only() -> None:
    recorded = [turn(1, "", answer="The picture shows a cat on a mat.")]
    reader = ReplayReader()
    reader.add(*user("Hello\n\nyou"))
    reader.add(*agent("Hi"))
    assert compare(recorded, reader.snapshot()).known == set()
    reader.add(*user(""))
    assert compare(recorded, reader.snapshot()).known == set()
    reader.add(*agent("The picture shows a cat"))
    assert compare(recorded, reader.snapshot()).known == {1}


def test_a_changed_prompt_is_searched_for_in_the_next_turns_only() -> None:
    many = [turn(n, f"This is the prompt with the number {n}.") for n in range(1, 301)]
    near, far = "Context. This is the prompt with the number 100.", many[199].prompt
    assert report(many, user(near), agent("Yes")).known == {100}
    assert report(many, user(f"Context. {far}"), agent("Yes")).known == {200}
    assert report(many, user(far), agent("Yes")).known == {200}


def finished(*ends_us: int | None) -> list[TranscriptTurn]:
    """Return turns that ended at these times, or were cut off."""
    message = TranscriptMessage(seq=1, at_us=0, role=Role.USER)
    message.add_text("Go")
    return [
        TranscriptTurn(number=number, at_us=99_000_000, items=[message], ended_us=end)
        for number, end in enumerate(ends_us, 1)
    ]


@pytest.mark.parametrize(
    ("ends_s", "exit_s", "saved", "expected"),
    [
        ([10], 11, 0, [1]),
        ([10], 19.9, 0, [1]),
        ([10], 20, 0, []),
        ([10], 11, 1, []),
        ([1, 50, 52], 55, 0, [2, 3]),
        ([1, 50, 52], 55, 2, [3]),
        # No process saw the agent exit.
        ([1, 50, 52], None, 0, [2, 3]),
        ([1, 50, None], None, 0, [3]),
        # Turns that were cut off long ago come with the one after them.
        ([1, None, None], 99, 0, [2, 3]),
        ([None, 5, None], 99, 0, [3]),
        ([None], None, 1, []),
        ([], None, 0, []),
    ],
)
def test_turns_that_ended_shortly_before_the_agent_may_be_unsaved(
    ends_s: list[float | None], exit_s: float | None, saved: int, expected: list[int]
) -> None:
    turns = finished(*(None if it is None else int(it * 1e6) for it in ends_s))
    exit_us = None if exit_s is None else int(exit_s * 1e6)
    found = unsaved_turns(turns, saved=saved, exit_us=exit_us)
    assert [it.number for it in found] == expected


def test_a_turn_without_a_prompt_is_not_reminded_of() -> None:
    turns = [TranscriptTurn(number=1, at_us=0), *finished(None)]
    turns[1].number = 2
    assert [it.number for it in unsaved_turns(turns, saved=0, exit_us=None)] == [2]
    assert unsaved_turns(turns[:1], saved=0, exit_us=None) == []


def test_a_prompt_without_its_answer_is_not_known() -> None:
    assert report(TWO, user("Hello")).known == set()
    found = report(TWO, user("Hello"), agent("Hi"), user("Thanks"))
    assert (found.known, found.missing) == ({1}, (2,))
    cut_off = [TWO[0], turn(2, "Thanks", "By", is_completed=False)]
    assert report(cut_off, user("Hello"), agent("Hi"), user("Thanks")).known == {1, 2}


def test_an_agent_that_replays_only_prompts_is_believed_if_it_replays_all() -> None:
    assert report([TWO[0]], user("Hello")).known == {1}
    turns = [ReplayedTurn(prompt=["Hello"]), ReplayedTurn(prompt=["Thanks"])]
    assert compare(TWO, turns).known == {1, 2}


def test_results_of_tools_that_are_replayed_as_prompts_are_no_turns() -> None:
    recorded = [turn(1, "Read it", "I read. Done.")]
    found = report(
        recorded,
        user("Read it"), agent("I read."), user("[Function Response: read]"), agent("Done."),
    )  # fmt: skip
    assert (found.known, found.foreign) == ({1}, ())
    found = report(
        recorded, user("Read it"), user("[Function Response: read]"), agent("Done."),
        user("Then?"), agent("Nothing."),
    )  # fmt: skip
    assert (found.known, [it.prompt for _, it in found.foreign]) == ({1}, [["Then?"]])


GO_ON = [
    turn(1, "write f", "Written."),
    turn(2, "go on", "I added types."),
    turn(3, "add tests", "Tests are there."),
    turn(4, "go on", "All is done."),
]


def exchange(*texts: str) -> list[tuple[str, bytes]]:
    """Return a replay of prompts and answers in turn."""
    return [user(text) if n % 2 == 0 else agent(text) for n, text in enumerate(texts)]


def test_a_repeated_prompt_with_another_answer_is_another_turn() -> None:
    stale = exchange("write f", "Written.", "go on", "I added types.", "go on", "Something else.")
    found = report(GO_ON, *stale)
    assert (found.known, found.missing) == ({1, 2}, (3, 4))
    assert [(after, it.prompt) for after, it in found.foreign] == [(2, ["go on"])]


def test_a_bare_turn_with_a_recorded_prompt_is_recorded_whole() -> None:
    bare = exchange("write f", "Written.", "go on", "I am bare.")
    rest = exchange("go on", "I added types.", "add tests", "Tests are there.")
    found = report(GO_ON, *bare, *rest, *exchange("go on", "All is done."))
    assert found.known == {1, 2, 3, 4}
    [(after, foreign)] = found.foreign
    assert (after, len(foreign.lines), foreign.answers) == (1, 2, ["Iambare."])


def test_a_prompt_that_was_retried_is_known_where_its_answer_is() -> None:
    retried = [
        turn(1, "write f", "Written."),
        turn(2, "go on", is_completed=False),
        turn(3, "go on", "I added types."),
    ]
    found = report(retried, *exchange("write f", "Written.", "go on", "I added types."))
    assert (found.known, found.missing) == ({1, 3}, ())


def test_a_summary_before_the_first_known_turn_is_no_turn() -> None:
    summary = exchange("This session is being continued. Summary: f is written.", "I continue.")
    found = report(GO_ON, *summary, *exchange("go on", "All is done."))
    assert (found.known, found.missing, found.foreign) == ({4}, (), ())


def test_a_short_prompt_in_tags_is_known_by_its_answer() -> None:
    recorded = [turn(1, "yes", "Done."), turn(2, "no", "Undone.")]
    replay = exchange("<user>yes</user>", "Done.", "<user>no</user>", "Undone.")
    found = report(recorded, *replay)
    assert (found.known, found.foreign) == ({1, 2}, ())


def test_a_result_of_a_tool_does_not_match_a_later_prompt() -> None:
    recorded = [turn(1, "run tests", "Running. All pass."), turn(2, "OK", "Fine.")]
    replay = exchange("run tests", "Running.", "3 tests\nOK\n", "All pass.")
    assert report(recorded, *replay).known == {1}


def test_a_turn_without_its_last_message_is_known_by_another_message() -> None:
    recorded = [turn(1, "a", "First."), turn(2, "b", "I look. It is done.")]
    assert report(recorded, *exchange("a", "First.", "b", "I look.")).known == {1, 2}
    replay = [*exchange("a", "First.", "b"), tool_call()]
    found = report(recorded, *replay)
    assert (found.known, found.missing) == ({1}, (2,))


def test_a_snapshot_does_not_split_a_message() -> None:
    recorded = [turn(1, "explain this function of it", "It adds.")]
    reader = ReplayReader(recorded)
    reader.add(*user("explain this "))
    assert compare(recorded, reader.snapshot()).known == set()
    reader.add(*user("function of it"))
    reader.add(*agent("It "))
    reader.snapshot()
    reader.add(*agent("adds."))
    [only] = reader.snapshot()
    assert (len(only.prompt), only.answers) == (2, ["Itadds."])


def test_user_messages_with_different_ids_are_different_turns() -> None:
    def message(id_: str, text: str) -> tuple[str, bytes]:
        content = [{"type": "text", "text": text}]
        update = {"sessionUpdate": "user_message", "messageId": id_, "content": content}
        return "user_message", update_line("s1", update)

    reader = ReplayReader()
    for it in (message("a", "One"), message("b", "Two"), message("b", "!")):
        reader.add(*it)
    assert [it.prompt for it in reader.snapshot()] == [["One"], ["Two", "!"]]


def test_lines_beyond_the_limit_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_HELD_BYTES", 400)
    replay = exchange("Hello", "Hi", "Bare", "x" * 400, "Next", "y")
    found = report([TWO[0]], *replay)
    assert [it.prompt for _, it in found.foreign] == [["Next"]]


def test_turns_of_a_session_without_recorded_turns_are_foreign() -> None:
    found = report([], *exchange("Bare", "Yes"))
    assert (found.known, [after for after, _ in found.foreign]) == (set(), [0])


def test_a_long_session_is_aligned_near_its_expected_place() -> None:
    many = [turn(n, f"the prompt with the number {n}", f"answer {n}") for n in range(1, 301)]
    texts = [text for n in range(1, 291) for text in (f"the prompt with the number {n}", "?")]
    found = report(many, *exchange(*texts))
    assert (len(found.known), found.missing) == (290, tuple(range(291, 301)))
    later = [text for n in range(101, 301) for text in (f"the prompt with the number {n}", "?")]
    assert report(many, *exchange(*later)).known == set(range(101, 301))


def test_a_long_prompt_is_compared_by_its_beginning_and_its_end() -> None:
    recorded = [turn(1, "Read the file that follows, please.", "I have read it.")]
    head = recorded[0].prompt + " x" * 40_000
    assert report(recorded, user(head)).known == {1}
    tail = "x " * 40_000 + recorded[0].prompt
    assert report(recorded, user(tail)).known == {1}


def test_a_prompt_behind_a_handover_of_an_earlier_release_is_known() -> None:
    opening = "This conversation was continued in a new process, and you have no memory of it."
    history = f"{opening} Do not answer the record itself.\n\n"
    recorded = [turn(1, "One", "First."), turn(2, "Go", carries_history=True)]
    assert report(recorded, user(f"{history}User: One\n\nGo"), agent("ok")).known == {1, 2}


def recorded_turn(prompt: str, *messages: str) -> TranscriptTurn:
    """Return a recorded turn; the chunks of the agent's messages have 50 characters."""
    said = TranscriptMessage(role=Role.USER, seq=1, at_us=1)
    said.add_text(prompt)
    items = [said]
    for number, text in enumerate(messages):
        answer = TranscriptMessage(role=Role.AGENT, seq=number + 2, at_us=1)
        for begin in range(0, len(text), 50):
            answer.add_text(text[begin : begin + 50])
        items.append(answer)
    return TranscriptTurn(number=1, at_us=1, items=items)


def test_a_long_prompt_is_known_by_its_beginning_and_its_end() -> None:
    prompt = " ".join(f"line {number}" for number in range(10_000))
    recorded = recorded_turns([recorded_turn(prompt, "Yes")])
    assert len(recorded[0].prompt) < 33_000
    assert report(recorded, user(prompt), agent("Yes")).known == {1}
    assert report(recorded, user(prompt[:-4] + "1234"), agent("No")).known == frozenset()


def test_each_message_of_an_answer_is_known_by_its_beginning() -> None:
    first, second = "a" * 100_000, "The tests pass now. " * 5_000
    recorded = recorded_turns([recorded_turn("Go on", first, second)])
    assert len(recorded[0].answer) <= 2 * 16_000
    assert report(recorded, agent(second)).known == {1}
