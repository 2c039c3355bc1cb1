"""The memory of one session, and its file on disk."""

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rekindle.example_agent.rpc import Json, decode, encode
from rekindle.example_agent.updates import number_chunk, user_message

_FINAL = ("completed", "failed", "cancelled")


class Conversation:
    """The memory of one session. Any thread may use it.

    The history consists of updates in the form of the module `updates`, with two exceptions. A
    prompt is `{"prompt": blocks, "messageId"}`. A count, which may have ten million chunks, is
    `{"count": last number, "messageId"}`.
    """

    def __init__(self, session_id: str, cwd: str) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.title: str | None = None
        self.mode = "ask"
        self.updated_at = _now()
        self.is_archived = False
        self.is_titled_by_user = False
        self.system_prompt: Json | None = None
        self._last_id = 0
        self._history: list[Json] = []
        self._lock = threading.Lock()

    def new_id(self, noun: str) -> str:
        """Return an id that is unique among messages and tool calls of all sessions."""
        with self._lock:
            self._last_id += 1
            return f"{self.session_id}/{noun}-{self._last_id}"

    def touch(self) -> None:
        """Set the time of the last use to now."""
        self.updated_at = _now()

    # -- adding --

    def add_prompt(self, message_id: str, blocks: list[Json]) -> None:
        """Add a prompt."""
        self._append({"prompt": blocks, "messageId": message_id})

    def add_count(self, message_id: str, count: int) -> None:
        """Set the last number of a count."""
        with self._lock:
            if self._history and self._history[-1].get("messageId") == message_id:
                self._history[-1]["count"] = count
            else:
                self._history.append({"count": count, "messageId": message_id})

    def add(self, update: Json) -> None:
        """Add an update, if it belongs to the replay."""
        match update["sessionUpdate"]:
            case "agent_message_chunk" | "agent_thought_chunk" | "tool_call":
                self._append(dict(update))
            case "tool_call_update":
                self._change_call(update)
            case "plan":
                with self._lock:
                    self._history = [it for it in self._history if not _is(it, "plan")]
                self._append(update)
            case _:
                pass

    def _append(self, entry: Json) -> None:
        with self._lock:
            self._history.append(entry)

    def _change_call(self, update: Json) -> None:
        with self._lock:
            call_id = update["toolCallId"]
            call = next(it for it in reversed(self._history) if it.get("toolCallId") == call_id)
            call.update(update, sessionUpdate="tool_call")

    def rewind(self, message_id: str) -> None:
        """Remove everything after a message."""
        with self._lock:
            ids = [entry.get("messageId") for entry in self._history]
            del self._history[len(ids) - ids[::-1].index(message_id) :]

    # -- reading --

    def prompts(self) -> list[list[Json]]:
        """Return the blocks of every prompt, oldest first."""
        with self._lock:
            return [entry["prompt"] for entry in self._history if "prompt" in entry]

    def open_calls(self) -> list[str]:
        """Return the ids of the open tool calls."""
        with self._lock:
            return [entry["toolCallId"] for entry in self._history if _is_open(entry)]

    def has_message(self, message_id: str) -> bool:
        """Return whether a message has this id."""
        with self._lock:
            return any(entry.get("messageId") == message_id for entry in self._history)

    def replay(self, *, is_running: bool = False) -> Iterator[Json]:
        """Yield the updates that replay the whole conversation.

        If no turn is running, open tool calls become cancelled ones. A fork has such calls if its
        source was working.
        """
        with self._lock:
            history = list(self._history)
        for entry in history:
            match entry:
                case {"prompt": blocks, "messageId": message_id}:
                    yield user_message(message_id, blocks)
                case {"count": count, "messageId": message_id}:
                    for number in range(1, count + 1):
                        yield number_chunk(message_id, number)
                case _ if _is_open(entry) and not is_running:
                    yield {**entry, "status": "cancelled"}
                case _:
                    yield entry

    # -- saving --

    def snapshot(self) -> bytes:
        """Return the conversation as one line of JSON."""
        with self._lock:
            return encode(
                {
                    "sessionId": self.session_id,
                    "cwd": self.cwd,
                    "title": self.title,
                    "mode": self.mode,
                    "updatedAt": self.updated_at,
                    "isArchived": self.is_archived,
                    "isTitledByUser": self.is_titled_by_user,
                    "systemPrompt": self.system_prompt,
                    "lastId": self._last_id,
                    "history": self._history,
                }
            )

    @classmethod
    def from_snapshot(cls, line: bytes) -> "Conversation":
        """Return the conversation that `snapshot` wrote.

        Raises:
            ValueError: the line is not a snapshot.

        """
        snapshot = decode(line)
        try:
            conversation = cls(snapshot["sessionId"], snapshot["cwd"])
            conversation.title = snapshot["title"]
            conversation.mode = snapshot["mode"]
            conversation.updated_at = snapshot["updatedAt"]
            conversation.is_archived = snapshot.get("isArchived", False)
            conversation.is_titled_by_user = snapshot.get("isTitledByUser", False)
            conversation.system_prompt = snapshot.get("systemPrompt")
            conversation._last_id = snapshot["lastId"]
            conversation._history = snapshot["history"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a conversation: {error}") from error
        return conversation

    def fork(self, session_id: str, cwd: str) -> "Conversation":
        """Return an independent copy."""
        copy = Conversation.from_snapshot(self.snapshot())
        copy.session_id = session_id
        copy.cwd = cwd
        copy.is_archived = False
        copy.touch()
        return copy


def _is(entry: Json, kind: str) -> bool:
    return entry.get("sessionUpdate") == kind


def _is_open(entry: Json) -> bool:
    return _is(entry, "tool_call") and entry.get("status") not in _FINAL


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class ConversationFolder:
    """A folder of conversations, one file each. Without a path it keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._saving = threading.Lock()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def save(self, conversation: Conversation) -> None:
        """Write a conversation atomically."""
        if self._folder is None:
            return
        path = self._folder / _file_name(conversation.session_id)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with self._saving:
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(conversation.snapshot())
            unfinished.replace(path)

    def find(self, session_id: str) -> Conversation | None:
        """Return the conversation of a session, or None if it cannot be read."""
        if self._folder is None:
            return None
        found = _read(self._folder / _file_name(session_id))
        return found if found and found.session_id == session_id else None

    def delete(self, session_id: str) -> None:
        """Delete a conversation, if it exists."""
        if self._folder is not None:
            (self._folder / _file_name(session_id)).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Conversation]:
        """Yield all readable conversations."""
        if self._folder is None:
            return
        for path in self._folder.glob("*.json"):
            if found := _read(path):
                yield found


def _read(path: Path) -> Conversation | None:
    try:
        return Conversation.from_snapshot(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        sys.stderr.write(f"rekindle example-agent: cannot read {path}: {error}\n")
        return None


def _file_name(session_id: str) -> str:
    """Return the file name of a session: its id if that is a safe name, otherwise a hash."""
    if re.fullmatch(r"[a-z0-9-]{1,64}", session_id):
        return f"{session_id}.json"
    return f"{hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()}.json"
