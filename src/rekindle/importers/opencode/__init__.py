"""OpenCode: a database of sessions, and before that a file for each part of each message."""

from collections.abc import Iterator

from rekindle.importers.base import Found, Notes, Talk, Tool
from rekindle.importers.opencode.database import Rows
from rekindle.importers.opencode.file_tree import Tree
from rekindle.importers.opencode.locations import find, folders
from rekindle.importers.opencode.session import NAME, Conversations


def read(found: Found, notes: Notes) -> Iterator[Talk]:
    """Yield a session, and what of it was taken back."""
    if found.part:
        yield from Conversations(Rows(found.path, found.part), notes).talks()
    else:
        yield from Conversations(Tree(found.path), notes).talks()


TOOL = Tool(name=NAME, title="OpenCode", folders=folders, find=find, read=read)
