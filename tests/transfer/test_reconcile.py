"""Sessions that go on here and in the tool by turns: each turn is there once, and none is lost."""

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
from rekindle.transcript.handover import handover_text, reminder_text
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transfer.merge import How
from tool_imports import NOW, Run, everything


@pytest.fixture
def file() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    return it


def imports(store: Store, home: Path) -> list[How]:
    return Run(store, home / ".claude").hows


def opens(store: Store, session_id: str = SESSION) -> None:
    """Write what is written when somebody opens a session, and says nothing."""
    store.write([
        entry(session_id, Kind.SETUP, {"method": "session/resume", "params": {"cwd": CWD}}),
        entry(session_id, Kind.READY, {"result": {}}),
    ])  # fmt: skip


def asks(store: Store, words: str, session_id: str = SESSION) -> None:
    """Write what is written of a turn that is recorded here."""
    turn: list[Change] = [asked(session_id, words), told(session_id, "Live"), answered(session_id)]
    counted = Counted(session_id=session_id, at_us=NOW, turns=1, messages=2)
    store.write([*turn, counted])


def prompts(store: Store, session_id: str = SESSION) -> list[str]:
    entries = (it for it in store.read(session_id) if it.kind is Kind.PROMPT)
    blocks = [json.loads(it.line)["params"]["prompt"] for it in entries]
    return ["".join(block["text"] for block in it) for it in blocks]


def unnumbered(entries: list[Entry]) -> list[Entry]:
    return [replace(it, seq=0) for it in entries]


def test_who_only_looks_at_a_session_does_not_keep_it_from_following_its_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    for number in (2, 3):
        opens(store)
        before = list(store.read(SESSION))
        file.turn(number)
        file.write(tmp_path)
        assert imports(store, tmp_path) == [How.EXTENDED]
        assert list(store.read(SESSION))[: len(before)] == before
        assert imports(store, tmp_path) == []
    ((session, _, _),) = everything(store)
    assert prompts(store) == ["Question 1", "Question 2", "Question 3"]
    assert (session.turns, session.messages) == (3, 6)


def test_turns_that_were_recorded_here_and_written_there_are_there_once(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    recorded: list[Entry] = []
    for number in (2, 4):
        opens(store)
        asks(store, f"Question {number}")
        file.turn(number)
        file.write(tmp_path)
        # The agent has written what was recorded.
        assert imports(store, tmp_path) == []
        recorded = list(store.read(SESSION))
        # The tool goes on without us.
        file.turn(number + 1)
        path = file.write(tmp_path)
        assert imports(store, tmp_path) == [How.EXTENDED]
        assert list(store.read(SESSION))[: len(recorded)] == recorded
        path.touch()
        assert imports(store, tmp_path) == []
    ((session, _, entries),) = everything(store)
    assert prompts(store) == [f"Question {number}" for number in range(1, 6)]
    assert (session.turns, session.messages) == (5, 10)
    assert sum(b"Live" in it.line for it in entries) == 2
    assert not any(b"Answer 2" in it.line or b"Answer 4" in it.line for it in entries)
    assert session.origin is not None
    assert session.origin.recorded == RecordedPrefix(entries=len(recorded), turns=4, messages=8)


@pytest.mark.parametrize("tool", [CLAUDE, GEMINI], ids=lambda it: it.name)
def test_every_step_after_a_turn_that_was_recorded_here_can_be_watched(
    tool: object, store: Store, tmp_path: Path
) -> None:
    it = ClaudeFile() if tool is CLAUDE else GeminiFile()
    root = tmp_path / (".claude" if tool is CLAUDE else ".gemini")

    def watch() -> Run:
        return Run(store, root, CLAUDE if tool is CLAUDE else GEMINI)

    it.turn(1)
    it.write(tmp_path)
    watch()
    opens(store, it.session)
    asks(store, "Question 2", it.session)
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
    # What came at last is just what the file tells.
    (found,) = (CLAUDE if tool is CLAUDE else GEMINI).find(root, None)
    assert found.path == it.path(tmp_path)
    tail = unnumbered(list(store.read(it.session)))[len(before) :]
    assert [it.kind for it in tail] == [Kind.PROMPT, Kind.UPDATE, Kind.ANSWER] * 2
    assert [it.turns for it, _, _ in everything(store)] == [4]


def test_what_was_assumed_of_the_end_is_replaced_without_a_word(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    asks(store, "Question 2")
    file.turn(2)
    file.user("Do it")
    file.agent("msg_3", said("I will."))
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.EXTENDED]
    assert [it.kind for it in store.read(SESSION)][-1] is Kind.ANSWER
    file.call("msg_3", "toolu_1", "Bash", {"command": "ls"})
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert [it.kind for it in entries][-3:] == [Kind.PROMPT, Kind.UPDATE, Kind.UPDATE]
    assert (session.turns, session.messages) == (3, 6)


def test_what_was_asked_here_alone_stays_and_the_file_is_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    asks(store, "Question 2")
    asks(store, "Only here")
    before = list(store.read(SESSION))
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.BRANCHED]
    assert list(store.read(SESSION)) == before


