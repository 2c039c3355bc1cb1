"""Agents that share their sessions."""

import pytest

from rekindle.acp.agent_families import are_related

CLAUDE = "@agentclientprotocol/claude-agent-acp"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("@zed-industries/claude-code-acp", CLAUDE, True),
        ("claude-code-acp", "@zed-industries/claude-agent-acp", True),
        ("codex-acp", "@zed-industries/codex-acp", True),
        ("codex-acp", CLAUDE, False),
        # Without a table entry, the same name from another organisation is another agent.
        ("@one/agent", "@other/agent", False),
        ("", "", False),
    ],
)
def test_adapters_of_one_tool_are_related(one: str, other: str, *, expected: bool) -> None:
    assert are_related(one, other) is expected
    assert are_related(other, one) is expected
