"""Agents that share their sessions."""

import pytest

from rekindle.model import AgentIdentity
from rekindle.proxy.agent_families import is_same_agent

CLAUDE = "@agentclientprotocol/claude-agent-acp"


def named(name: str | None, program: str = "node") -> AgentIdentity:
    return AgentIdentity(name=name, command=(program,))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (named("a"), named("a"), True),
        (named("a"), named("b"), False),
        (named("@zed-industries/claude-code-acp"), named(CLAUDE), True),
        (named("claude-code-acp"), named("@zed-industries/claude-agent-acp"), True),
        (named("codex-acp"), named("@zed-industries/codex-acp"), True),
        (named("codex-acp"), named(CLAUDE), False),
        # Without a table entry, the same name from another organisation is another agent.
        (named("@one/agent"), named("@other/agent"), False),
        (named(None, "/bin/agent"), named("a", "/usr/bin/agent"), True),
        (named(None, "/bin/agent"), named("a", "/bin/other"), False),
        (named(None, "/bin/claude-code-acp"), named(CLAUDE, "npx"), True),
        (AgentIdentity(), AgentIdentity(), True),
    ],
)
def test_agents_of_one_tool_share_their_sessions(
    one: AgentIdentity, other: AgentIdentity, *, expected: bool
) -> None:
    assert is_same_agent(one, other) is expected
    assert is_same_agent(other, one) is expected
