"""Texts, titles, plans and results in Claude Code's records."""

from pathlib import Path

import pytest

from claude_files import CWD, SESSION, ClaudeFile, said, thought
from importer_results import check_growth, entries_of, items_of, read_sessions, settled_entries
from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.session import IMPORTER
from rekindle.importers.claude.user_text import ClaudeTextKind, classify_text
from rekindle.model import TitleSource
from rekindle.transcript.model import PlanItem, TranscriptMessage
from rekindle.transcript.reducer import fold


def items_in(file: ClaudeFile, home: Path) -> list[object]:
    return items_of(read_sessions(IMPORTER, file.write(home))[0])


@pytest.mark.parametrize(
    ("text", "kind", "own"),
    [
        ("Hello", ClaudeTextKind.PROMPT, "Hello"),
        (" <system-reminder>a</system-reminder>\n Hello ", ClaudeTextKind.PROMPT, "Hello"),
        ("Hello\n<system-reminder>a</system-reminder>", ClaudeTextKind.PROMPT, "Hello"),
        ("What is <system-reminder>?", ClaudeTextKind.PROMPT, "What is <system-reminder>?"),
        ("<system-reminder>a</system-reminder>", ClaudeTextKind.CONTEXT, ""),
        ("<ide_selection>x</ide_selection>\nFix it", ClaudeTextKind.PROMPT, "Fix it"),
        ("<b>bold</b>", ClaudeTextKind.PROMPT, "<b>bold</b>"),
        ("<command-name>/review</command-name><command-args>12</command-args>",
         ClaudeTextKind.COMMAND, "/review 12"),
        ("<command-message>init</command-message>", ClaudeTextKind.COMMAND, "/init"),
        ("<command-args>12</command-args>", ClaudeTextKind.CONTEXT, ""),
        ("<bash-input>ls -l</bash-input>", ClaudeTextKind.COMMAND, "! ls -l"),
        ("<local-command-stdout></local-command-stdout>", ClaudeTextKind.OUTPUT, ""),
        ("<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>", ClaudeTextKind.OUTPUT, "a\nb"),
        ("[Request interrupted by user]", ClaudeTextKind.INTERRUPTED, ""),
        ("[Request interrupted by user for tool use]", ClaudeTextKind.INTERRUPTED, ""),
        ("[Request interrupted by user] why?", ClaudeTextKind.PROMPT,
         "[Request interrupted by user] why?"),
        ("<task-notification>x</task-notification>", ClaudeTextKind.CONTEXT, ""),
        ("", ClaudeTextKind.CONTEXT, ""),
    ],
)  # fmt: skip
def test_text_is_classified(text: str, kind: ClaudeTextKind, own: str) -> None:
    assert (classify_text(text).kind, classify_text(text).text) == (kind, own)


def test_messages_sent_by_programs_are_left_out(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    file.user("A machine speaks", origin={"kind": "task-notification"})
    file.user("I speak", origin={"kind": "human"})
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "I speak"]


