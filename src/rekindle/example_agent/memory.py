"""Conversations on disk, one file each, so that they outlive the process."""

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from rekindle.example_agent.conversation import Conversation


class Memory:
    """A folder of conversations; without a folder, it keeps nothing and finds nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._saving = threading.Lock()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def save(self, conversation: Conversation) -> None:
        """Write the conversation, so that a reader finds the old file or the new one."""
        if self._folder is None:
            return
        path = self._folder / _file_name(conversation.session_id)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with self._saving:
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(conversation.snapshot())
            unfinished.replace(path)

    def find(self, session_id: str) -> Conversation | None:
        """Return the conversation of a session, or None where there is none to be read."""
        if self._folder is None:
            return None
        found = _read(self._folder / _file_name(session_id))
        return found if found and found.session_id == session_id else None

    def forget(self, session_id: str) -> None:
        """Remove a conversation. It need not be there."""
        if self._folder is not None:
            (self._folder / _file_name(session_id)).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Conversation]:
        """Yield every conversation that can be read."""
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
    """Return the session's file name: its id, if any file system would take that."""
    if re.fullmatch(r"[a-z0-9-]{1,64}", session_id):
        return f"{session_id}.json"
    return f"{hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()}.json"
