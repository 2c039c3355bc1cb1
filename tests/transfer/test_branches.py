"""Branches that a tool has abandoned in its own file."""

from pathlib import Path

from claude_files import SESSION, ClaudeFile, said
from recorded_sessions import asked
from rekindle.model import (
    LeaseHolder,
)
from rekindle.store.base import Store
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, entries_of_file, everything

OTHER = LeaseHolder(token="other", pid=7, machine="there")  # noqa: S106 - no password


def two_branches() -> tuple[ClaudeFile, str]:
    """Return a session with two branches, and the record at which they diverge."""
    it = ClaudeFile()
    it.turn(1)
    above = str(it.last)
    it.user("This way")
    it.agent("msg_a", said("Going this way"), "end_turn")
    it.last = above
    it.user("That way")
    it.agent("msg_b", said("Going that way"), "end_turn")
    return it, above


def last_messages(store: Store) -> dict[str, str]:
    """Return the last message of each session, by id."""
    return {it.id: str(entries[-2].line) for it, _, entries in everything(store)}


def test_abandoned_branch_keeps_its_id_while_others_are_added(store: Store, tmp_path: Path) -> None:
    it, above = two_branches()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    before = last_messages(store)
    for number in range(3):
        it.last = above
        it.user(f"Way {number}")
        it.agent(f"msg_{number}", said(f"Going way {number}"), "end_turn")
        it.write(tmp_path)
        Run(store, tmp_path / ".claude")
        assert len(everything(store)) == 3 + number
        now = last_messages(store)
        assert all(now[name] == said for name, said in before.items() if name != SESSION)
        assert f"Going way {number}" in now[SESSION]
        before = now


def test_branch_that_grew_before_it_was_abandoned_is_found_again(
    store: Store, tmp_path: Path
) -> None:
    it, above = two_branches()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    # Between two imports, the branch grows and is abandoned.
    it.turn(2)
    it.last = above
    it.user("Yet another way")
    it.agent("msg_c", said("Going yet another way"), "end_turn")
    path = it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert len(everything(store)) == 3
    assert any("Answer 2" in said for said in last_messages(store).values())
    path.touch()
    assert Run(store, tmp_path / ".claude").outcomes == []
    assert len(everything(store)) == 3


def test_late_record_of_abandoned_branch_extends_it(store: Store, tmp_path: Path) -> None:
    it, above = two_branches()
    left = it.last
    it.user("Another way", parent=above)
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    queued = {"type": "queued_command", "prompt": "Late"}
    it.add("attachment", parent=left, attachment=queued)
    it.write(tmp_path)
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    late = [it.id for it, _, entries in everything(store) if "Late" in str(entries[-1].line)]
    assert [name.partition("~")[0] for name in late] == [SESSION]
    assert late != [SESSION]


def test_tool_that_returns_to_a_branch_makes_it_the_session(store: Store, tmp_path: Path) -> None:
    it, _ = two_branches()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    it.last = it.uuid(4)
    it.turn(2)
    path = it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert list(store.read(SESSION)) == entries_of_file(path)
    assert any("Going that way" in said for said in last_messages(store).values())
    path.touch()
    assert Run(store, tmp_path / ".claude").outcomes == []


def test_branch_continued_here_is_not_changed(store: Store, tmp_path: Path) -> None:
    it, above = two_branches()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    (aside,) = [it.id for it, _, _ in everything(store) if it.id != SESSION]
    store.write([asked(aside, "Here")])
    before = list(store.read(aside))
    it.last = above
    it.user("Yet another way")
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert list(store.read(aside)) == before
    assert len(everything(store)) == 3