def test_text_after_a_call_stays_after_it(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Do it")
    file.agent("msg_1", thought("Hm"))
    file.agent("msg_1", said("First"))
    file.agent("msg_1", said(" this"))
    file.call("msg_1", "toolu_1", "Bash", {"command": "one"})
    file.agent("msg_1", thought("Hm, hm"))
    file.agent("msg_1", said("Then"))
    file.agent("msg_1", said("Then that"))
    file.call("msg_1", "toolu_2", "Bash", {"command": "two"})
    texts = [item if isinstance(item, str) else "call" for item in items_in(file, tmp_path)]
    assert texts == ["Do it", "Hm", "First this", "call", "Hm, hm", "Then that", "call"]
    check_growth(IMPORTER, file.path(tmp_path), file.lines)


def local_command(file: ClaudeFile, name: str, printed: str) -> None:
    """Add a command as newer versions do: in system records, not as a user message."""
    about = {"subtype": "local_command", "level": "info", "isMeta": False}
    file.add("system", content=f"<command-name>/{name}</command-name>", **about)
    file.add("system", content=f"<local-command-stdout>{printed}</local-command-stdout>", **about)


def test_command_in_a_system_record_is_a_prompt(tmp_path: Path) -> None:
    file = ClaudeFile()
    local_command(file, "model", "Set model")
    file.turn(1)
    local_command(file, "context", "34%")
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    texts = ["/model", "Set model", "Question 1", "Answer 1", "/context", "34%"]
    assert items_of(source) == texts
    assert source.incoming.titles == {TitleSource.PROMPT: "Question 1"}
    assert [turn.stop_reason for turn in fold(entries_of(source)).turns] == ["end_turn"] * 3
    check_growth(IMPORTER, file.path(tmp_path), file.lines)


def test_command_during_a_turn_starts_no_turn(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Do it")
    file.call("msg_1", "toolu_1", "Bash", {"command": "make"})
    local_command(file, "context", "34%")
    file.result("toolu_1", "made")
    file.agent("msg_2", said("Done"), "end_turn")
    (turn,) = fold(entries_of(read_sessions(IMPORTER, file.write(tmp_path))[0])).turns
    assert [item.text for item in turn.items if isinstance(item, TranscriptMessage)] == [
        "Do it", "/context", "34%", "Done"
    ]  # fmt: skip
    assert turn.stop_reason == "end_turn"


def test_queued_prompt_is_provisional(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    file.loose("queue-operation", operation="enqueue", content="Wait")
    file.loose("queue-operation", operation="enqueue", content="<task-notification>x")
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Wait"]
    assert len(settled_entries(source)) == 2
    file.loose("queue-operation", operation="remove")
    file.loose("queue-operation", operation="enqueue", content="Not yet")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Wait", "Not yet"]
    file.loose("queue-operation", operation="remove")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Wait"]
    file.loose("queue-operation", operation="popAll")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1"]
    file.loose("queue-operation", operation="enqueue", content="Wait")
    file.user("Wait")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Wait"]


def test_title_sources_are_ranked(tmp_path: Path) -> None:
    def title(file: ClaudeFile) -> dict[TitleSource, str]:
        return read_sessions(IMPORTER, file.write(tmp_path))[0].incoming.titles

    file = ClaudeFile()
    file.user("<command-name>/clear</command-name>")
    assert title(file) == {TitleSource.PROMPT: "/clear"}
    file.turn(1)
    assert title(file) == {TitleSource.PROMPT: "Question 1"}
    file.put({"type": "summary", "summary": "Another's", "leafUuid": file.uuid(999)})
    assert TitleSource.AGENT not in title(file)
    for kind, name in (
        ("summary", "summary"),
        ("ai-title", "aiTitle"),
        ("custom-title", "customTitle"),
    ):
        file.put({"type": kind, name: f"By {kind}", "leafUuid": file.last})
        assert title(file)[TitleSource.AGENT] == f"By {kind}"
    file.put({"type": "ai-title", "aiTitle": "Later"})
    file.put({"type": "summary", "summary": "Later", "leafUuid": file.last})
    file.put({"type": "custom-title", "customTitle": "Last"})
    assert title(file)[TitleSource.AGENT] == "Last"
    older = ClaudeFile()
    older.turn(1)
    for summary in ("First", "Last"):
        older.put({"type": "summary", "summary": summary, "leafUuid": older.last})
    assert title(older)[TitleSource.AGENT] == "Last"


def test_session_of_a_team_mate_is_not_listed(tmp_path: Path) -> None:
    file = ClaudeFile(teamName="team")
    file.turn(1)
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert (source.incoming.cwd, source.folder, source.incoming.agent_session_id) == (None, CWD, "")


def test_session_that_joins_a_team_later_is_listed(tmp_path: Path) -> None:
    file = ClaudeFile()
    for number in range(5):
        file.turn(number)
    file.user("Build a team", teamName="team")
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert source.incoming.cwd == CWD


def test_file_with_only_a_sub_agent_is_not_listed(tmp_path: Path) -> None:
    file = ClaudeFile(isSidechain=True)
    file.turn(1)
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert (source.incoming.cwd, source.incoming.id) == (None, SESSION)


def test_file_without_messages_is_not_imported(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.put({"type": "summary", "summary": "x", "leafUuid": "y"})
    file.user("<system-reminder>only this</system-reminder>")
    assert read_sessions(IMPORTER, file.write(tmp_path)) == []


def test_repeated_or_growing_message_is_converted_once(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Go")
    file.agent("msg_1", thought("Hm"))
    file.agent("msg_1", thought("Hm, yes"))
    file.agent("msg_1", said("A \\"))
    file.agent("msg_1", said("A \\nd B"))
    file.agent("msg_1", said("A \\nd B"))
    file.agent("msg_1", said("C"))
    assert items_in(file, tmp_path) == ["Go", "Hm, yes", "A \\nd BC"]


def test_task_lists_become_plans(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Plan")
    file.call("msg_1", "toolu_1", "TaskCreate", {"subject": "One", "activeForm": "Doing one"})
    file.result("toolu_1", "Task #7 created successfully: One")
    file.call("msg_2", "toolu_2", "TaskCreate", {"subject": "Two"})
    file.result("toolu_2", [said('{"task":{"id":"8"}}')])
    file.call("msg_2", "toolu_x", "TaskCreate", {"subject": "Three"})
    file.result("toolu_x", "Task #9 created, or not", is_error=True)
    file.call("msg_3", "toolu_3", "TaskUpdate", {"taskId": "7", "status": "in_progress"})
    file.result("toolu_3", "ok")
    file.call("msg_4", "toolu_4", "TaskUpdate", {"taskId": "8", "status": "deleted"})
    file.result("toolu_4", "ok")
    file.call("msg_5", "toolu_5", "TaskList", {})
    file.result("toolu_5", "x")
    _, plan = items_in(file, tmp_path)
    assert isinstance(plan, PlanItem)
    assert plan.entries == [{"content": "Doing one", "priority": "medium", "status": "in_progress"}]


def test_synthetic_and_hidden_records_are_left_out(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    file.user("Be nice", isMeta=True)
    file.user("Only shown", isVisibleInTranscriptOnly=True)
    file.add(
        "assistant",
        message={
            "id": "msg_s",
            "model": "<synthetic>",
            "content": [said("No response requested.")],
        },
    )
    file.agent("msg_2", thought(""))
    file.agent("msg_2", said(""))
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1"]


def test_unanswered_turn_counts_as_interrupted(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("One")
    file.call("msg_1", "toolu_1", "Bash", {"command": "ls"})
    file.user("Two")
    file.agent("msg_2", said("Half an answ"), "max_tokens")
    file.user("Three")
    file.agent("msg_3", said("I will not"), "refusal")
    turns = fold(entries_of(read_sessions(IMPORTER, file.write(tmp_path))[0])).turns
    assert [turn.stop_reason for turn in turns] == [None, "max_tokens", "refusal"]
    assert turns[0].was_cut_off


def test_input_during_a_turn_keeps_its_position(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Do it")
    file.call("msg_1", "toolu_1", "Bash", {"command": "ls"})
    for prompt in ("Quick", [said("Please"), said("<task-notification>x")], "<task-notification>"):
        file.add("attachment", attachment={"type": "queued_command", "prompt": prompt})
    file.result("toolu_1", "a")
    file.agent("msg_2", said("Done"), "end_turn")
    file.add("attachment", attachment={"type": "queued_command", "prompt": "Thanks"})
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    turns = fold(entries_of(source)).turns
    texts = [
        [item.text for item in turn.items if isinstance(item, TranscriptMessage)] for turn in turns
    ]
    assert texts == [["Do it", "Quick", "Please", "Done"], ["Thanks"]]


def test_documents_and_images_are_shown_or_named(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user([
        {"type": "document", "title": "Manual", "source": {"media_type": "application/pdf"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "hologram"},
        said("See these"),
    ])  # fmt: skip
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, file.write(tmp_path), notes)
    (text,) = items_of(source)
    assert text == "[document: Manual][image: https://example.org/a.png]See these"
    assert notes.skipped == {"a prompt has a part of unknown type: hologram": 1}


def test_results_look_like_those_of_claude_agent_acp(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Look")
    results = {
        "Read": "1\tthe note\n2\t",
        "Bash": "a\n",
        "Grep": "a.py:1:x",
        "WebFetch": [said("A page"), {"type": "image", "source": {"data": "aGk="}}],
    }
    for number, (name, result) in enumerate(results.items()):
        file.call(f"msg_{number}", f"toolu_{number}", name, {})
        file.result(f"toolu_{number}", result)
    _, *calls = items_in(file, tmp_path)
    shown = [[part["content"].get("text") for part in call.fields["content"]] for call in calls]
    assert shown == [
        ["```\n1\tthe note\n```"], ["```console\na\n```"], ["a.py:1:x"], ["A page", None],
    ]  # fmt: skip


def test_each_edit_becomes_a_diff(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Edit")
    edits = [{"old_string": f"old {number}", "new_string": f"new {number}"} for number in "12"]
    file.call("msg_1", "toolu_1", "MultiEdit", {"file_path": "/a", "edits": edits})
    file.result("toolu_1", [said("No such text")], is_error=True)
    _, call = items_in(file, tmp_path)
    assert call.fields["status"] == "failed"
    file.lines.pop()
    _, call = items_in(file, tmp_path)
    assert [part["newText"] for part in call.fields["content"]] == ["new 1", "new 2"]


def test_structured_result_of_several_calls_is_ignored(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Write")
    blocks: list[object] = []
    for name in ("a", "b"):
        file.call("msg_1", name, "Write", {"file_path": f"/{name}", "content": name})
        blocks.append({"type": "tool_result", "tool_use_id": name, "content": "ok"})
    patch = [{"newStart": 1, "lines": ["+a"]}]
    file.user(blocks, toolUseResult={"filePath": "/a", "structuredPatch": patch})
    _, *calls = items_in(file, tmp_path)
    assert [call.fields["content"][0]["path"] for call in calls] == ["/a", "/b"]


def test_long_output_is_read_from_its_own_file(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Run")
    folder = file.path(tmp_path).with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    for name, text in (("a", f"Full output saved to: {folder}/a.txt\nPreview"), ("b", "Preview")):
        (folder / f"{name}.txt").write_text(f"All of {name}")
        file.call("msg_1", name, "Grep", {})
        structured = {"persistedOutputPath": f"/elsewhere/{name}.txt"}
        file.result(name, f"<persisted-output>\n{text}\n</persisted-output>", structured)
    _, *calls = items_in(file, tmp_path)
    texts = [call.fields["content"][0]["content"]["text"] for call in calls]
    assert texts == ["All of a", "All of b"]


def test_forked_session_has_its_origin_as_parent(tmp_path: Path) -> None:
    file = ClaudeFile(forkedFrom={"sessionId": "22222222-1111-4111-8111-111111111111"})
    file.turn(1)
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert source.incoming.parent_id == "22222222-1111-4111-8111-111111111111"
    assert source.incoming.cwd == CWD
