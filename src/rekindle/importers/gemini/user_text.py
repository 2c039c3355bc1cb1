"""Separate the user's own content from content that Gemini CLI adds in the user's role.

Gemini CLI sends context to the model as user messages: the environment, the state of the editor,
the contents of files that the user has named, and the summary of a compacted conversation.
"""

import re
from enum import Enum, auto

from msgspec import Struct

from rekindle.importers.entry_builder import text_block
from rekindle.importers.gemini.records import GeminiPart
from rekindle.importers.lenient_reader import decode_string, is_json_string
from rekindle.jsonvalue import Json

CANCELLED_TEXTS = frozenset({"Request cancelled.", "User cancelled the request."})
"""Notices that the user has interrupted the agent."""
CANNED_ANSWERS = frozenset(
    {
        b'"Got it. Thanks for the additional context!"',
        b'"Got it. Thanks for the context!"',
        b'"[The previous response was interrupted before it completed.]"',
    }
)
"""Texts that Gemini CLI adds in the model's role."""

_CONTEXT_STARTS = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
    "- **Workspace Directories:**",
    "User has manually exited Plan Mode.",
)
_SUMMARY_TAG = "<state_snapshot>"
_STEERING_STARTS = ("User steering update:", "User hints:")
_SHELL_COMMAND = re.compile(
    r"I ran the following shell command:\n```sh\n(.*?)\n```\n\n"
    r"This produced the following result:\n```\n(.*)\n```\s*",
    re.DOTALL,
)
_FILES_STARTS = (
    "--- Content from referenced files ---",
    "--- Content from referenced context ---",
)
_FILES_END = "--- End of content"
_FILE_HEADING = re.compile(r"\s*Content from @?(.+?):\s*", re.DOTALL)


class GeminiTextKind(Enum):
    """The meaning of a message in the user's role."""

    PROMPT = auto()
    SHELL = auto()
    """A command that the user has run, and its output."""
    SUMMARY = auto()
    """The summary that replaced a conversation when it was compacted."""
    STEERING = auto()
    """Input of the user while the agent was working."""
    CONTEXT = auto()
    """Not the user's."""


class GeminiUserText(Struct, frozen=True):
    """A message in the user's role, with its meaning."""

    kind: GeminiTextKind
    blocks: list[Json] = []
    text: str = ""
    """The whole text, or the output of a command."""


def classify_parts(parts: list[GeminiPart]) -> GeminiUserText:
    """Return the user's own content of a message, and its meaning."""
    blocks: list[Json] = []
    names: list[str] = []
    is_in_files = False
    for part in parts:
        text = decode_string(part.text)
        stripped = text.strip()
        if stripped.startswith(_FILES_STARTS):
            is_in_files = True
        elif is_in_files and stripped.startswith(_FILES_END):
            is_in_files, names = False, []
        elif is_in_files and (heading := _FILE_HEADING.fullmatch(text)):
            names.append(heading[1])
        elif is_in_files:
            blocks += [_file_block(part, text, names[-1])] if names else []
        elif stripped and not stripped.startswith(_CONTEXT_STARTS):
            blocks.append(text_block(text))
        else:
            blocks += [block for block in [media_block(part)] if block is not None]
    return _classify(_without_names(blocks, names))


def _without_names(blocks: list[Json], names: list[str]) -> list[Json]:
    """Remove the names of attached files, which the client has added to the text.

    For files that were named in a terminal, the end marker has emptied `names` already.
    """
    kept: list[Json] = []
    for block in blocks:
        if block["type"] == "text":
            for name in names:
                block["text"] = block["text"].replace(f"@{name}", "")
        if block["type"] != "text" or block["text"].strip():
            kept.append(block)
    return kept


def _classify(blocks: list[Json]) -> GeminiUserText:
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    if _SUMMARY_TAG in text:
        return GeminiUserText(GeminiTextKind.SUMMARY, text=text)
    if text.startswith(_STEERING_STARTS):
        _, _, rest = text.partition("<user_input>")
        hint = rest.partition("</user_input>")[0].strip()
        return GeminiUserText(GeminiTextKind.STEERING, [text_block(hint)] if hint else [], hint)
    if shell := _SHELL_COMMAND.fullmatch(text):
        return GeminiUserText(GeminiTextKind.SHELL, [text_block(f"! {shell[1]}")], shell[2])
    kind = GeminiTextKind.PROMPT if blocks else GeminiTextKind.CONTEXT
    return GeminiUserText(kind, blocks, text)


def _file_block(part: GeminiPart, text: str, name: str) -> Json:
    """Return a file that the user has named, with its content at that time."""
    if part.inline_data is not None and (block := media_block(part)) is not None:
        return block
    return {"type": "resource", "resource": {"uri": name, "text": text}}


def media_block(part: GeminiPart) -> Json | None:
    """Return the content block of a part that is not text; None if it has nothing to show."""
    data, file = part.inline_data, part.file_data
    if data is not None and is_json_string(data.data):
        kind = data.mime_type.partition("/")[0]
        if kind in {"image", "audio"}:
            return {"type": kind, "data": data.data, "mimeType": data.mime_type}
        mime_type = data.mime_type or "application/octet-stream"
        resource = {"uri": f"inline:{mime_type}", "blob": data.data, "mimeType": mime_type}
        return {"type": "resource", "resource": resource}
    if file is not None and file.file_uri:
        return {"type": "resource_link", "uri": file.file_uri, "name": file.file_uri}
    return None
