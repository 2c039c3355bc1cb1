"""A fake client of many sessions at once that measures the latency of each chunk."""

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
class ReceivedChunks:
    """The number of chunks of one session, and a digest of their bytes in order."""

    chunks: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, line: bytes) -> None:
        """Add a chunk."""
        self.chunks += 1
        self.digest.update(line)


@dataclass
class PacedClient:
    """The sessions of one process, and the latencies of their chunks."""

    client: Client
    received: dict[str, ReceivedChunks] = field(default_factory=dict)
    latencies_us: list[int] = field(default_factory=list)

    def open(self, sessions: int) -> None:
        """Initialize the connection, and open its sessions."""
        self.client.initialize()
        for _ in range(sessions):
            self.client.new_session()
            self.received[self.client.session_id] = ReceivedChunks()

    def stream(self, is_over: Callable[[], bool], rate: int, turn_seconds: float) -> None:
        """Run turns in every session until `is_over`, and then let the last turns end."""
        turn = f"pace {max(1, int(rate * turn_seconds))} {rate}"
        asked = {
            self.client.send_prompt(session_id, turn): session_id for session_id in self.received
        }
        for line in self.client.each_line():
            message = json.loads(line)
            if "id" not in message:
                self._receive(line, message["params"])
                continue
            if message.get("result", {}).get("stopReason") != "end_turn":
                raise WrongResult(f"a turn did not end well: {line!r}")
            session_id = asked.pop(message["id"])
            if not is_over():
                asked[self.client.send_prompt(session_id, turn)] = session_id
            if not asked:
                return

    def check(self, store: Path) -> None:
        """Raise WrongResult unless the store has every received chunk, once and in order."""
        with SqliteStore(store, create=False) as db:
            for session_id, received in self.received.items():
                recorded = ReceivedChunks()
                for entry in db.read(session_id):
                    if entry.kind is Kind.UPDATE and _CHUNK in entry.line:
                        recorded.add(entry.line)
                if recorded.digest.digest() != received.digest.digest():
                    raise WrongResult(
                        f"{session_id}: {received.chunks} chunks were received and "
                        f"{recorded.chunks} recorded, and they differ"
                    )

    def _receive(self, line: bytes, params: dict[str, Any]) -> None:
        update = params["update"]
        if update["sessionUpdate"] != "agent_message_chunk":
            return
        at_ns = lines.paced_ns(update["content"]["text"])
        self.latencies_us.append((monotonic_ns() - at_ns) // 1000)
        self.received[params["sessionId"]].add(line)


def count_files(pid: int) -> int:
    """Return the number of open descriptors of a process; 0 if the system has no /proc."""
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
