"""Recognise agents that share their sessions although their names differ.

An adapter that is renamed, or published by another organisation, still reads the files of the same
tool. It knows the sessions of the former one by the same ids.
"""

_FAMILIES = {
    "claude-code-acp": "claude",
    "claude-agent-acp": "claude",
    "codex-acp": "codex",
}
"""The tool of each adapter, by the adapter's name without the scope of its package."""


def are_related(one: str, other: str) -> bool:
    """Return whether two names of agents, or of their programs, belong to the same tool."""
    family = _family(one)
    return family is not None and family == _family(other)


def _family(name: str) -> str | None:
    return _FAMILIES.get(name.rpartition("/")[2].lower())
