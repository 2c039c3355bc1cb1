"""OpenCode: a database of sessions, and before that a file for each part of each message."""

from collections.abc import Iterator

from rekindle.importers.base import Found, Notes, Talk, Tool
from rekindle.importers.opencode.places import find, folders
from rekindle.importers.opencode.rows import Rows
from rekindle.importers.opencode.session import NAME, Conversations
from rekindle.importers.opencode.tree import Tree


def read(found: Found, notes: Notes) -> Iterator[Talk]:
    """Yield a session, and what of it was taken back."""
    if found.part:
        yield from Conversations(Rows(found.path, found.part), notes).talks()
    else:
        yield from Conversations(Tree(found.path), notes).talks()


TOOL = Tool(name=NAME, title="OpenCode", folders=folders, find=find, read=read)
