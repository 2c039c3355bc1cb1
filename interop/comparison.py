"""The differences between a live session and its later replay, and the known reasons."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from rekindle.client import Item, Message, Role, ToolCall
from rekindle.jsonvalue import as_object, as_str

Json = dict[str, Any]
LabelledText = tuple[str, str]
"""A label and its text."""

_LABELS = {
    Role.USER: "text of the user",
    Role.AGENT: "text of the agent",
    Role.THOUGHT: "a thought",
}
# The fields of calls are compared separately.
_CALL: LabelledText = ("a tool call", "(called)")


class Difference(Struct, frozen=True):
    """A text that differs. It is empty on the side where it is missing."""

    of: str
    live: str
    later: str


def differences(live: Sequence[Item], later: Sequence[Item]) -> list[Difference]:
    """Return the differences of messages, of their order, and of the tool calls."""
    found = list(_compare_texts(_texts(live), _texts(later)))
    for one, other in zip(_calls(live), _calls(later), strict=False):
        found += _compare_fields(_fields(one), _fields(other))
    return found


def _texts(items: Sequence[Item]) -> list[LabelledText]:
    return [
        (_LABELS[item.role], item.text) if isinstance(item, Message) else _CALL
        for item in items
        if isinstance(item, Message | ToolCall)
    ]


def _calls(items: Sequence[Item]) -> list[ToolCall]:
    return [item for item in items if isinstance(item, ToolCall)]


def _compare_texts(live: list[LabelledText], later: list[LabelledText]) -> Iterator[Difference]:
    for tag, *ends in SequenceMatcher(None, live, later, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _pair(live[ends[0] : ends[1]], later[ends[2] : ends[3]])


def _pair(live: list[LabelledText], later: list[LabelledText]) -> Iterator[Difference]:
    """Yield texts with the same label as changed, and the others as missing on one side."""
    labels = [[of for of, _ in side] for side in (live, later)]
    for tag, *ends in SequenceMatcher(None, *labels, autojunk=False).get_opcodes():
        one, other = live[ends[0] : ends[1]], later[ends[2] : ends[3]]
        if tag == "equal":
            for (of, old), (_, new) in zip(one, other, strict=True):
                yield Difference(of, old, new)
        else:
            yield from (Difference(of, text, "") for of, text in one)
            yield from (Difference(of, "", text) for of, text in other)


def _compare_fields(live: dict[str, str], later: dict[str, str]) -> Iterator[Difference]:
    for of, text in live.items():
        if text != later[of]:
            yield Difference(of, text, later[of])


def _fields(call: ToolCall) -> dict[str, str]:
    """Return the visible fields of a tool call."""
    content = [as_object(part) for part in call.content]
    shown = [_text(part) for part in content if part.get("type") == "content"]
    changes = [_change(part) for part in content if part.get("type") == "diff"]
    files = [as_str(as_object(place).get("path")) or "" for place in call.locations]
    return {
        "kind of a call": call.kind,
        "status of a call": call.status,
        "title of a call": call.title,
        "files of a call": "\n".join(files),
        "text of a call": "\n".join(shown),
        "change by a call": "\n".join(changes),
    }


def _text(part: Json) -> str:
    return as_str(as_object(part.get("content")).get("text")) or ""


def _change(part: Json) -> str:
    """Return the patch of a diff, starting with the name of the file."""
    return (as_str(as_object(part.get("patch")).get("text")) or "").partition("\n+++ ")[2]


# -- known differences ----------------------------------------------------------------------


class KnownDifference(Struct, frozen=True, kw_only=True):
    """An expected difference between a live session and its import."""

    of: str
    form: str
    """A pattern for the whole live text, ` => `, and the whole later text."""
    reason: str


_NO_NEWLINE = r"\n\\ No newline at end of file\n"

KNOWN_DIFFERENCES: dict[str, tuple[KnownDifference, ...]] = {
    "opencode": (
        KnownDifference(
            of="text of a call",
            form=r"Edit applied successfully\. => ",
            reason="an imported call with a diff does not repeat that it was applied",
        ),
        KnownDifference(
            of="change by a call",
            form=rf"(.+\n)-(\w+){_NO_NEWLINE}\+(\w+){_NO_NEWLINE}"
            r" => \1-(.+)\2(.+)\n\+\4\3\5\n",
            reason="the live diff has the words that the model gave; the record has whole lines",
        ),
    ),
    "codex": (
        KnownDifference(
            of="text of the agent",
            form=r"Warning: Model metadata for `[\w-]+` not found.+ => ",
            reason="a warning of codex-acp about the model's name, which Codex does not record",
        ),
        KnownDifference(
            of="a thought",
            form=r"\n\n(.+) => \1",
            reason="codex-acp starts each thought with an empty line",
        ),
        KnownDifference(
            of="text of a call",
            form=r" => ```\n.+\n```",
            reason="codex-acp sends the output of commands in `_meta`, in chunks",
        ),
        KnownDifference(
            of="title of a call",
            form=r"Editing files => Edit note\.txt",
            reason="imported calls name the file",
        ),
        KnownDifference(
            of="files of a call",
            form=r" => \$PROJECT/note\.txt",
            reason="imported calls name the file",
        ),
    ),
    "gemini": (
        KnownDifference(
            of="text of a call",
            form=r" => The word of the note is \w+\.\n",
            reason="the record has the file content shown to the model; the live session does not",
        ),
        KnownDifference(
            of="title of a call",
            form=r"missing\.txt => ReadFile",
            reason="for a failed call, the record has the tool's description, so the import shows "
            "the tool's name",
        ),
    ),
}


def known_reason(tool: str, found: Difference) -> str | None:
    """Return the reason for a difference, if it is known."""
    both = f"{found.live} => {found.later}"
    for known in KNOWN_DIFFERENCES.get(tool, ()):
        if known.of == found.of and re.fullmatch(known.form, both, re.DOTALL):
            return known.reason
    return None
