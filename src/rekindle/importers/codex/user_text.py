"""What of the words in the user's name are the user's own.

Codex puts into the same place what it wants the model to know: where it runs, what stands in
AGENTS.md, which skills there are, what a command of the user's has printed.
"""

import re

from msgspec import Struct

_BEGIN_AND_END = (
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    *(
        (f"<{tag}>", f"</{tag}>")
        for tag in (
            "user_instructions", "environment_context", "skill", "user_shell_command",
            "turn_aborted", "subagent_notification", "recommended_plugins", "goal_context",
            "user_action", "permissions instructions", "INSTRUCTIONS",
        )
    ),
    ("<hook_prompt", "</hook_prompt>"),
    ("<external_", ">"),
    ("<codex_internal_context", "</codex_internal_context>"),
    ("Warning: apply_patch was requested via ", "instead of exec_command."),
    ("Warning: The maximum number of unified exec processes you can keep open is", ""),
    ("Warning: Your account was flagged for potentially high-risk cyber activity", ""),
)  # fmt: skip
_REQUEST = "## My request for Codex:"
"""Stands before the user's words if an editor has told what is open in it."""
_FOLDER = re.compile(r"<cwd>(.*?)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
_SHELL = re.compile(
    r"<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)\n?</result>",
    re.DOTALL,
)
_CODE = re.compile(r"Exit code: (-?\d+)")


def is_context(words: str) -> bool:
    """Tell whether words in the user's name are what Codex wants the model to know."""
    said = words.strip()
    return any(said.startswith(begin) and said.endswith(end) for begin, end in _BEGIN_AND_END)


def own_words(words: str) -> str:
    """Return the user's own words; none if Codex has put them there."""
    if is_context(words):
        return ""
    _, found, request = words.partition(_REQUEST)
    return request.strip() if found else words


def folder_in(words: str) -> str | None:
    """Return the folder that a session runs in, if that is what the model is told."""
    if not words.lstrip().startswith("<environment_context>"):
        return None
    found = _FOLDER.search(words)
    return (found[1] or found[2] or "").strip() or None if found else None


class Typed(Struct, frozen=True):
    """A command that the user has typed, and what it has printed."""

    command: str
    printed: str
    is_failed: bool


def typed_command(words: str) -> Typed | None:
    """Return the command that the user has run, if that is what the model is told."""
    found = _SHELL.search(words) if "<user_shell_command>" in words else None
    if found is None:
        return None
    head, _, printed = found[2].partition("Output:\n")
    code = _CODE.search(head)
    return Typed(found[1].strip(), printed, code is not None and code[1] != "0")
