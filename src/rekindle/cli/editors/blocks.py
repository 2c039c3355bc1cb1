"""The agents in a Lua or Lisp file: blocks between marks, and commands that the user wrote.

Rekindle writes and removes only its own blocks. Code of the user is read, and never changed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from rekindle.cli.editors.agents import EditorAgent
from rekindle.cli.editors.entries import Action, AgentEntry, Outcome
from rekindle.cli.editors.installation import PROGRAMS
from rekindle.errors import FileUnclear

_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
# Between the words of a command: `"a", "b"` and `"a", args = { "b"` in Lua, `"a" "b"` and
# `"a" :command-params '("b"` in Lisp.
_SEPARATOR = re.compile(r"[\s,]*(?:\w+\s*=\s*\{\s*|:command-params\s*'?\(\s*)?")
_BEGIN = re.compile(r"\S+ >>> rekindle: (.+) >>>")


class BlockAgents(Struct, frozen=True, kw_only=True):
    """The form of agents in a file of code."""

    comment: str
    """Starts a comment in the language of the file."""
    snippet: Callable[[EditorAgent], str]
    """Returns the code for an agent."""

    def insert(self, text: str, agent: EditorAgent) -> str:
        """Return the text with the block of an agent. Raises FileUnclear."""
        return put_block(text, agent.name, self.snippet(agent), self.comment)

    def entries(self, text: str) -> list[AgentEntry]:
        """Return the commands that start Rekindle, of blocks and of the user's own code.

        Raises FileUnclear.
        """
        names = _names_by_line(text, self.comment)
        found = ((text.count("\n", 0, at), words) for at, words in _commands(text))
        agents = [AgentEntry(name=names.get(line, ""), command=words) for line, words in found]
        return [it for it in agents if it.is_wrapped or PurePath(it.command[0]).name in PROGRAMS]

    def remove(self, text: str, names: Sequence[str] | None) -> tuple[str, list[Outcome]]:
        """Remove the blocks of these names, or all. Raises FileUnclear."""
        found = dict.fromkeys(_names_by_line(text, self.comment).values())
        chosen = [name for name in found if names is None or name in names]
        for name in chosen:
            text = remove_block(text, name, self.comment)
        return text, [Outcome(name=name, action=Action.REMOVED) for name in chosen]


def _commands(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each row of strings in a text, with its position."""
    at = 0
    while start := _STRING.search(text, at):
        words: list[str] = []
        match: re.Match[str] | None = start
        while match:
            words.append(_ESCAPED.sub(r"\1", match[1]))
            at = match.end()
            separator = _SEPARATOR.match(text, at)
            match = _STRING.match(text, separator.end() if separator else at)
        yield start.start(), tuple(words)


def _names_by_line(text: str, comment: str) -> dict[int, str]:
    """Return the names of all blocks, for each line in one."""
    lines = text.splitlines()
    begins = (match for line in lines if (match := _BEGIN.fullmatch(line.strip())))
    names = [match[1] for match in begins]
    ranges = {name: _block_lines(lines, name, comment) or range(0) for name in names}
    return {line: name for name, block in ranges.items() for line in block}


def put_block(text: str, name: str, body: str, comment: str) -> str:
    """Return the text with a named block: replaced where it is, otherwise at the end.

    `comment` starts a comment in the text's language. Raises FileUnclear.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(name, comment)
    block = [begin, *body.splitlines(), end]
    lines = text.split(newline)
    old = _block_lines(lines, name, comment)
    if old is None:
        before = [*lines[:-1], ""] if text.endswith(newline) else [*lines, ""]
        return newline.join([*(before if text.strip() else []), *block, ""])
    return newline.join([*lines[: old.start], *block, *lines[old.stop :]])


def remove_block(text: str, name: str, comment: str) -> str:
    """Return the text without a named block, and without the empty line before it.

    Raises FileUnclear.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    block = _block_lines(lines, name, comment)
    if block is None:
        return text
    before = lines[: block.start]
    before = before[:-1] if before and not before[-1] else before
    return newline.join([*before, *lines[block.stop :]])


def _marks(name: str, comment: str) -> tuple[str, str]:
    return f"{comment} >>> rekindle: {name} >>>", f"{comment} <<< rekindle: {name} <<<"


def _block_lines(lines: list[str], name: str, comment: str) -> range | None:
    """Return the line numbers of a block, with its marks."""
    begin, end = _marks(name, comment)
    begins = [at for at, line in enumerate(lines) if line.strip() == begin]
    ends = [at for at, line in enumerate(lines) if line.strip() == end]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise FileUnclear(f"the marks around the block {name!r} are not one pair")
    return range(begins[0], ends[0] + 1)
