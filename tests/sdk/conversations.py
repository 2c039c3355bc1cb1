"""The memory of an agent: conversations, each in a file if a folder is given."""

import json
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass
class Conversation:
    """One session: the blocks of each prompt as texts, and every update of it."""

    cwd: str
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    mode: str = "ask"
    prompts: list[list[str]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)


class Conversations:
    """All conversations of an agent, and which of them are open."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._open: set[str] = set()
        self._all: dict[str, Conversation] = {}
        if folder:
            folder.mkdir(exist_ok=True)
            kept = [Conversation(**json.loads(path.read_bytes())) for path in folder.glob("*.json")]
            self._all = {it.session_id: it for it in kept}

    def begin(self, conversation: Conversation) -> Conversation:
        """Save a new conversation, and open it."""
        self._open.add(conversation.session_id)
        self.keep(conversation)
        return conversation

    def fork(self, conversation: Conversation, cwd: str) -> Conversation:
        """Return an independent copy."""
        copy = Conversation(**json.loads(json.dumps(asdict(conversation))))
        return self.begin(replace(copy, cwd=cwd, session_id=str(uuid.uuid4())))

    def reopen(self, session_id: str) -> Conversation | None:
        """Open a saved conversation."""
        if session_id in self._all:
            self._open.add(session_id)
        return self.opened(session_id)

    def opened(self, session_id: str) -> Conversation | None:
        """Return an open conversation."""
        return self._all[session_id] if session_id in self._open else None

    def close(self, session_id: str) -> None:
        """Close a conversation."""
        self._open.discard(session_id)

    def listed(self, cwd: str | None) -> list[Conversation]:
        """Return the conversations of a folder, or all."""
        return [it for it in self._all.values() if cwd in (None, it.cwd)]

    def keep(self, conversation: Conversation) -> None:
        """Save a conversation, so that a kill does not lose it."""
        self._all[conversation.session_id] = conversation
        if self._folder:
            unfinished = self._folder / f"{conversation.session_id}.new"
            unfinished.write_text(json.dumps(asdict(conversation)), encoding="utf-8")
            unfinished.replace(unfinished.with_suffix(".json"))
