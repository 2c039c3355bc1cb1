"""Sessions that continue alternately here and in the tool: each turn is imported once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import CWD, SESSION, ClaudeFile, said
from gemini_files import GeminiFile
from recorded_sessions import answered, asked, entry, told
from rekindle.importers.claude.session import IMPORTER as CLAUDE
from rekindle.importers.gemini.session import IMPORTER as GEMINI
from rekindle.model import Change, Counted, Entry, Imported, Kind, Opened, Origin, RecordedPrefix
from rekindle.store.base import Store
from rekindle.transcript.handover import handover_text, missing_turns_text, reminder_text
from rekindle.transcript.preface import END
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transfer.merge import MergeOutcome
from tool_imports import NOW, Run, everything


@pytest.fixture
def file() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    return it


def import_all(store: Store, home: Path) -> list[MergeOutcome]:
    return Run(store, home / ".claude").outcomes


def record_opening(store: Store, session_id: str = SESSION) -> None:
    """Record that a client opened a session, without a prompt."""
    store.write([
        entry(session_id, Kind.SETUP, {"method": "session/resume", "params": {"cwd": CWD}}),
        entry(session_id, Kind.READY, {"result": {}}),
    ])  # fmt: skip


def record_turn(store: Store, words: str, session_id: str = SESSION) -> None:
    """Record a turn of a session."""
    turn: list[Change] = [asked(session_id, words), told(session_id, "Live"), answered(session_id)]
    counted = Counted(session_id=session_id, at_us=NOW, turns=1, messages=2)
    store.write([*turn, counted])


def prompts(store: Store, session_id: str = SESSION) -> list[str]:
    entries = (it for it in store.read(session_id) if it.kind is Kind.PROMPT)
    blocks = [json.loads(it.line)["params"]["prompt"] for it in entries]
    return ["".join(block["text"] for block in it) for it in blocks]


def unnumbered(entries: list[Entry]) -> list[Entry]:
    return [replace(it, seq=0) for it in entries]


def test_opening_a_session_does_not_stop_it_from_following_its_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    for number in (2, 3):
        record_opening(store)
        before = list(store.read(SESSION))
        file.turn(number)
        file.write(tmp_path)
        assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
        assert list(store.read(SESSION))[: len(before)] == before
        assert import_all(store, tmp_path) == []
    ((session, _, _),) = everything(store)
    assert prompts(store) == ["Question 1", "Question 2", "Question 3"]
    assert (session.turns, session.messages) == (3, 6)


def test_turns_in_record_and_file_are_merged_once(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    recorded: list[Entry] = []
    for number in (2, 4):
        record_opening(store)
        record_turn(store, f"Question {number}")
        file.turn(number)
        file.write(tmp_path)
        # The agent's file now has the recorded turn.
        assert import_all(store, tmp_path) == []
        recorded = list(store.read(SESSION))
        # The tool adds a turn of its own.
        file.turn(number + 1)
        path = file.write(tmp_path)
        assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
        assert list(store.read(SESSION))[: len(recorded)] == recorded
        path.touch()
        assert import_all(store, tmp_path) == []
    ((session, _, entries),) = everything(store)
    assert prompts(store) == [f"Question {number}" for number in range(1, 6)]
    assert (session.turns, session.messages) == (5, 10)
    assert sum(b"Live" in it.line for it in entries) == 2
    assert not any(b"Answer 2" in it.line or b"Answer 4" in it.line for it in entries)
    assert session.origin is not None
    assert session.origin.recorded == RecordedPrefix(entries=len(recorded), turns=4, messages=8)


@pytest.mark.parametrize("tool", [CLAUDE, GEMINI], ids=lambda it: it.name)
def test_import_after_each_step_keeps_the_record(
    tool: object, store: Store, tmp_path: Path
) -> None:
    it = ClaudeFile() if tool is CLAUDE else GeminiFile()
    root = tmp_path / (".claude" if tool is CLAUDE else ".gemini")

    def watch() -> Run:
        return Run(store, root, CLAUDE if tool is CLAUDE else GEMINI)

    it.turn(1)
    it.write(tmp_path)
    watch()
    record_opening(store, it.session)
    record_turn(store, "Question 2", it.session)
    it.turn(2)
    grown = type(it)()
    for number in (1, 2, 3, 4):
        grown.turn(number)
    before = list(store.read(it.session))
    for line in grown.lines[len(it.lines) :]:
        it.lines.append(line)
        it.write(tmp_path)
        watch()
        entries = list(store.read(it.session))
        assert entries[: len(before)] == before
    assert len(everything(store)) == 1
    assert prompts(store, it.session) == [f"Question {number}" for number in range(1, 5)]
    # The appended entries are those of the file.
    (found,) = (CLAUDE if tool is CLAUDE else GEMINI).find(root, None)
    assert found.path == it.path(tmp_path)
    tail = unnumbered(list(store.read(it.session)))[len(before) :]
    assert [it.kind for it in tail] == [Kind.PROMPT, Kind.UPDATE, Kind.ANSWER] * 2
    assert [it.turns for it, _, _ in everything(store)] == [4]


def test_provisional_entries_are_replaced_without_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_turn(store, "Question 2")
    file.turn(2)
    file.user("Do it")
    file.agent("msg_3", said("I will."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
    assert [it.kind for it in store.read(SESSION)][-1] is Kind.ANSWER
    file.call("msg_3", "toolu_1", "Bash", {"command": "ls"})
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert [it.kind for it in entries][-3:] == [Kind.PROMPT, Kind.UPDATE, Kind.UPDATE]
    assert (session.turns, session.messages) == (3, 6)


def test_file_without_a_recorded_prompt_becomes_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_turn(store, "Question 2")
    record_turn(store, "Only here")
    before = list(store.read(SESSION))
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]
    assert list(store.read(SESSION)) == before


def test_prompt_with_same_ending_is_a_different_prompt(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_turn(store, "on")
    file.user("Go on")
    file.agent("msg_2", said("Only there."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]


def test_same_prompt_to_another_agent_makes_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    store.write([
        asked(SESSION, "Go on"), entry(SESSION, Kind.HANDOVER, {"type": "text", "text": "..."}),
        told(SESSION, "Live"), answered(SESSION),
    ])  # fmt: skip
    before = list(store.read(SESSION))
    file.user("Go on")
    file.agent("msg_2", said("Only there."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]
    assert list(store.read(SESSION)) == before
    assert import_all(store, tmp_path) == []


@pytest.mark.parametrize(
    "tell",
    [
        handover_text,
        lambda transcript: reminder_text(transcript, transcript.turns),
        lambda transcript: missing_turns_text(transcript, {1}),
    ],
)
def test_prompt_with_history_in_front_is_the_same_prompt(
    store: Store, file: ClaudeFile, tmp_path: Path, tell: Callable[[Transcript], str]
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    store.write([asked(SESSION, "Question 2")])
    transcript = fold(store.read(SESSION))
    record_turn(store, "Question 3")
    file.turn(2)
    file.user(f"{tell(transcript)}\nQuestion 3")
    file.agent("msg_3", said("It is written here, too."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == []


def test_short_prompt_is_not_the_end_of_another(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    store.write([asked(SESSION, "Question 2")])
    transcript = fold(store.read(SESSION))
    reminder = reminder_text(transcript, transcript.turns[-1:])
    record_turn(store, "on")
    file.turn(2)
    file.user(f"{reminder}\nGo on")
    file.agent("msg_3", said("Only there."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]


@pytest.mark.parametrize("prompt", ["Question 3", ""])
def test_prompt_behind_a_history_of_an_earlier_release_is_the_same(
    store: Store, file: ClaudeFile, tmp_path: Path, prompt: str
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    store.write([asked(SESSION, "Question 2")])
    transcript = fold(store.read(SESSION))
    reminder = reminder_text(transcript, transcript.turns[-1:]).removesuffix(END)
    record_turn(store, prompt)
    file.turn(2)
    file.user(f"{reminder}\n{prompt}")
    file.agent("msg_3", said("It is written here, too."))
    file.write(tmp_path)
    assert import_all(store, tmp_path) == ([] if prompt else [MergeOutcome.BRANCHED])


def test_refused_prompt_does_not_make_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_turn(store, "Refused")
    record_turn(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
    assert prompts(store) == ["Question 1", "Refused", "Question 2", "Question 3"]


def test_tool_that_goes_back_before_recorded_turns_makes_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    above = file.last
    record_turn(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
    before = list(store.read(SESSION))
    file.user("Another way", parent=above)
    file.write(tmp_path)
    outcomes = import_all(store, tmp_path)
    assert MergeOutcome.BRANCHED in outcomes
    assert list(store.read(SESSION)) == before
    assert import_all(store, tmp_path) == []


def test_tool_that_goes_back_after_recorded_turns_is_followed(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_turn(store, "Question 2")
    file.turn(2)
    recorded = list(store.read(SESSION))
    file.turn(3)
    above = file.last
    file.turn(4)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.EXTENDED]
    file.user("Another way", parent=above)
    file.write(tmp_path)
    assert MergeOutcome.EXTENDED in import_all(store, tmp_path)
    assert list(store.read(SESSION))[: len(recorded)] == recorded
    assert prompts(store) == ["Question 1", "Question 2", "Question 3", "Another way"]
    # The replaced turn is in an archived branch.
    kept = [it for it, _, _ in everything(store) if it.archived_us is not None]
    assert any("Question 4" in prompts(store, it.id) for it in kept)


def test_session_of_another_agent_does_not_follow_the_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    store.write([Opened(session_id=SESSION, at_us=NOW, agent_session_id="of another")])
    record_turn(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]


def test_session_of_one_tool_does_not_follow_the_file_of_another(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    elsewhere = Origin(tool="codex", path="/elsewhere", entries=3, settled=3)
    store.write([Imported(session_id=SESSION, at_us=NOW, origin=elsewhere)])
    record_opening(store)
    file.turn(2)
    file.write(tmp_path)
    assert import_all(store, tmp_path) == [MergeOutcome.BRANCHED]


def test_dry_run_predicts_extension_of_recorded_session(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    import_all(store, tmp_path)
    record_opening(store)
    record_turn(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    before = everything(store)
    (predicted,) = Run(store, tmp_path / ".claude", dry_run=True).results
    assert everything(store) == before
    assert [predicted] == Run(store, tmp_path / ".claude").results
    assert (predicted.outcome, predicted.entries) == (MergeOutcome.EXTENDED, 3)
