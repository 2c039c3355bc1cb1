"""Generate files of Codex, line by line."""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CWD = "/home/user/project"
SESSION = "01990000-0000-7000-8000-000000000001"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
Json = dict[str, Any]


def thread(number: int) -> str:
    """Return the id of a session, or of a file."""
    return str(UUID(int=(UUID(SESSION).int & ~0xFFFF) + number))


def text(words: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": words}


class CodexFile:
    """A session's file, line by line. Only the newer format numbers its lines."""

    def __init__(
        self, thread_id: str = SESSION, *, mode: str = "legacy", first: int = 0, minute: int = 0,
        **meta: object,
    ) -> None:  # fmt: skip
        self.thread_id = thread_id
        self.lines: list[bytes] = []
        self.mode = mode
        self.ordinal = first
        self.second = minute * 60
        about = {
            "id": thread_id, "timestamp": self.time(), "cwd": CWD, "originator": "codex_cli_rs",
            "cli_version": "0.137.0", "source": "cli", "model_provider": "openai",
            "base_instructions": {"text": 'You are Codex. "cwd":"/nowhere"'},
            "history_mode": mode, "git": {"branch": "main"}, **meta,
        }  # fmt: skip
        self.add("session_meta", about)

    def time(self) -> str:
        minutes, seconds = divmod(self.second, 60)
        return f"2026-01-09T{10 + minutes // 60:02}:{minutes % 60:02}:{seconds:02}.123Z"

    def add(self, kind: str, payload: object) -> None:
        """Add a line."""
        self.second += 1
        line: Json = {"timestamp": self.time()}
        if self.mode == "paginated":
            line["ordinal"] = self.ordinal
            self.ordinal += 1
        self.put({**line, "type": kind, "payload": payload})

    def put(self, record: object) -> None:
        """Add any record."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def item(self, kind: str, /, **fields: object) -> None:
        """Add input or output of the model."""
        self.add("response_item", {"type": kind, **fields})

    def event(self, kind: str, /, **fields: object) -> None:
        """Add an event that the user saw."""
        self.add("event_msg", {"type": kind, **fields})

    def done(self, kind: str, name: str, /, **fields: object) -> None:
        """Add an event that the user saw, in the newer format."""
        item = {"type": kind, "id": name, **fields}
        self.event("item_completed", thread_id=self.thread_id, turn_id="t", item=item)

    def message(self, role: str, *parts: Json, **fields: object) -> None:
        self.item("message", role=role, content=list(parts), **fields)

    def context(self) -> None:
        """Add the context that Codex sends before the first prompt."""
        self.message("developer", text("<permissions instructions>x</permissions instructions>"))
        agents = f"# AGENTS.md instructions for {CWD}\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"
        self.message("user", text(agents))
        where = f"<environment_context>\n  <cwd>{CWD}</cwd>\n</environment_context>"
        self.message("user", text(where))
        self.add("turn_context", {"cwd": CWD, "model": "m"})

    def ask(self, words: str, **fields: object) -> None:
        """Add a prompt, in all records that Codex writes for it."""
        self.message("user", text(words))
        if self.mode == "legacy":
            told = {"message": words, "images": [], "local_images": [], "text_elements": []}
            self.event("user_message", **{**told, **fields})
        else:
            self.done("UserMessage", f"user-{self.ordinal}", content=[text(words, "text")])

    def answer(self, words: str, name: str = "msg_1") -> None:
        if self.mode == "legacy":
            self.event("agent_message", message=words, phase=None)
        else:
            self.done("AgentMessage", name, content=[text(words, "Text")])
        self.message("assistant", text(words, "output_text"), id=name)

    def begin(self, number: int) -> None:
        self.event("task_started", turn_id=f"turn-{number}", model_context_window=1)

    def end(self, number: int, **fields: object) -> None:
        self.event("token_count", info=None)
        self.event("task_complete", turn_id=f"turn-{number}", last_agent_message="x", **fields)

    def turn(self, number: int) -> None:
        """Add a question and its answer."""
        self.begin(number)
        self.ask(f"Question {number}")
        self.answer(f"Answer {number}", f"msg_{number}")
        self.end(number)

    def call(self, call_id: str, name: str, given: object, **fields: object) -> None:
        arguments = given if isinstance(given, str) else json.dumps(given)
        self.item("function_call", name=name, arguments=arguments, call_id=call_id, **fields)

    def output(self, call_id: str, output: object, kind: str = "function_call_output") -> None:
        self.item(kind, call_id=call_id, output=output)

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def name(self, rollout: str | None = None, minute: int = 0) -> str:
        suffix = f"_{rollout}" if rollout else ""
        return f"rollout-2026-01-09T10-{minute:02}-00-{self.thread_id}{suffix}.jsonl"

    def write(
        self, home: Path, *, rollout: str | None = None, minute: int = 0, is_archived: bool = False,
        is_compressed: bool = False,
    ) -> Path:  # fmt: skip
        """Write the file where Codex would."""
        folder = "archived_sessions" if is_archived else "sessions/2026/01/09"
        path = home / ".codex" / folder / self.name(rollout, minute)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_file(path, self.data(), is_compressed=is_compressed)

    def base(self, lines: int | None = None) -> Json:
        """Return the history base of a file that inherits this one, up to a line."""
        kept = self.lines[:lines]
        size = sum(len(line) + 1 for line in kept)
        ordinal = self.ordinal - len(self.lines) + len(kept)
        return {
            "thread_id": self.thread_id, "end_ordinal_exclusive": ordinal, "end_byte_offset": size
        }  # fmt: skip


def write_file(path: Path, data: bytes, *, is_compressed: bool = False) -> Path:
    if is_compressed:
        path, data = path.with_name(f"{path.name}.zst"), zstd.compress(data)
    path.write_bytes(data)
    return path
