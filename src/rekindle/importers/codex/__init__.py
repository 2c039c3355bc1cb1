"""Codex: a file of JSON lines a session, which may begin in another one."""

from collections.abc import Iterator

from rekindle.importers.base import Found, Notes, Talk, Tool
from rekindle.importers.codex.locations import find, folders
from rekindle.importers.codex.session import NAME, SessionFiles


def read(found: Found, notes: Notes) -> Iterator[Talk]:
    """Yield a session, and the turns that were taken back."""
    yield from SessionFiles(found, notes).talks()


TOOL = Tool(
    name=NAME,
    agent_names=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"),
    title="Codex",
    folders=folders,
    find=find,
    read=read,
)
