"""Imports from other tools: sessions follow their files, and nothing recorded here is lost."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile, forked, said
from recorded_sessions import answered, asked, look
from rekindle.importers.base import EntryCounts, ImportNotes, SourceSession
from rekindle.importers.claude.session import IMPORTER
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Change,
    Deleted,
    Entry,
    Kind,
    LeaseHolder,
    Opened,
    Page,
    Titled,
    TitleSource,
)
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.handover import handover_text
from rekindle.transcript.reducer import fold
from rekindle.transfer.branches import title_changes
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.import_scan import ImportResult
from rekindle.transfer.merge import MergeOutcome
from tool_imports import HOLDER, NOW, Run, entries_of_file, everything

OTHER = LeaseHolder(token="other", pid=7, machine="there")  # noqa: S106 - no password


@pytest.fixture
def file() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    return it


def read_source(path: Path, **fields: object) -> SourceSession:
    """Return the session of a file, with other values in these fields of its metadata."""
    (found,) = IMPORTER.find(path, None)
    (source_session,) = IMPORTER.read(found, ImportNotes())
    return replace(source_session, incoming=replace(source_session.incoming, **fields))


def test_switch_to_another_first_prompt_changes_the_title(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    file.user("Begin anew", parent=None)
    file.agent("msg_new", said("Begun"), "end_turn")
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    named = {it.id: titles for it, titles, _ in everything(store)}
    assert named.pop(SESSION) == {TitleSource.PROMPT: "Begin anew"}
    # The abandoned branch keeps the title of its own first prompt.
    assert list(named.values()) == [{TitleSource.PROMPT: "Question 1 (fork)"}]


def test_branch_is_titled_after_its_own_first_prompt(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.user("Begin anew", parent=None)
    file.agent("msg_new", said("Begun"), "end_turn")
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    named = [titles for it, titles, _ in everything(store) if it.id != SESSION]
    assert named == [{TitleSource.PROMPT: "Question 1 (fork)"}]


def test_import_is_complete_and_idempotent(store: Store, file: ClaudeFile, tmp_path: Path) -> None:
    path = file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.NEW]
    first = everything(store)
    ((session, titles, entries),) = first
    assert entries == entries_of_file(path)
    assert titles == {TitleSource.PROMPT: "Question 1"}
    assert (session.id, session.agent_session_id, session.agent.name) == (
        SESSION,
        SESSION,
        "claude",
    )
    assert (session.cwd, session.turns, session.messages) == ("/home/user/project", 1, 2)
    assert session.created_us == entries[0].at_us
    assert session.updated_us == entries[-1].at_us
    assert session.origin is not None
    assert (session.origin.path, session.origin.entries) == (str(path), len(entries))
    again = Run(store, tmp_path / ".claude")
    # The file is not read again.
    assert (again.read, again.outcomes, again.report.outcomes) == (
        0,
        [],
        {MergeOutcome.UNCHANGED: 1},
    )
    assert everything(store) == first


def test_touched_file_with_same_content_changes_nothing(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    first = everything(store)
    path.touch()
    again = Run(store, tmp_path / ".claude")
    assert (again.read, again.outcomes, again.report.outcomes) == (
        1,
        [],
        {MergeOutcome.UNCHANGED: 1},
    )
    assert Run(store, tmp_path / ".claude").read == 0
    ((session, *rest),) = everything(store)
    ((before, *before_rest),) = first
    assert rest == before_rest
    assert replace(session, origin=None) == replace(before, origin=None)


def test_grown_file_extends_session_and_keeps_agent_session_id(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    for number in range(2, 5):
        file.turn(number)
        path = file.write(tmp_path)
        assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
        ((session, _, entries),) = everything(store)
        assert entries == entries_of_file(path)
        assert (session.turns, session.messages) == (number, 2 * number)
        assert session.agent_session_id == SESSION


def test_provisional_entries_are_replaced_without_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.user("Do it")
    file.agent("msg_2", said("I will."))
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    file.call("msg_2", "toolu_1", "Bash", {"command": "ls"})
    path = file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert entries == entries_of_file(path)
    assert session.turns == 2


def test_import_after_each_step_matches_the_file(store: Store, tmp_path: Path) -> None:
    it = ClaudeFile()
    for line in _session_with_every_record().lines:
        it.lines.append(line)
        path = it.write(tmp_path)
        Run(store, tmp_path / ".claude")
        ((_, _, entries),) = everything(store) or [(None, None, [])]
        assert entries == (entries_of_file(path) if entries else [])


def _session_with_every_record() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    it.user("Do it")
    it.agent("msg_2", said("I will."))
    it.call("msg_2", "toolu_1", "Bash", {"command": "ls"})
    it.loose("queue-operation", operation="enqueue", content="Quick")
    it.result("toolu_1", "a")
    it.loose("queue-operation", operation="dequeue")
    it.add("attachment", attachment={"type": "queued_command", "prompt": "Quick"})
    it.agent("msg_3", said("Done."), "end_turn")
    it.put({"type": "ai-title", "aiTitle": "Doing it"})
    it.turn(3)
    return it


def test_session_continued_here_stays_and_file_becomes_one_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    store.write([asked(SESSION, "Here"), answered(SESSION)])
    before = list(store.read(SESSION))
    assert Run(store, tmp_path / ".claude").outcomes == []
    file.turn(2)
    path = file.write(tmp_path)
    (branch,) = Run(store, tmp_path / ".claude").results
    assert (branch.outcome, branch.title) == (MergeOutcome.BRANCHED, "Question 1")
    assert list(store.read(SESSION)) == before
    assert list(store.read(branch.session_id)) == entries_of_file(path)
    fork = store.session(branch.session_id)
    assert (fork.parent_id, fork.title) == (SESSION, "Question 1 (fork)")
    assert (fork.agent_session_id, fork.archived_us) == (UNKNOWN_TO_AGENT, None)
    first = everything(store)
    path.touch()
    assert (Run(store, tmp_path / ".claude").outcomes, Run(store, tmp_path / ".claude").read) == (
        [],
        0,
    )
    assert [it[1:] for it in everything(store)] == [it[1:] for it in first]
    # Further growth of the file extends the branch.
    file.turn(3)
    path = file.write(tmp_path)
    (more,) = Run(store, tmp_path / ".claude").results
    assert (more.outcome, more.session_id) == (MergeOutcome.EXTENDED, branch.session_id)
    assert list(store.read(branch.session_id)) == entries_of_file(path)


def test_session_follows_tool_to_another_branch_and_archives_the_old_one(
    store: Store, tmp_path: Path
) -> None:
    it = ClaudeFile()
    it.turn(1)
    above = it.last
    it.user("This way")
    it.agent("msg_a", said("Going this way"), "end_turn")
    old = entries_of_file(it.write(tmp_path))
    Run(store, tmp_path / ".claude")
    it.user("That way", parent=above)
    it.agent("msg_b", said("Going that way"), "end_turn")
    path = it.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    assert list(store.read(SESSION)) == entries_of_file(path)
    (aside,) = [it for it, _, _ in everything(store) if it.id != SESSION]
    assert list(store.read(aside.id)) == old
    assert (aside.parent_id, aside.turns, aside.title) == (SESSION, 2, "Question 1 (fork)")
    assert aside.archived_us is not None
    assert [it.id for it in store.sessions(Page())] == [SESSION]
    # A first import into an empty store has the same result.
    fresh = MemoryStore()
    Run(fresh, tmp_path / ".claude")
    assert {it.id: entries for it, _, entries in everything(fresh)} == {
        it.id: entries for it, _, entries in everything(store)
    }
    before = everything(store)
    path.touch()
    Run(store, tmp_path / ".claude")
    assert [it[1:] for it in everything(store)] == [it[1:] for it in before]


def test_file_of_recorded_session_adds_only_new_turns(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    agent = AgentIdentity(name="@vendor/claude-agent-acp", command=("claude-agent-acp",))
    store.write([Opened(session_id=SESSION, at_us=NOW, cwd="/p", agent=agent)])
    store.write([asked(SESSION, "Question 1"), answered(SESSION)])
    before = everything(store)
    file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == []
    assert [it[1:] for it in everything(store)] == [it[1:] for it in before]
    assert Run(store, tmp_path / ".claude").read == 0
    assert not store.session(SESSION).is_imported
    # A turn that only the file has is appended to the record.
    file.turn(2)
    file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    ((_, _, entries),) = everything(store)
    assert entries[: len(before[0][2])] == before[0][2]
    assert prompts(entries) == ["Question 1", "Question 2"]


def prompts(entries: Iterable[Entry]) -> list[str]:
    """Return the texts of the prompts."""
    asked = [json.loads(it.line)["params"]["prompt"] for it in entries if it.kind is Kind.PROMPT]
    return ["".join(block["text"] for block in blocks) for blocks in asked]


def test_file_of_agent_after_handover_belongs_to_the_session(store: Store, tmp_path: Path) -> None:
    store.write([Opened(session_id="s1", at_us=NOW, cwd="/p", agent_session_id=SESSION)])
    store.write([asked("s1", "Hello"), answered("s1")])
    record = handover_text(fold(store.read("s1")))
    store.write([asked("s1", "Go on"), answered("s1")])
    it = ClaudeFile()
    it.user([said(record), said("Go on")])
    it.agent("msg_1", said("Going"), "end_turn")
    it.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == []
    assert [it.id for it in store.sessions(Page())] == ["s1"]
    it.turn(2)
    it.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    assert [it.id for it in store.sessions(Page())] == ["s1"]
    assert prompts(store.read("s1")) == ["Hello", "Go on", "Question 2"]
    # The title in the file is made from the history that was handed over.
    assert "continued" not in str(store.titles("s1"))


def test_title_made_from_a_handover_is_not_imported() -> None:
    titles = {
        TitleSource.PROMPT: "Fix it (fork)",
        TitleSource.AGENT: "This conversation was continued in a new… (fork)",
        TitleSource.USER: "This conversation was continued in a new…",
    }
    changes = title_changes("s1", NOW, titles)
    assert [change.source for change in changes] == [TitleSource.PROMPT, TitleSource.USER]


@pytest.mark.parametrize(
    "agent",
    [
        AgentIdentity(name="@agentclientprotocol/claude-agent-acp", command=("npx", "claude")),
        AgentIdentity(command=("/opt/bin/claude-code-acp",)),
        AgentIdentity(name="Claude", command=("claude", "acp")),
    ],
    ids=repr,
)
def test_imported_session_gets_the_command_of_the_tools_agent(
    store: Store, file: ClaudeFile, tmp_path: Path, agent: AgentIdentity
) -> None:
    store.write([Opened(session_id="s1", at_us=NOW, cwd="/p", agent=agent)])
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert store.session(SESSION).agent.command == agent.command


@pytest.mark.parametrize(
    "agent",
    [
        AgentIdentity(name="not-claude", command=("other",)),
        AgentIdentity(name="other", command=("claude", "acp")),
        AgentIdentity(name="", command=("other",)),
    ],
    ids=repr,
)
def test_imported_session_never_gets_the_command_of_another_agent(
    store: Store, file: ClaudeFile, tmp_path: Path, agent: AgentIdentity
) -> None:
    store.write([Opened(session_id="s1", at_us=NOW, cwd="/p", agent=agent)])
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert store.session(SESSION).agent.command == ()


def test_changed_title_is_imported_and_user_title_is_kept(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    file.put({"type": "ai-title", "aiTitle": "Of the tool"})
    file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == []
    assert store.session(SESSION).title == "Of the tool"
    mine = Titled(session_id=SESSION, at_us=NOW, source=TitleSource.USER, title="Mine")
    store.write([mine])
    file.put({"type": "custom-title", "customTitle": "Of the tool's user"})
    file.turn(2)
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert store.titles(SESSION)[TitleSource.AGENT] == "Of the tool's user"
    assert store.session(SESSION).title == "Mine"


@pytest.mark.parametrize("is_grown", [True, False])
def test_update_never_writes_a_user_title_of_a_tool(
    store: Store, file: ClaudeFile, tmp_path: Path, *, is_grown: bool
) -> None:
    importer = SessionImporter(store, HOLDER)
    importer.import_session(read_source(file.write(tmp_path)), NOW)
    if is_grown:
        file.turn(2)
    titles = {TitleSource.AGENT: "Of the tool", TitleSource.USER: "Of the tool's user"}
    result = importer.import_session(read_source(file.write(tmp_path), titles=titles), NOW)
    assert result.outcome is (MergeOutcome.EXTENDED if is_grown else MergeOutcome.UNCHANGED)
    assert store.titles(SESSION) == {
        TitleSource.PROMPT: "Question 1",
        TitleSource.AGENT: "Of the tool",
    }


@pytest.mark.parametrize("is_grown", [True, False])
def test_session_without_folder_gets_folder_and_directories_together(
    store: Store, file: ClaudeFile, tmp_path: Path, *, is_grown: bool
) -> None:
    importer = SessionImporter(store, HOLDER)
    importer.import_session(read_source(file.write(tmp_path), cwd=None), NOW)
    if is_grown:
        file.turn(2)
    located = read_source(file.write(tmp_path), cwd="/p", directories=("/q",))
    importer.import_session(located, NOW)
    session = store.session(SESSION)
    assert (session.cwd, session.directories) == ("/p", ("/q",))
    # From then on the session has its own folder, and keeps both.
    file.turn(3)
    moved = read_source(file.write(tmp_path), cwd="/elsewhere", directories=("/r",))
    assert importer.import_session(moved, NOW).outcome is MergeOutcome.EXTENDED
    session = store.session(SESSION)
    assert (session.cwd, session.directories) == ("/p", ("/q",))


def test_import_keeps_folder_that_was_changed_here(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    store.write([Opened(session_id=SESSION, at_us=NOW, cwd="/moved")])
    file.turn(2)
    file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    assert store.session(SESSION).cwd == "/moved"


def test_deleted_session_stays_deleted_without_undelete(store: Store, tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("First", parent=None)
    it.user("Other", parent=None)
    it.user("Help", parent=None, isSidechain=True)
    path = it.write(tmp_path)
    child = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    child.parent.mkdir(parents=True)
    helper = ClaudeFile(isSidechain=True)
    helper.turn(1)
    child.write_bytes(helper.data())
    Run(store, tmp_path / ".claude")
    assert len(everything(store)) == 4
    store.write([Deleted(session_id=session.id, at_us=NOW) for session, _, _ in everything(store)])
    run = Run(store, tmp_path / ".claude")
    assert (run.read, run.report.outcomes) == (0, {MergeOutcome.DELETED: 2})
    it.turn(1)
    it.write(tmp_path)
    child.touch()
    run = Run(store, tmp_path / ".claude")
    assert (run.outcomes, run.report.outcomes) == ([], {MergeOutcome.DELETED: 2})
    run = Run(store, tmp_path / ".claude")
    assert (run.read, run.report.outcomes) == (0, {MergeOutcome.DELETED: 2})
    assert everything(store) == []
    assert Run(store, tmp_path / ".claude", undelete=True).outcomes[0] is MergeOutcome.EXTENDED
    assert store.session(SESSION).deleted_us is None
    store.write([Deleted(session_id=SESSION, at_us=NOW)])
    assert MergeOutcome.UNDELETED in Run(store, tmp_path / ".claude", undelete=True).outcomes


def test_undelete_restores_session_beside_branch_from_file(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    def undelete(*, dry_run: bool = False) -> list[MergeOutcome]:
        return Run(store, tmp_path / ".claude", undelete=True, dry_run=dry_run).outcomes

    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    store.write([asked(SESSION, "Only here"), answered(SESSION)])
    file.turn(2)
    file.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.BRANCHED]
    before = everything(store)
    store.write([Deleted(session_id=SESSION, at_us=NOW)])
    assert undelete(dry_run=True) == [MergeOutcome.UNDELETED]
    assert store.session(SESSION).deleted_us is not None
    # The file is unchanged.
    assert undelete() == [MergeOutcome.UNDELETED]
    assert sorted(it.id for it, _, _ in everything(store)) == sorted(it.id for it, _, _ in before)
    assert undelete() == []
    store.write([Deleted(session_id=SESSION, at_us=NOW)])
    file.turn(3)
    file.write(tmp_path)
    assert undelete() == [MergeOutcome.EXTENDED]
    assert store.session(SESSION).deleted_us is None


def test_undelete_reimports_purged_session_with_its_agent(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    first = store.session(SESSION)
    agent = AgentIdentity(name="other", command=("other",))
    opened = Opened(session_id=SESSION, at_us=NOW, agent_session_id="theirs", agent=agent)
    store.write([opened, Deleted(session_id=SESSION, at_us=NOW)])
    store.purge(SESSION)
    predicted = Run(store, tmp_path / ".claude", undelete=True, dry_run=True)
    assert predicted.outcomes == [MergeOutcome.NEW]
    assert Run(store, tmp_path / ".claude", undelete=True).results == predicted.results
    session = store.session(SESSION)
    assert (session.agent, session.agent_session_id) == (first.agent, SESSION)
    assert (session.cwd, session.turns) == (first.cwd, first.turns)


def test_undelete_of_unchanged_session_is_one_transaction(
    store: Store, file: ClaudeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = SessionImporter(store, HOLDER, undelete=True)
    importer.import_session(read_source(file.write(tmp_path)), NOW)
    store.write([Deleted(session_id=SESSION, at_us=NOW)])
    file.put({"type": "ai-title", "aiTitle": "Of the tool"})
    written: list[Sequence[Change]] = []
    write = store.write

    def count_write(changes: Sequence[Change], *, sync: bool = False) -> None:
        written.append(changes)
        write(changes, sync=sync)

    monkeypatch.setattr(store, "write", count_write)
    result = importer.import_session(read_source(file.write(tmp_path)), NOW)
    assert (result.outcome, len(written)) == (MergeOutcome.UNDELETED, 1)
    session = store.session(SESSION)
    assert (session.deleted_us, session.title) == (None, "Of the tool")


def test_session_is_looked_up_by_agent_session_id_once_per_import(
    store: Store, file: ClaudeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def find_by_agent_id(agent_session_id: str) -> None:
        looked_up.append(agent_session_id)

    monkeypatch.setattr(store, "find_by_agent_id", find_by_agent_id)
    SessionImporter(store, HOLDER).import_session(read_source(file.write(tmp_path)), NOW)
    assert looked_up == [SESSION]


def test_session_in_use_is_not_changed(store: Store, file: ClaudeFile, tmp_path: Path) -> None:
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    store.acquire_lease(SESSION, OTHER)
    file.turn(2)
    path = file.write(tmp_path)
    run = Run(store, tmp_path / ".claude")
    assert list(run.report.failed) == [str(path)]
    assert "in use by process 7" in run.report.failed[str(path)]
    assert len(list(store.read(SESSION))) == 3
    store.release_leases(OTHER)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    assert store.lease_holder(SESSION) is None


def test_dry_run_predicts_results_and_changes_nothing(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    def predict_and_import() -> list[ImportResult]:
        before = everything(store)
        predicted = Run(store, tmp_path / ".claude", dry_run=True).results
        assert everything(store) == before
        assert Run(store, tmp_path / ".claude").results == predicted
        return predicted

    file.write(tmp_path)
    assert [it.outcome for it in predict_and_import()] == [MergeOutcome.NEW]
    file.turn(2)
    file.write(tmp_path)
    assert [it.outcome for it in predict_and_import()] == [MergeOutcome.EXTENDED]
    store.write([asked(SESSION, "Here")])
    file.turn(3)
    file.write(tmp_path)
    assert [it.outcome for it in predict_and_import()] == [MergeOutcome.BRANCHED]


def test_import_into_session_without_entries_is_new_as_the_dry_run_predicts(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    store.write([Opened(session_id=SESSION, at_us=NOW, cwd="/p")])
    path = file.write(tmp_path)
    predicted = Run(store, tmp_path / ".claude", dry_run=True)
    assert predicted.outcomes == [MergeOutcome.NEW]
    assert list(store.read(SESSION)) == []
    assert Run(store, tmp_path / ".claude").results == predicted.results
    assert list(store.read(SESSION)) == entries_of_file(path)


def test_unchanged_file_with_branches_is_not_read_again(store: Store, tmp_path: Path) -> None:
    forked().write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.NEW] * 3
    assert Run(store, tmp_path / ".claude").read == 0


def test_copy_of_file_is_the_same_session(store: Store, file: ClaudeFile, tmp_path: Path) -> None:
    path = file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    before = everything(store)
    copy = tmp_path / "copy" / ".claude" / "projects" / path.parent.name / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    assert Run(store, tmp_path / "copy" / ".claude").outcomes == []
    assert everything(store) == before
    # A copy that diverges does not replace the session.
    file.turn(2)
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    other = ClaudeFile()
    other.lines = file.lines[:2]
    other.number, other.last = 50, file.uuid(2)
    other.user("Elsewhere")
    copy.write_bytes(other.data())
    assert Run(store, tmp_path / "copy" / ".claude").outcomes == [MergeOutcome.BRANCHED]
    assert list(store.read(SESSION)) == entries_of_file(path)


def test_new_importer_version_replaces_entries_without_a_branch(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    source_session = read_source(path)
    importer = SessionImporter(store, HOLDER)
    for version in (1, 2):
        origin = replace(source_session.incoming.origin, version=version)  # type: ignore[type-var]
        arrived = replace(source_session.incoming, origin=origin)
        made = [replace(it, line=b'{"v":%d}' % version) for it in entries_of_file(path)]

        def tell(counts: EntryCounts, made: list[Entry] = made) -> Iterator[Entry]:
            counts.entries = counts.settled = len(made)
            return iter(made)

        importer.import_session(replace(source_session, incoming=arrived, read_entries=tell), NOW)
    ((_, _, entries),) = everything(store)
    assert {it.line for it in entries} == {b'{"v":2}'}


def test_search_finds_replacing_entries_and_not_the_replaced(
    tmp_path: Path,
) -> None:
    db = tmp_path / "s.db"
    it = ClaudeFile()
    it.turn(1)
    above = it.last
    it.user("Look for zebras")
    it.write(tmp_path)
    with SqliteStore(db) as store:
        Run(store, tmp_path / ".claude")
    assert [hit.session_id for hit in look(db, "zebras")] == [SESSION]
    it.user("Look for lions", parent=above)
    it.write(tmp_path)
    with SqliteStore(db) as store:
        Run(store, tmp_path / ".claude")
    assert [hit.session_id for hit in look(db, "lions")] == [SESSION]
    assert look(db, "zebras") == []
    (hit,) = look(db, "zebras", with_archived=True)
    assert hit.session_id != SESSION
