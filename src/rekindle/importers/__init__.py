"""Importers: what other tools have in their files, as sessions of ours.

Each tool is a module that has a TOOL; it is imported when somebody asks for it. They read, and
never write, and know nothing of stores. docs/importers.md shows how to make one.
"""

from importlib import import_module

from rekindle.importers.base import Tool

_MODULES = {
    "claude": "rekindle.importers.claude",
    "codex": "rekindle.importers.codex",
    "opencode": "rekindle.importers.opencode",
    "gemini": "rekindle.importers.gemini",
}
"""By the name of the tool, as it is typed."""

NAMES = tuple(_MODULES)
ALL = "all"
"""In the place of a name: every tool."""


def tool_named(name: str) -> Tool:
    """Return a tool by its name."""
    return import_module(_MODULES[name]).TOOL
