"""What of Claude Code's records is the user's, the agent's, or nobody's: words, titles, plans."""

from pathlib import Path

import pytest

from claude_files import CWD, SESSION, ClaudeFile, said, thought
from importer_results import check_growth, entries_of, settled_of, talks_of, told
from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.session import IMPORTER
from rekindle.importers.claude.user_text import ClaudeTextKind, classify_text
from rekindle.model import TitleSource
from rekindle.transcript.model import PlanItem, TranscriptMessage
from rekindle.transcript.reducer import fold


def told_of(it: ClaudeFile, home: Path) -> list[object]:
    return told(talks_of(IMPORTER, it.write(home))[0])


@pytest.mark.parametrize(
    ("words", "what", "heard"),
    [
        ("Hello", ClaudeTextKind.PROMPT, "Hello"),
        (" <system-reminder>a</system-reminder>\n Hello ", ClaudeTextKind.PROMPT, "Hello"),
        ("Hello\n<system-reminder>a</system-reminder>", ClaudeTextKind.PROMPT, "Hello"),
        ("What is <system-reminder>?", ClaudeTextKind.PROMPT, "What is <system-reminder>?"),
        ("<system-reminder>a</system-reminder>", ClaudeTextKind.CONTEXT, ""),
        ("<ide_selection>x</ide_selection>\nFix it", ClaudeTextKind.PROMPT, "Fix it"),
        ("<b>bold</b>", ClaudeTextKind.PROMPT, "<b>bold</b>"),
        ("<command-name>/review</command-name><command-args>12</command-args>", ClaudeTextKind.COMMAND,
         "/review 12"),
        ("<command-message>init</command-message>", ClaudeTextKind.COMMAND, "/init"),
        ("<command-args>12</command-args>", ClaudeTextKind.CONTEXT, ""),
        ("<bash-input>ls -l</bash-input>", ClaudeTextKind.COMMAND, "! ls -l"),
        ("<local-command-stdout></local-command-stdout>", ClaudeTextKind.OUTPUT, ""),
        ("<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>", ClaudeTextKind.OUTPUT, "a\nb"),
        ("[Request interrupted by user]", ClaudeTextKind.INTERRUPTED, ""),
        ("[Request interrupted by user for tool use]", ClaudeTextKind.INTERRUPTED, ""),
        ("[Request interrupted by user] why?", ClaudeTextKind.PROMPT, "[Request interrupted by user] why?"),
        ("<task-notification>x</task-notification>", ClaudeTextKind.CONTEXT, ""),
        ("", ClaudeTextKind.CONTEXT, ""),
    ],
)  # fmt: skip
def test_what_is_the_users_own(words: str, what: ClaudeTextKind, heard: str) -> None:
    assert (classify_text(words).kind, classify_text(words).text) == (what, heard)


def test_what_others_said_in_the_users_name_is_not_told(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    it.user("A machine speaks", origin={"kind": "task-notification"})
    it.user("I speak", origin={"kind": "human"})
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "I speak"]


