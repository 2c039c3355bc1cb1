"""What of the words in the user's name are the user's own.

Gemini CLI puts into the same place what it wants the model to know: the surroundings, what the
editor shows, what files say that were named, and what was said before it became too long.
"""

import re
from enum import Enum, auto

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.entry_builder import Json, text
from rekindle.importers.gemini.records import Part
from rekindle.importers.lenient_reader import is_text

CANCELLED = frozenset({"Request cancelled.", "User cancelled the request."})
"""What it says when the user has stopped the agent."""
THANKS = frozenset(
    {
        b'"Got it. Thanks for the additional context!"',
        b'"Got it. Thanks for the context!"',
        b'"[The previous response was interrupted before it completed.]"',
    }
)
"""What the tool says in the model's name."""

_NOT_THE_USERS = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
    "- **Workspace Directories:**",
    "User has manually exited Plan Mode.",
)
_SNAPSHOT = "<state_snapshot>"
_STEERING = ("User steering update:", "User hints:")
_SHELL = re.compile(
    r"I ran the following shell command:\n```sh\n(.*?)\n```\n\n"
    r"This produced the following result:\n```\n(.*)\n```\s*",
    re.DOTALL,
)
_FILES = ("--- Content from referenced files ---", "--- Content from referenced context ---")
_END_OF_FILES = "--- End of content"
_NAMED = re.compile(r"\s*Content from @?(.+?):\s*", re.DOTALL)


class What(Enum):
    """What some words are."""

    PROMPT = auto()
    SHELL = auto()
    """A command that the user has run, and what it printed."""
    SUMMARY = auto()
    """What the model was told of the conversation when it became too long."""
    STEERING = auto()
    """What the user has said while the agent was at work."""
    NOTHING = auto()
    """Not the user's."""


class Heard(Struct, frozen=True):
    """What was said, and what it is."""

    what: What
    blocks: list[Json] = []
    words: str = ""
    """All of it, or what a command has printed."""


def hear(parts: list[Part]) -> Heard:
    """Tell what stands in the user's name."""
    blocks: list[Json] = []
    names: list[str] = []
    is_in_files = False
    for part in parts:
        said = decoded(part.text)
        bare = said.strip()
        if bare.startswith(_FILES):
            is_in_files = True
        elif is_in_files and bare.startswith(_END_OF_FILES):
            is_in_files, names = False, []
        elif is_in_files and (found := _NAMED.fullmatch(said)):
            names.append(found[1])
        elif is_in_files:
            blocks += [_file(part, said, names[-1])] if names else []
        elif bare and not bare.startswith(_NOT_THE_USERS):
            blocks.append(text(said))
        else:
            blocks += [it for it in [block_of(part)] if it is not None]
    return _heard(_without_names(blocks, names))


def _without_names(blocks: list[Json], names: list[str]) -> list[Json]:
    """Take out what stands for a file that a client has attached: nobody has typed that.

    Where files were named in a terminal, there is an end to them, and no name is left here.
    """
    kept: list[Json] = []
    for block in blocks:
        if block["type"] == "text":
            for name in names:
                block["text"] = block["text"].replace(f"@{name}", "")
        if block["type"] != "text" or block["text"].strip():
            kept.append(block)
    return kept


def _heard(blocks: list[Json]) -> Heard:
    words = "\n".join(it["text"] for it in blocks if it["type"] == "text")
    if _SNAPSHOT in words:
        return Heard(What.SUMMARY, words=words)
    if words.startswith(_STEERING):
        _, _, rest = words.partition("<user_input>")
        hint = rest.partition("</user_input>")[0].strip()
        return Heard(What.STEERING, [text(hint)] if hint else [], hint)
    if shell := _SHELL.fullmatch(words):
        return Heard(What.SHELL, [text(f"! {shell[1]}")], shell[2])
    return Heard(What.PROMPT if blocks else What.NOTHING, blocks, words)


def decoded(words: Raw) -> str:
    """Return a text that was not read; nothing if it is none."""
    return str(msgspec.json.decode(words)) if is_text(words) else ""


def _file(part: Part, said: str, named: str) -> Json:
    """Return a file that the user has named, as it was then."""
    if part.inline_data is not None and (block := block_of(part)) is not None:
        return block
    return {"type": "resource", "resource": {"uri": named, "text": said}}


def block_of(part: Part) -> Json | None:
    """Return a part that is no text; None if there is nothing to show."""
    data, elsewhere = part.inline_data, part.file_data
    if data is not None and is_text(data.data):
        kind = data.mime_type.partition("/")[0]
        if kind in {"image", "audio"}:
            return {"type": kind, "data": data.data, "mimeType": data.mime_type}
        mime_type = data.mime_type or "application/octet-stream"
        inside = {"uri": f"inline:{mime_type}", "blob": data.data, "mimeType": mime_type}
        return {"type": "resource", "resource": inside}
    if elsewhere is not None and elsewhere.file_uri:
        return {"type": "resource_link", "uri": elsewhere.file_uri, "name": elsewhere.file_uri}
    return None
