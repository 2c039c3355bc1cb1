"""In which ways what a tool has on record differs from what its agent tells live, and why."""

import re

from msgspec import Struct

from interop.comparing import Difference


class Known(Struct, frozen=True, kw_only=True):
    """A difference that has a reason."""

    of: str
    form: str
    """A pattern for all of what was told live, ` => `, and all of what was told later."""
    reason: str


_NO_NEWLINE = r"\n\\ No newline at end of file\n"

KNOWN: dict[str, tuple[Known, ...]] = {
    "opencode": (
        Known(
            of="what a call shows",
            form=r"Edit applied successfully\. => ",
            reason="beside a diff, that it was applied is not told",
        ),
        Known(
            of="change by a call",
            form=rf"(.+\n)-(\w+){_NO_NEWLINE}\+(\w+){_NO_NEWLINE}"
            r" => \1-(.+)\2(.+)\n\+\4\3\5\n",
            reason="live the words are told that the model gave, and on record are whole lines",
        ),
    ),
    "codex": (
        Known(
            of="words of the agent",
            form=r"Warning: Model metadata for `[\w-]+` not found.+ => ",
            reason="a warning of codex-acp's at the model's name, which Codex does not record",
        ),
        Known(
            of="a thought",
            form=r"\n\n(.+) => \1",
            reason="codex-acp begins each with an empty line",
        ),
        Known(
            of="what a call shows",
            form=r" => ```\n.+\n```",
            reason="codex-acp tells what commands print in `_meta`, piece by piece",
        ),
        Known(
            of="title of a call",
            form=r"Editing files => Edit note\.txt",
            reason="imported calls say which file it is",
        ),
        Known(
            of="files of a call",
            form=r" => \$PROJECT/note\.txt",
            reason="imported calls say which file it is",
        ),
    ),
    "gemini": (
        Known(
            of="what a call shows",
            form=r" => The word of the note is \w+\.\n",
            reason="what the model was shown of a file is on record, but not told live",
        ),
        Known(
            of="title of a call",
            form=r"missing\.txt => ReadFile",
            reason="of a call that failed, what the tool is for is on record instead: its name is "
            "told",
        ),
    ),
}


def reason_of(tool: str, found: Difference) -> str | None:
    """Return why there is a difference, if that is known."""
    both = f"{found.live} => {found.later}"
    for known in KNOWN.get(tool, ()):
        if known.of == found.of and re.fullmatch(known.form, both, re.DOTALL):
            return known.reason
    return None