def test_who_asked_there_what_ends_alike_asked_something_else(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    asks(store, "on")
    file.user("Go on")
    file.agent("msg_2", said("Only there."))
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.BRANCHED]


def test_who_asked_there_the_same_as_another_agent_here_is_kept_beside(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    store.write([
        asked(SESSION, "Go on"), entry(SESSION, Kind.HANDOVER, {"type": "text", "text": "..."}),
        told(SESSION, "Live"), answered(SESSION),
    ])  # fmt: skip
    before = list(store.read(SESSION))
    file.user("Go on")
    file.agent("msg_2", said("Only there."))
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.BRANCHED]
    assert list(store.read(SESSION)) == before
    assert imports(store, tmp_path) == []


@pytest.mark.parametrize("tell", [handover_text, reminder_text])
def test_what_the_agent_was_told_before_the_users_words_makes_no_other_prompt_of_them(
    store: Store, file: ClaudeFile, tmp_path: Path, tell: Callable[[Transcript], str]
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    store.write([asked(SESSION, "Question 2")])
    transcript = fold(store.read(SESSION))
    asks(store, "Question 3")
    file.turn(2)
    file.user(f"{tell(transcript)}\nQuestion 3")
    file.agent("msg_3", said("It is written here, too."))
    file.write(tmp_path)
    assert imports(store, tmp_path) == []


def test_a_prompt_that_came_to_nothing_is_no_other_way(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    asks(store, "Refused")
    asks(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.EXTENDED]
    assert prompts(store) == ["Question 1", "Refused", "Question 2", "Question 3"]


def test_where_the_tool_goes_back_behind_what_was_recorded_here_ours_stays(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    above = file.last
    asks(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.EXTENDED]
    before = list(store.read(SESSION))
    file.user("Another way", parent=above)
    file.write(tmp_path)
    hows = imports(store, tmp_path)
    assert How.BRANCHED in hows
    assert list(store.read(SESSION)) == before
    assert imports(store, tmp_path) == []


def test_where_the_tool_goes_back_after_what_was_recorded_here_ours_does_too(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    asks(store, "Question 2")
    file.turn(2)
    recorded = list(store.read(SESSION))
    file.turn(3)
    above = file.last
    file.turn(4)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.EXTENDED]
    file.user("Another way", parent=above)
    file.write(tmp_path)
    assert How.EXTENDED in imports(store, tmp_path)
    assert list(store.read(SESSION))[: len(recorded)] == recorded
    assert prompts(store) == ["Question 1", "Question 2", "Question 3", "Another way"]
    # What it had before is put away.
    kept = [it for it, _, _ in everything(store) if it.archived_us is not None]
    assert any("Question 4" in prompts(store, it.id) for it in kept)


def test_a_session_that_another_agent_has_now_does_not_follow_the_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    store.write([Opened(session_id=SESSION, at_us=NOW, agent_session_id="of another")])
    asks(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.BRANCHED]


def test_a_session_of_one_tool_does_not_follow_anothers_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    elsewhere = Origin(tool="codex", path="/elsewhere", entries=3, settled=3)
    store.write([Imported(session_id=SESSION, at_us=NOW, origin=elsewhere)])
    opens(store)
    file.turn(2)
    file.write(tmp_path)
    assert imports(store, tmp_path) == [How.BRANCHED]


def test_looking_only_tells_that_it_would_be_extended(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    imports(store, tmp_path)
    opens(store)
    asks(store, "Question 2")
    file.turn(2)
    file.turn(3)
    file.write(tmp_path)
    before = everything(store)
    (looked,) = Run(store, tmp_path / ".claude", only_looks=True).taken
    assert everything(store) == before
    assert [looked] == Run(store, tmp_path / ".claude").taken
    assert (looked.how, looked.entries) == (How.EXTENDED, 3)
