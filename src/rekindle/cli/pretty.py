"""How pieces of a conversation look on a terminal. Import it only where there is one: it is heavy.

What agents say is rendered as markdown, and may hold anything. So whatever comes out is made
safe once more: an entity such as `&#27;` is a control character only after it was parsed. Links
are written out, because a link's text may lie about where it leads.
"""

import shutil
from collections.abc import Iterable, Iterator
from typing import IO, ClassVar, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from rekindle.cli.pieces import Piece, belong_together
from rekindle.cli.words import printable

# Lines that are longer are hard to read.
_WIDEST = 100
# Beyond this it takes too long, and is no prose.
_LONGEST_MARKDOWN = 50_000

PROMPT = "❯ "  # noqa: RUF001 - what prompts look like today
STYLES = {
    "heading": "bold",
    "note": "dim",
    "turn": "dim",
    "user": "bold cyan",
    "agent": "none",
    "thought": "dim italic",
    "tool": "none",
    "output": "dim",
    "plan": "none",
    "problem": "red",
    "question": "bold",
    "choice": "none",
    "done": "green",
    "failed": "bold red",
    "going": "yellow",
    "added": "green",
    "removed": "red",
    "place": "dim cyan",
}
_THEME = Theme(
    {
        **STYLES,
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.item.bullet": "yellow",
        "markdown.link": "blue underline",
        "markdown.link_url": "blue underline",
    }
)
_DIFF = {"+": "added", "-": "removed", "@": "place", "⋯": "place", "…": "note", "\\": "note"}


class _Console(Console):
    """A console that leaves it to the command what to do when nobody reads any more."""

    def on_broken_pipe(self) -> NoReturn:
        """Say so."""
        raise BrokenPipeError


def make_console(*, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return what prints to the terminal, with colours unless nobody wants them."""
    columns = width or shutil.get_terminal_size().columns
    return _Console(
        file=file,
        force_terminal=True,
        width=min(columns, _WIDEST),
        highlight=False,
        markup=False,
        emoji=False,
        theme=_THEME,
    )


def spaced(pieces: Iterable[Piece]) -> Iterator[RenderableType]:
    """Yield how pieces look, with empty lines where one thing ends and another begins."""
    before: Piece | None = None
    for piece in pieces:
        if before is not None and not belong_together(before.kind, piece.kind):
            yield ""
        yield rendered(piece)
        before = piece


def rendered(piece: Piece) -> RenderableType:
    """Return how a piece looks."""
    match piece.kind:
        case "agent" if len(piece.words) <= _LONGEST_MARKDOWN:
            return Safe(_Prose(piece.words.strip("\n"), code_theme="ansi_dark", hyperlinks=False))
        case "turn":
            return Rule(Text(piece.words.strip("─ "), "turn"), style="turn", align="left")
        case "diff":
            return Padding(_diff(piece.words), (0, 0, 0, len(piece.mark)))
        case "user":
            return _hanging(piece, PROMPT)
        case _ if len(piece.words) > _LONGEST_MARKDOWN:
            return _Lines(piece)
        case _:
            return _hanging(piece, piece.mark)


class Safe:
    """Something rendered, with whatever could harm a terminal shown instead of obeyed."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        for segment in console.render(self._inner, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class _LeftHeading(Heading):
    """A heading where one begins to read."""

    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    """Code without empty lines around it: paragraphs have them already."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        del console, options
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Prose(Markdown):
    """Markdown as agents write it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
    }


class _Lines:
    """A long text, line by line as it is: to fill lines with it would take too long."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        del options
        style = console.get_style(self._piece.kind)
        for line in self._piece.words.splitlines(keepends=True):
            yield Segment(line, style)
        yield Segment("\n")


def _hanging(piece: Piece, mark: str) -> RenderableType:
    """Return lines that stand to the right of their mark, however long they are."""
    if not mark:
        return Text(piece.words, style=piece.kind)
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(
        Text(mark, style=piece.mark_kind or piece.kind), Text(piece.words, style=piece.kind)
    )
    return grid


def _diff(words: str) -> Text:
    lines = [Text(line, style=_DIFF.get(line[:1], "none")) for line in words.splitlines()]
    return Text("\n").join(lines)


def one_row(piece: Piece, width: int) -> Text:
    """Return how a piece looks that may not take more than one row: cut, if need be."""
    line = Text.assemble((piece.mark, piece.mark_kind), (piece.words, piece.kind))
    line.truncate(width, overflow="ellipsis")
    return line
