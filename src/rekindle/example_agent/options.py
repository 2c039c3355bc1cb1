"""The options of the example agent."""

from pathlib import Path
from typing import NamedTuple

LIFECYCLE = ("load", "resume", "list", "close", "delete", "fork")
NEWER = ("archive", "title", "status", "systemPrompt", "rewind")
"""Capabilities of the unstable schema and of a proposal, which are offered by name only."""


class Options(NamedTuple):
    """The behaviour of the agent. The defaults are those of the command line."""

    versions: tuple[int, ...] = (1,)
    offers: frozenset[str] = frozenset()
    memory: Path | None = None
    message_ids: bool = True
    delay: float = 0.0
    echo: bool = False
    early_updates: bool = False
