"""Separate the user's own text from text that Codex adds in the user's role.

Codex sends context to the model as user messages: the environment, the contents of AGENTS.md, the
available skills, and the output of commands that the user has run.
"""

import re

from msgspec import Struct

_CONTEXT_STARTS_AND_ENDS = (
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
_REQUEST_HEADING = "## My request for Codex:"
"""Comes before the user's text if an editor has added the list of open files."""
_CWD = re.compile(r"<cwd>(.*?)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
_SHELL_COMMAND = re.compile(
    r"<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)\n?</result>",
    re.DOTALL,
)
_EXIT_CODE = re.compile(r"Exit code: (-?\d+)")


def is_context(text: str) -> bool:
    """Return whether a text in the user's role is context that Codex has added."""
    stripped = text.strip()
    return any(
        stripped.startswith(start) and stripped.endswith(end)
        for start, end in _CONTEXT_STARTS_AND_ENDS
    )


def own_text(text: str) -> str:
    """Return the user's own part of a text; an empty string if Codex has added all of it."""
    if is_context(text):
        return ""
    _, heading, request = text.partition(_REQUEST_HEADING)
    return request.strip() if heading else text


def folder_in(text: str) -> str | None:
    """Return the session's folder, if the text is the description of the environment."""
    if not text.lstrip().startswith("<environment_context>"):
        return None
    cwd = _CWD.search(text)
    return (cwd[1] or cwd[2] or "").strip() or None if cwd else None


class CodexShellCommand(Struct, frozen=True):
    """A command that the user has run, and its output."""

    command: str
    output: str
    is_failed: bool


def parse_shell_command(text: str) -> CodexShellCommand | None:
    """Return the command that the user has run, if the text reports one."""
    found = _SHELL_COMMAND.search(text) if "<user_shell_command>" in text else None
    if found is None:
        return None
    header, _, output = found[2].partition("Output:\n")
    code = _EXIT_CODE.search(header)
    return CodexShellCommand(found[1].strip(), output, code is not None and code[1] != "0")
