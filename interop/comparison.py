"""What was seen live beside what is told of it later, piece by piece. Knows no tool."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from rekindle.client import Item, Message, Role, ToolCall
from rekindle.jsonvalue import as_object, as_str

Json = dict[str, Any]
LabelledText = tuple[str, str]
"""What it is, and its words."""

_SPOKEN = {
    Role.USER: "words of the user",
    Role.AGENT: "words of the agent",
    Role.THOUGHT: "a thought",
}
# What calls are like is compared for itself.
_CALL: LabelledText = ("a tool call", "(called)")


class Difference(Struct, frozen=True):
    """Something that is not the same. What was not told at all is empty."""

    of: str
    live: str
    later: str


def differences(live: Sequence[Item], later: Sequence[Item]) -> list[Difference]:
    """Return all that differs in what was said, in its order, and in the tool calls."""
    found = list(_in_order(_told(live), _told(later)))
    for one, other in zip(_calls(live), _calls(later), strict=False):
        found += _between(_seen(one), _seen(other))
    return found


def _told(items: Sequence[Item]) -> list[LabelledText]:
    return [
        (_SPOKEN[item.role], item.text) if isinstance(item, Message) else _CALL
        for item in items
        if isinstance(item, Message | ToolCall)
    ]


def _calls(items: Sequence[Item]) -> list[ToolCall]:
    return [item for item in items if isinstance(item, ToolCall)]


def _in_order(live: list[LabelledText], later: list[LabelledText]) -> Iterator[Difference]:
    for sign, *ends in SequenceMatcher(None, live, later, autojunk=False).get_opcodes():
        if sign != "equal":
            yield from _paired(live[ends[0] : ends[1]], later[ends[2] : ends[3]])


def _paired(live: list[LabelledText], later: list[LabelledText]) -> Iterator[Difference]:
    """Yield what is of one sort on both sides as changed, and the rest as missing on one."""
    sorts = [[of for of, _ in side] for side in (live, later)]
    for sign, *ends in SequenceMatcher(None, *sorts, autojunk=False).get_opcodes():
        one, other = live[ends[0] : ends[1]], later[ends[2] : ends[3]]
        if sign == "equal":
            for (of, words), (_, said) in zip(one, other, strict=True):
                yield Difference(of, words, said)
        else:
            yield from (Difference(of, words, "") for of, words in one)
            yield from (Difference(of, "", words) for of, words in other)


def _between(live: dict[str, str], later: dict[str, str]) -> Iterator[Difference]:
    for of, words in live.items():
        if words != later[of]:
            yield Difference(of, words, later[of])


def _seen(call: ToolCall) -> dict[str, str]:
    """Return what people see of a tool call."""
    content = [as_object(part) for part in call.content]
    shown = [_words(part) for part in content if part.get("type") == "content"]
    changes = [_change(part) for part in content if part.get("type") == "diff"]
    files = [as_str(as_object(place).get("path")) or "" for place in call.locations]
    return {
        "kind of a call": call.kind,
        "status of a call": call.status,
        "title of a call": call.title,
        "files of a call": "\n".join(files),
        "what a call shows": "\n".join(shown),
        "change by a call": "\n".join(changes),
    }


def _words(part: Json) -> str:
    return as_str(as_object(part.get("content")).get("text")) or ""


def _change(part: Json) -> str:
    """Return the patch of a diff, from the name of the file on."""
    return (as_str(as_object(part.get("patch")).get("text")) or "").partition("\n+++ ")[2]


# -- known differences ----------------------------------------------------------------------


class KnownDifference(Struct, frozen=True, kw_only=True):
    """A difference that has a reason."""

    of: str
    form: str
    """A pattern for all of what was told live, ` => `, and all of what was told later."""
    reason: str


_NO_NEWLINE = r"\n\\ No newline at end of file\n"

KNOWN_DIFFERENCES: dict[str, tuple[KnownDifference, ...]] = {
    "opencode": (
        KnownDifference(
            of="what a call shows",
            form=r"Edit applied successfully\. => ",
            reason="beside a diff, that it was applied is not told",
        ),
        KnownDifference(
            of="change by a call",
            form=rf"(.+\n)-(\w+){_NO_NEWLINE}\+(\w+){_NO_NEWLINE}"
            r" => \1-(.+)\2(.+)\n\+\4\3\5\n",
            reason="live the words are told that the model gave, and on record are whole lines",
        ),
    ),
    "codex": (
        KnownDifference(
            of="words of the agent",
            form=r"Warning: Model metadata for `[\w-]+` not found.+ => ",
            reason="a warning of codex-acp's at the model's name, which Codex does not record",
        ),
        KnownDifference(
            of="a thought",
            form=r"\n\n(.+) => \1",
            reason="codex-acp begins each with an empty line",
        ),
        KnownDifference(
            of="what a call shows",
            form=r" => ```\n.+\n```",
            reason="codex-acp tells what commands print in `_meta`, piece by piece",
        ),
        KnownDifference(
            of="title of a call",
            form=r"Editing files => Edit note\.txt",
            reason="imported calls say which file it is",
        ),
        KnownDifference(
            of="files of a call",
            form=r" => \$PROJECT/note\.txt",
            reason="imported calls say which file it is",
        ),
    ),
    "gemini": (
        KnownDifference(
            of="what a call shows",
            form=r" => The word of the note is \w+\.\n",
            reason="what the model was shown of a file is on record, but not told live",
        ),
        KnownDifference(
            of="title of a call",
            form=r"missing\.txt => ReadFile",
            reason="of a call that failed, what the tool is for is on record instead: its name is "
            "told",
        ),
    ),
}


def known_reason(tool: str, found: Difference) -> str | None:
    """Return why there is a difference, if that is known."""
    both = f"{found.live} => {found.later}"
    for known in KNOWN_DIFFERENCES.get(tool, ()):
        if known.of == found.of and re.fullmatch(known.form, both, re.DOTALL):
            return known.reason
    return None