def test_what_is_said_after_a_call_stands_after_it_though_it_is_one_message(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Do it")
    it.agent("msg_1", thought("Hm"))
    it.agent("msg_1", said("First"))
    it.agent("msg_1", said(" this"))
    it.call("msg_1", "toolu_1", "Bash", {"command": "one"})
    it.agent("msg_1", thought("Hm, hm"))
    it.agent("msg_1", said("Then"))
    it.agent("msg_1", said("Then that"))
    it.call("msg_1", "toolu_2", "Bash", {"command": "two"})
    words = [item if isinstance(item, str) else "call" for item in told_of(it, tmp_path)]
    assert words == ["Do it", "Hm", "First this", "call", "Hm, hm", "Then that", "call"]
    check_growth(IMPORTER, it.path(tmp_path), it.lines)


def local_command(it: ClaudeFile, name: str, printed: str) -> None:
    """Write a command as newer versions do: not in the user's name, but as one of the system's."""
    about = {"subtype": "local_command", "level": "info", "isMeta": False}
    it.add("system", content=f"<command-name>/{name}</command-name>", **about)
    it.add("system", content=f"<local-command-stdout>{printed}</local-command-stdout>", **about)


def test_a_command_is_told_as_it_was_typed_also_where_the_system_says_it(tmp_path: Path) -> None:
    it = ClaudeFile()
    local_command(it, "model", "Set model")
    it.turn(1)
    local_command(it, "context", "34%")
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    words = ["/model", "Set model", "Question 1", "Answer 1", "/context", "34%"]
    assert told(talk) == words
    assert talk.incoming.titles == {TitleSource.PROMPT: "Question 1"}
    assert [turn.stop_reason for turn in fold(entries_of(talk)).turns] == ["end_turn"] * 3
    check_growth(IMPORTER, it.path(tmp_path), it.lines)


def test_a_command_that_is_typed_while_the_agent_works_is_no_turn(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Do it")
    it.call("msg_1", "toolu_1", "Bash", {"command": "make"})
    local_command(it, "context", "34%")
    it.result("toolu_1", "made")
    it.agent("msg_2", said("Done"), "end_turn")
    (turn,) = fold(entries_of(talks_of(IMPORTER, it.write(tmp_path))[0])).turns
    assert [item.text for item in turn.items if isinstance(item, TranscriptMessage)] == [
        "Do it", "/context", "34%", "Done"
    ]  # fmt: skip
    assert turn.stop_reason == "end_turn"


def test_a_prompt_that_never_reached_the_agent_is_told_for_the_time_being(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    it.loose("queue-operation", operation="enqueue", content="Wait")
    it.loose("queue-operation", operation="enqueue", content="<task-notification>x")
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Wait"]
    assert len(settled_of(talk)) == 2
    it.loose("queue-operation", operation="remove")
    it.loose("queue-operation", operation="enqueue", content="Not yet")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Wait", "Not yet"]
    it.loose("queue-operation", operation="remove")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Wait"]
    it.loose("queue-operation", operation="popAll")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1"]
    it.loose("queue-operation", operation="enqueue", content="Wait")
    it.user("Wait")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Wait"]


def test_titles_by_their_rank(tmp_path: Path) -> None:
    def title(it: ClaudeFile) -> dict[TitleSource, str]:
        return talks_of(IMPORTER, it.write(tmp_path))[0].incoming.titles

    it = ClaudeFile()
    it.user("<command-name>/clear</command-name>")
    assert title(it) == {TitleSource.PROMPT: "/clear"}
    it.turn(1)
    assert title(it) == {TitleSource.PROMPT: "Question 1"}
    it.put({"type": "summary", "summary": "Another's", "leafUuid": it.uuid(999)})
    assert TitleSource.AGENT not in title(it)
    for kind, name in (
        ("summary", "summary"),
        ("ai-title", "aiTitle"),
        ("custom-title", "customTitle"),
    ):
        it.put({"type": kind, name: f"By {kind}", "leafUuid": it.last})
        assert title(it)[TitleSource.AGENT] == f"By {kind}"
    it.put({"type": "ai-title", "aiTitle": "Later"})
    it.put({"type": "summary", "summary": "Later", "leafUuid": it.last})
    it.put({"type": "custom-title", "customTitle": "Last"})
    assert title(it)[TitleSource.AGENT] == "Last"
    older = ClaudeFile()
    older.turn(1)
    for words in ("First", "Last"):
        older.put({"type": "summary", "summary": words, "leafUuid": older.last})
    assert title(older)[TitleSource.AGENT] == "Last"


def test_a_team_mates_session_is_not_listed(tmp_path: Path) -> None:
    it = ClaudeFile(teamName="team")
    it.turn(1)
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert (talk.incoming.cwd, talk.folder, talk.incoming.agent_session_id) == (None, CWD, "")


def test_a_session_that_has_a_team_only_later_is_listed(tmp_path: Path) -> None:
    it = ClaudeFile()
    for number in range(5):
        it.turn(number)
    it.user("Build a team", teamName="team")
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert talk.incoming.cwd == CWD


def test_a_file_of_a_sub_agent_alone_is_not_listed(tmp_path: Path) -> None:
    it = ClaudeFile(isSidechain=True)
    it.turn(1)
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert (talk.incoming.cwd, talk.incoming.id) == (None, SESSION)


def test_a_file_without_words_is_no_session(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.put({"type": "summary", "summary": "x", "leafUuid": "y"})
    it.user("<system-reminder>only this</system-reminder>")
    assert talks_of(IMPORTER, it.write(tmp_path)) == []


def test_a_message_that_is_repeated_or_grows_is_told_once(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Go")
    it.agent("msg_1", thought("Hm"))
    it.agent("msg_1", thought("Hm, yes"))
    it.agent("msg_1", said("A \\"))
    it.agent("msg_1", said("A \\nd B"))
    it.agent("msg_1", said("A \\nd B"))
    it.agent("msg_1", said("C"))
    assert told_of(it, tmp_path) == ["Go", "Hm, yes", "A \\nd BC"]


def test_lists_of_things_to_do_are_plans(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Plan")
    it.call("msg_1", "toolu_1", "TaskCreate", {"subject": "One", "activeForm": "Doing one"})
    it.result("toolu_1", "Task #7 created successfully: One")
    it.call("msg_2", "toolu_2", "TaskCreate", {"subject": "Two"})
    it.result("toolu_2", [said('{"task":{"id":"8"}}')])
    it.call("msg_2", "toolu_x", "TaskCreate", {"subject": "Three"})
    it.result("toolu_x", "Task #9 created, or not", is_error=True)
    it.call("msg_3", "toolu_3", "TaskUpdate", {"taskId": "7", "status": "in_progress"})
    it.result("toolu_3", "ok")
    it.call("msg_4", "toolu_4", "TaskUpdate", {"taskId": "8", "status": "deleted"})
    it.result("toolu_4", "ok")
    it.call("msg_5", "toolu_5", "TaskList", {})
    it.result("toolu_5", "x")
    _, plan = told_of(it, tmp_path)
    assert isinstance(plan, PlanItem)
    assert plan.entries == [{"content": "Doing one", "priority": "medium", "status": "in_progress"}]


def test_what_nobody_has_said_is_not_told(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    it.user("Be nice", isMeta=True)
    it.user("Only shown", isVisibleInTranscriptOnly=True)
    it.add(
        "assistant",
        message={
            "id": "msg_s",
            "model": "<synthetic>",
            "content": [said("No response requested.")],
        },
    )
    it.agent("msg_2", thought(""))
    it.agent("msg_2", said(""))
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1"]


def test_a_turn_that_nobody_answered_was_cut_off(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("One")
    it.call("msg_1", "toolu_1", "Bash", {"command": "ls"})
    it.user("Two")
    it.agent("msg_2", said("Half an answ"), "max_tokens")
    it.user("Three")
    it.agent("msg_3", said("I will not"), "refusal")
    turns = fold(entries_of(talks_of(IMPORTER, it.write(tmp_path))[0])).turns
    assert [turn.stop_reason for turn in turns] == [None, "max_tokens", "refusal"]
    assert turns[0].was_cut_off


def test_what_was_typed_while_the_agent_worked_stands_where_it_came(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Do it")
    it.call("msg_1", "toolu_1", "Bash", {"command": "ls"})
    for prompt in ("Quick", [said("Please"), said("<task-notification>x")], "<task-notification>"):
        it.add("attachment", attachment={"type": "queued_command", "prompt": prompt})
    it.result("toolu_1", "a")
    it.agent("msg_2", said("Done"), "end_turn")
    it.add("attachment", attachment={"type": "queued_command", "prompt": "Thanks"})
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    turns = fold(entries_of(talk)).turns
    texts = [[it.text for it in turn.items if isinstance(it, TranscriptMessage)] for turn in turns]
    assert texts == [["Do it", "Quick", "Please", "Done"], ["Thanks"]]


def test_documents_and_pictures_are_shown_or_named(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user([
        {"type": "document", "title": "Manual", "source": {"media_type": "application/pdf"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "hologram"},
        said("See these"),
    ])  # fmt: skip
    notes = ImportNotes()
    (talk,) = talks_of(IMPORTER, it.write(tmp_path), notes)
    (words,) = told(talk)
    assert words == "[document: Manual][image: https://example.org/a.png]See these"
    assert notes.skipped == {"a prompt has a part of unknown type: hologram": 1}


def test_results_are_shown_as_the_tools_own_agent_shows_them(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Look")
    results = {
        "Read": "1\tthe note\n2\t",
        "Bash": "a\n",
        "Grep": "a.py:1:x",
        "WebFetch": [said("A page"), {"type": "image", "source": {"data": "aGk="}}],
    }
    for number, (name, result) in enumerate(results.items()):
        it.call(f"msg_{number}", f"toolu_{number}", name, {})
        it.result(f"toolu_{number}", result)
    _, *calls = told_of(it, tmp_path)
    shown = [[part["content"].get("text") for part in it.fields["content"]] for it in calls]
    assert shown == [
        ["```\n1\tthe note\n```"], ["```console\na\n```"], ["a.py:1:x"], ["A page", None],
    ]  # fmt: skip


def test_each_of_several_edits_is_a_change(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Edit")
    edits = [{"old_string": f"old {number}", "new_string": f"new {number}"} for number in "12"]
    it.call("msg_1", "toolu_1", "MultiEdit", {"file_path": "/a", "edits": edits})
    it.result("toolu_1", [said("No such text")], is_error=True)
    _, call = told_of(it, tmp_path)
    assert call.fields["status"] == "failed"
    it.lines.pop()
    _, call = told_of(it, tmp_path)
    assert [part["newText"] for part in call.fields["content"]] == ["new 1", "new 2"]


def test_what_one_call_has_brought_is_not_taken_for_that_of_another(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Write")
    blocks: list[object] = []
    for name in ("a", "b"):
        it.call("msg_1", name, "Write", {"file_path": f"/{name}", "content": name})
        blocks.append({"type": "tool_result", "tool_use_id": name, "content": "ok"})
    patch = [{"newStart": 1, "lines": ["+a"]}]
    it.user(blocks, toolUseResult={"filePath": "/a", "structuredPatch": patch})
    _, *calls = told_of(it, tmp_path)
    assert [call.fields["content"][0]["path"] for call in calls] == ["/a", "/b"]


def test_a_long_output_is_found_by_its_name_or_by_what_the_record_says(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Run")
    folder = it.path(tmp_path).with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    for name, words in (("a", f"Full output saved to: {folder}/a.txt\nPreview"), ("b", "Preview")):
        (folder / f"{name}.txt").write_text(f"All of {name}")
        it.call("msg_1", name, "Grep", {})
        told_where = {"persistedOutputPath": f"/elsewhere/{name}.txt"}
        it.result(name, f"<persisted-output>\n{words}\n</persisted-output>", told_where)
    _, *calls = told_of(it, tmp_path)
    texts = [call.fields["content"][0]["content"]["text"] for call in calls]
    assert texts == ["All of a", "All of b"]


def test_a_copy_of_a_session_belongs_to_that(tmp_path: Path) -> None:
    it = ClaudeFile(forkedFrom={"sessionId": "22222222-1111-4111-8111-111111111111"})
    it.turn(1)
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert talk.incoming.parent_id == "22222222-1111-4111-8111-111111111111"
    assert talk.incoming.cwd == CWD
