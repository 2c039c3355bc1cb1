"""A store for tests of the picker: sessions of given titles, without an agent."""

import json
from collections.abc import Iterator
from pathlib import Path

from rekindle.model import (
    AgentIdentity,
    Counted,
    EntryBatch,
    Kind,
    Opened,
    Page,
    Session,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT

_NOW = 1_700_000_000_000_000
_AGENT = AgentIdentity(name="example-agent", command=EXAMPLE_AGENT)


def write_three(path: Path) -> Path:
    """Write three sessions to a new store, oldest first; return its path."""
    folder = path.parent
    write(path, "ses_milk", folder / "kitchen", "Buy oat milk", "The fridge is empty.")
    write(path, "ses_bike", folder / "garage", "Mend the bike", "The zebra crossing was wet.")
    write(path, "ses_roof", folder / "house", "Look at the roof", "It rains into the attic.")
    return path


def write(store: Path, name: str, folder: Path, title: str, *prompts: str) -> None:
    """Record a session. Later calls make newer sessions."""
    folder.mkdir(exist_ok=True)
    with SqliteStore(store) as opened:
        at_us = _NOW + len(opened.sessions(Page())) * 1_000_000
        opened.write(
            [
                Opened(session_id=name, at_us=at_us, agent=_AGENT, cwd=str(folder)),
                Titled(session_id=name, at_us=at_us, source=TitleSource.AGENT, title=title),
                *(line for number, it in enumerate(prompts) for line in _turn(name, number, it)),
                Counted(session_id=name, at_us=at_us, turns=max(len(prompts), 1)),
            ]
        )


def _turn(name: str, number: int, text: str) -> Iterator[EntryBatch]:
    prompt = {"sessionId": name, "prompt": [{"type": "text", "text": text}]}
    asked = {"id": number, "method": "session/prompt", "params": prompt}
    answer = {"id": number, "result": {"stopReason": "end_turn"}}
    for side, kind, line in (
        (Side.CLIENT, Kind.PROMPT, asked),
        (Side.AGENT, Kind.ANSWER, answer),
    ):
        data = json.dumps({"jsonrpc": "2.0", **line}).encode()
        yield EntryBatch(session_id=name, side=side, kind=kind, at_us=_NOW, data=data)


def read(path: Path, name: str) -> Session:
    """Return the present state of a session."""
    with SqliteStore(path) as opened:
        return opened.session(name)
