"""A fake client of many sessions at once, which remembers how long each chunk was under way."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any

import lines
from client import Client, WrongResult
from rekindle.model import Kind
from rekindle.store.sqlite.store import SqliteStore

_CHUNK = b'"agent_message_chunk"'


@dataclass
class Heard:
    """What came of one session: how many chunks, and all of their bytes in order."""

    chunks: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def take(self, line: bytes) -> None:
        """Take one more chunk."""
        self.chunks += 1
        self.digest.update(line)


@dataclass
class Talk:
    """The sessions of one process, and how many µs their chunks were under way."""

    client: Client
    heard: dict[str, Heard] = field(default_factory=dict)
    taken_us: list[int] = field(default_factory=list)

    def open(self, sessions: int) -> None:
        """Open the connection and its sessions."""
        self.client.initialize()
        for _ in range(sessions):
            self.client.new_session()
            self.heard[self.client.session_id] = Heard()

    def stream(self, is_over: Callable[[], bool], rate: int, seconds_a_turn: float) -> None:
        """Have every session stream, turn after turn, until it is over; let the turns end."""
        turn = f"pace {max(1, int(rate * seconds_a_turn))} {rate}"
        asked = {self.client.ask_for(session_id, turn): session_id for session_id in self.heard}
        for line in self.client.each_line():
            message = json.loads(line)
            if "id" not in message:
                self._take(line, message["params"])
                continue
            if message.get("result", {}).get("stopReason") != "end_turn":
                raise WrongResult(f"a turn did not end well: {line!r}")
            session_id = asked.pop(message["id"])
            if not is_over():
                asked[self.client.ask_for(session_id, turn)] = session_id
            if not asked:
                return

    def check(self, store: Path) -> None:
        """See that the store has every chunk that came, once and in order."""
        with SqliteStore(store, create=False) as db:
            for session_id, heard in self.heard.items():
                found = Heard()
                for entry in db.read(session_id):
                    if entry.kind is Kind.UPDATE and _CHUNK in entry.line:
                        found.take(entry.line)
                if found.digest.digest() != heard.digest.digest():
                    raise WrongResult(
                        f"{session_id}: {heard.chunks} chunks came, and {found.chunks} are on "
                        "record, which are not the same"
                    )

    def _take(self, line: bytes, params: dict[str, Any]) -> None:
        update = params["update"]
        if update["sessionUpdate"] != "agent_message_chunk":
            return
        at_ns = lines.paced_ns(update["content"]["text"])
        self.taken_us.append((monotonic_ns() - at_ns) // 1000)
        self.heard[params["sessionId"]].take(line)


def count_files(pid: int) -> int:
    """Return how many descriptors a process has open; 0 where the system does not tell."""
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
