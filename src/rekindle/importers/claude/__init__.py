"""Claude Code: a file of JSON lines a session, which is a tree of records."""

from collections.abc import Iterator

from rekindle.importers.base import Found, Notes, Talk, Tool
from rekindle.importers.claude.locations import find, folders
from rekindle.importers.claude.session import NAME, SessionFile


def read(found: Found, notes: Notes) -> Iterator[Talk]:
    """Yield the session of a file, its branches, and the sub-agents in it."""
    file = SessionFile(found.path, notes)
    session = file.session()
    if session is not None:
        yield session
        yield from file.branches(session)
        yield from file.sub_agents()


TOOL = Tool(
    name=NAME,
    agent_names=(
        "@agentclientprotocol/claude-agent-acp",
        "@zed-industries/claude-agent-acp",
        "@zed-industries/claude-code-acp",
        "claude-agent-acp",
        "claude-code-acp",
    ),
    title="Claude Code",
    version=2,
    folders=folders,
    find=find,
    read=read,
)
