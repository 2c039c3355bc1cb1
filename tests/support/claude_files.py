"""Generate files of Claude Code, with every type of record and every trap."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from rekindle.importers.claude.locations import folder_name

CWD = "/home/user/project"
SESSION = "11111111-1111-4111-8111-111111111111"
BEGIN = 1_760_000_000

Json = dict[str, Any]


class ClaudeFile:
    """A session's file. Each record follows the one before it, unless a parent is given."""

    def __init__(self, session: str = SESSION, cwd: str = CWD, **common: object) -> None:
        self.session = session
        self.lines: list[bytes] = []
        self.last: str | None = None
        self.number = 0
        self._common = {
            "sessionId": session, "cwd": cwd, "version": "2.1.139", "gitBranch": "main",
            "userType": "external", "isSidechain": False, **common,
        }  # fmt: skip

    def uuid(self, number: int) -> str:
        return str(UUID(int=(int(self.session[:8], 16) << 96) + number, version=4))

    def time(self) -> str:
        seconds = self.number % 60
        minutes, hours = self.number // 60 % 60, self.number // 3600
        return f"2025-10-{9 + hours // 24:02}T{hours % 24:02}:{minutes:02}:{seconds:02}.123Z"

    def add(self, kind: str, *, parent: str | None = "last", **fields: object) -> str:
        """Add a record to the tree; return its id."""
        self.number += 1
        uuid = self.uuid(self.number)
        above = self.last if parent == "last" else parent
        self.put({"parentUuid": above, **self._common, "type": kind, "uuid": uuid,
                  "timestamp": self.time(), **fields})  # fmt: skip
        self.last = uuid
        return uuid

    def put(self, record: Json) -> None:
        """Add any record."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def loose(self, kind: str, **fields: object) -> None:
        """Add a record that is not part of the tree."""
        self.number += 1
        self.put({"type": kind, "sessionId": self.session, "timestamp": self.time(), **fields})

    def user(self, content: object, *, parent: str | None = "last", **fields: object) -> str:
        message = {"role": "user", "content": content}
        return self.add("user", message=message, parent=parent, **fields)

    def agent(
        self, message_id: str, block: Json, stop: str | None = None, parent: str | None = "last",
        **fields: object,
    ) -> str:  # fmt: skip
        usage = {"input_tokens": 5, "cache_read_input_tokens": 60996, "output_tokens": 3}
        message = {
            "id": message_id, "type": "message", "role": "assistant", "model": "claude-opus",
            "content": [block], "stop_reason": stop, "usage": usage,
        }  # fmt: skip
        request = f"req_{message_id}"
        return self.add("assistant", message=message, requestId=request, parent=parent, **fields)

    def call(
        self, message_id: str, call_id: str, name: str, given: object, parent: str | None = "last"
    ) -> str:  # fmt: skip
        block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
        return self.agent(message_id, block, "tool_use", parent)

    def result(
        self, call_id: str, content: object, outcome: object = None, *, is_error: bool = False,
        parent: str | None = "last",
    ) -> str:  # fmt: skip
        block = {"tool_use_id": call_id, "type": "tool_result", "content": content}
        block |= {"is_error": True} if is_error else {}
        more = {} if outcome is None else {"toolUseResult": outcome}
        return self.user([block], parent=parent, **more)

    def turn(self, number: int) -> None:
        """Add a question and its answer."""
        self.user(f"Question {number}")
        self.agent(f"msg_{number}", said(f"Answer {number}"), "end_turn")

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def path(self, home: Path) -> Path:
        folder = home / ".claude" / "projects" / folder_name(str(self._common["cwd"]))
        return folder / f"{self.session}.jsonl"

    def write(self, home: Path) -> Path:
        """Write the file where Claude Code would."""
        path = self.path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data())
        return path


def said(words: str) -> Json:
    return {"type": "text", "text": words}


def thought(words: str) -> Json:
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def everything(folder: str = "/home/user/.claude/projects/x") -> ClaudeFile:
    """Return a session with every known type of record."""
    file = ClaudeFile()
    _begin(file)
    _work(file, folder)
    _go_on(file)
    return file


def _begin(file: ClaudeFile) -> None:
    file.loose("file-history-snapshot", messageId="m", snapshot={}, isSnapshotUpdate=False)
    file.loose("mode", mode="default")
    file.put({"type": "summary", "summary": "Of another session", "leafUuid": file.uuid(9999)})
    file.user("<command-name>/model</command-name>\n<command-message>model</command-message>\n"
              "<command-args>opus</command-args>")  # fmt: skip
    file.user("<local-command-stdout>Set model to \x1b[1mopus\x1b[22m</local-command-stdout>")
    file.user("Caveat: The messages below were generated", isMeta=True)
    file.user([
        said("<ide_opened_file>The user opened a.py</ide_opened_file>"),
        said("Look at the picture\u2028and fix a.py <system-reminder>be nice</system-reminder>"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ])  # fmt: skip
    file.add("attachment", attachment={"type": "todo_reminder", "content": [], "itemCount": 0})
    file.agent("msg_1", thought("It is in a.py."))
    file.agent("msg_1", {"type": "redacted_thinking", "data": "xx"})
    file.agent("msg_1", said("I look at it."))
    one = file.call("msg_1", "toolu_1", "Read", {"file_path": f"{CWD}/a.py", "limit": 20})
    two = file.call("msg_1", "toolu_2", "Grep", {"pattern": "def f", "path": "src"})
    file.add("progress", data={"type": "hook_progress"}, parentToolUseID="toolu_1", parent=one)
    file.result("toolu_2", "src/a.py:1:def f", parent=two)
    file.result(
        "toolu_1", "     1\tdef f():\n     2\t    ```\n<system-reminder>secret</system-reminder>\n",
        {"type": "text", "file": {"filePath": f"{CWD}/a.py", "content": "def f():\n    ```\n"}},
        parent=one,
    )  # fmt: skip


def _work(file: ClaudeFile, folder: str) -> None:
    todos = [
        {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},
        {"content": "Test it", "status": "pending", "activeForm": "Testing it"},
    ]
    file.call("msg_2", "toolu_3", "TodoWrite", {"todos": todos})
    file.result("toolu_3", "Todos have been modified successfully.", {"newTodos": todos})
    file.call("msg_3", "toolu_4", "Edit", {
        "file_path": f"{CWD}/a.py", "old_string": "return 1", "new_string": "return 2",
    })  # fmt: skip
    file.result(
        "toolu_4", f"The file {CWD}/a.py has been updated.",
        {
            "filePath": f"{CWD}/a.py", "oldString": "return 1", "newString": "return 2",
            "originalFile": "def f():\n    return 1\n",
            "structuredPatch": [{
                "oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2,
                "lines": [" def f():", "-    return 1", "+    return 2"],
            }],
        },
    )  # fmt: skip
    file.call("msg_4", "toolu_5", "Write", {"file_path": "/home/b.py", "content": "b = 1\n"})
    file.result("toolu_5", "File created successfully at: /home/b.py",
                {"type": "create", "filePath": "/home/b.py", "content": "b = 1\n"})  # fmt: skip
    file.call("msg_5", "toolu_6", "Bash", {"command": "make test", "description": "Run the tests"})
    file.loose("queue-operation", operation="enqueue", content="And be quick")
    file.result(
        "toolu_6", "<persisted-output>\nOutput too large. Full output saved to: "
        f"{folder}/{SESSION}/tool-results/toolu_6.txt\n\nPreview:\nok 1\n</persisted-output>",
        {"stdout": "ok 1", "stderr": "", "interrupted": False,
         "persistedOutputPath": f"{folder}/{SESSION}/tool-results/toolu_6.txt"},
    )  # fmt: skip
    file.loose("queue-operation", operation="dequeue")
    file.add("attachment", attachment={
        "type": "queued_command", "prompt": "And be quick", "commandMode": "prompt",
    })  # fmt: skip
    file.call("msg_6", "toolu_7", "Task", {
        "description": "Review it", "prompt": "Review a.py", "subagent_type": "reviewer",
    })  # fmt: skip
    file.result(
        "toolu_7", [said("Fine.\n\nagentId: ab12 (use SendMessage)")],
        {"status": "completed", "agentId": "ab12", "content": [said("Fine.")]},
    )  # fmt: skip
    file.call("msg_7", "toolu_8", "Bash", {"command": "false"})
    file.result("toolu_8", "Exit code 1", "Error: Exit code 1", is_error=True)
    file.agent("msg_8", {"type": "server_tool_use", "id": "srv_1", "name": "web_search",
                       "input": {"query": "acp"}})  # fmt: skip
    file.agent("msg_8", {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [
        {"type": "web_search_result", "title": "ACP", "url": "https://example.org"}]})  # fmt: skip
    file.agent("msg_8", said("It is do"))
    file.agent("msg_8", said("It is done."), "end_turn")


def _go_on(file: ClaudeFile) -> None:
    file.add("system", subtype="turn_duration", durationMs=1234)
    boundary = file.last
    file.add("system", subtype="compact_boundary", content="Conversation compacted", parent=None,
             logicalParentUuid=boundary, compactMetadata={"trigger": "auto"})  # fmt: skip
    file.user(
        "This session is being continued from a previous conversation. Summary: a.py is fixed.",
        isCompactSummary=True, isVisibleInTranscriptOnly=True,
    )  # fmt: skip
    file.user("Now delete it")
    file.call("msg_9", "toolu_9", "mcp__files__remove", {"path": "a.py"})
    file.result("toolu_9", "The user doesn't want to proceed with this tool use.", is_error=True)
    file.user([said("[Request interrupted by user for tool use]")])
    file.user("<bash-input>ls</bash-input>")
    file.user("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>")
    file.user("<task-notification>\n<task-id>x</task-id>\n</task-notification>")
    file.user("Good")
    file.agent("msg_10", said("Bye."), None)
    file.put({"type": "ai-title", "aiTitle": "Fix a.py", "sessionId": SESSION})
    file.put({"type": "custom-title", "customTitle": "My own", "sessionId": SESSION})
    file.put({"type": "pr-link", "prNumber": 1})
    file.put({"type": "from-the-future", "x": 1})


def forked() -> ClaudeFile:
    """Return a session with a branch in the middle, and a turn that was tried again."""
    file = ClaudeFile()
    file.turn(1)
    above = file.last
    file.user("This way")
    file.agent("msg_a", said("Going this way"), "end_turn")
    file.user("Further this way")
    file.user("That way", parent=above)
    prompt = file.last
    file.agent("msg_b", said("Going th"))
    file.agent("msg_c", said("Going that way"), "end_turn", prompt)
    file.turn(2)
    return file
