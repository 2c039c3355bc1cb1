"""What the agent remembers of one session, and how it tells it again."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

from rekindle.example_agent.dialect import number_chunk, user_message
from rekindle.example_agent.rpc import Json, decode, encode

_FINAL = ("completed", "failed", "cancelled")


class Conversation:
    """A session's memory. Any thread may use it.

    The history holds updates as `dialect` has them, with two exceptions: a prompt is kept as
    `{"prompt": blocks, "messageId"}`, and a count, which may be ten million chunks long, as
    `{"count": how far, "messageId"}`.
    """

    def __init__(self, session_id: str, cwd: str) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.title: str | None = None
        self.mode = "ask"
        self.updated_at = _now()
        self._last_id = 0
        self._history: list[Json] = []
        self._lock = threading.Lock()

    def new_id(self, noun: str) -> str:
        """Return an id that no other message or tool call has, in any session."""
        with self._lock:
            self._last_id += 1
            return f"{self.session_id}/{noun}-{self._last_id}"

    def touch(self) -> None:
        """Note that the session was used now."""
        self.updated_at = _now()

    # Remembering.

    def add_prompt(self, message_id: str, blocks: list[Json]) -> None:
        """Remember a prompt."""
        self._append({"prompt": blocks, "messageId": message_id})

    def add_count(self, message_id: str, count: int) -> None:
        """Remember how far a count has come."""
        with self._lock:
            if self._history and self._history[-1].get("messageId") == message_id:
                self._history[-1]["count"] = count
            else:
                self._history.append({"count": count, "messageId": message_id})

    def add(self, update: Json) -> None:
        """Remember an update, if it is of a kind that a replay tells."""
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

    # Telling.

    def prompts(self) -> list[list[Json]]:
        """Return the blocks of every prompt, oldest first."""
        with self._lock:
            return [entry["prompt"] for entry in self._history if "prompt" in entry]

    def open_calls(self) -> list[str]:
        """Return the ids of the tool calls that have not ended."""
        with self._lock:
            return [entry["toolCallId"] for entry in self._history if _is_open(entry)]

    def replay(self, *, is_running: bool = False) -> Iterator[Json]:
        """Yield the updates that tell the whole conversation again.

        Where nothing is running, no tool call is open: a fork may have been taken from one.
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

    # Keeping.

    def snapshot(self) -> bytes:
        """Return all of the memory, as one line of JSON."""
        with self._lock:
            return encode(
                {
                    "sessionId": self.session_id,
                    "cwd": self.cwd,
                    "title": self.title,
                    "mode": self.mode,
                    "updatedAt": self.updated_at,
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
        kept = decode(line)
        try:
            conversation = cls(kept["sessionId"], kept["cwd"])
            conversation.title = kept["title"]
            conversation.mode = kept["mode"]
            conversation.updated_at = kept["updatedAt"]
            conversation._last_id = kept["lastId"]
            conversation._history = kept["history"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a conversation: {error}") from error
        return conversation

    def fork(self, session_id: str, cwd: str) -> "Conversation":
        """Return a copy that goes its own way from here."""
        copy = Conversation.from_snapshot(self.snapshot())
        copy.session_id = session_id
        copy.cwd = cwd
        copy.touch()
        return copy


def _is(entry: Json, kind: str) -> bool:
    return entry.get("sessionUpdate") == kind


def _is_open(entry: Json) -> bool:
    return _is(entry, "tool_call") and entry.get("status") not in _FINAL


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
