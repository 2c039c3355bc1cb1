"""Recognise agents that share their sessions although their names differ.

An adapter that is renamed, or published by another organisation, still reads the files of the same
tool. It knows the sessions of the former one by the same ids.
"""

from rekindle.model import AgentIdentity

_FAMILIES = {
    "claude-code-acp": "claude",
    "claude-agent-acp": "claude",
    "codex-acp": "codex",
}
"""The tool of each adapter, by the adapter's name without the scope of its package."""


def is_same_agent(one: AgentIdentity, other: AgentIdentity) -> bool:
    """Return whether two agents share their sessions.

    Their names decide. If one has no name, their programs decide.
    """
    if one.name is not None and other.name is not None:
        return one.name == other.name or _are_related(one.name, other.name)
    return one.program == other.program or _are_related(one.identity, other.identity)


def _are_related(one: str, other: str) -> bool:
    family = _family(one)
    return family is not None and family == _family(other)


def _family(name: str) -> str | None:
    return _FAMILIES.get(name.rpartition("/")[2].lower())
