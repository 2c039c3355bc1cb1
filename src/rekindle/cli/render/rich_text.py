"""How pieces of a conversation look on a terminal. Import it only where there is one: it is heavy.

What agents say is rendered as markdown, and may hold anything. So whatever comes out is made
safe once more: an entity such as `&#27;` is a control character only after it was parsed. Links
are written out, because a link's text may lie about where it leads.
"""

from collections.abc import Iterable, Iterator
from typing import IO, ClassVar, NoReturn

from markdown_it.token import Token
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import (
    Console,
    ConsoleDimensions,
    ConsoleOptions,
    RenderableType,
    RenderResult,
)
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from rekindle.cli.formatting import printable
from rekindle.cli.render.transcript import Piece, belong_together
from rekindle.cli.render.wrap import Filling
from rekindle.cli.terminal import terminal_size
from rekindle.export.markdown_html import parser

_WIDEST = 100
# Beyond this it takes too long, and is no prose.
_LONGEST_MARKDOWN = 50_000
_TAB = 4
_NARROWEST_COLUMN = 6

PROMPT = "❯ "  # noqa: RUF001 - what prompts look like today
STYLES = {
    "heading": "bold",
    "note": "dim",
    "turn": "dim",
    "user": "bold cyan",
    "agent": "none",
    "thought": "dim italic",
    "tool": "none",
    "file": "cyan",
    "asked": "none",
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
    """A console that is as wide as its terminal is by now, unless it was made for some width.

    It leaves it to the command what to do when nobody reads any more.
    """

    @property
    def size(self) -> ConsoleDimensions:
        """How much room there is; lines that are longer are hard to read."""
        now = terminal_size(self.file)
        return ConsoleDimensions(min(self._width or now.columns, _WIDEST), now.lines)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> NoReturn:
        """Say so."""
        raise BrokenPipeError


def make_console(*, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return what prints to the terminal, with colours unless nobody wants them."""
    return _Console(
        file=file,
        force_terminal=True,
        width=width,
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
    if piece.is_row:
        return _Row(piece)
    # Columns are measured as if a tab was nothing.
    if piece.kind != "agent":
        piece = replace(piece, words=piece.words.expandtabs())
    match piece.kind:
        case "agent" if len(piece.words) <= _LONGEST_MARKDOWN:
            return Safe(_Prose(piece.words.strip("\n")))
        case "turn":
            return Rule(Text(piece.words.strip("─ "), "turn"), style="turn", align="left")
        case "diff":
            return Padding(_diff(piece.words), (0, 0, 0, len(piece.mark)))
        case kind if kind != "user" and len(piece.words) > _LONGEST_MARKDOWN:
            return _Lines(piece)
        case kind:
            return _hanging(piece, PROMPT if kind == "user" else piece.mark)


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


class _Cells(TableElement):
    """A table in which everything can be read: nothing is cut, and no column left out."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                if len(table.columns) * _NARROWEST_COLUMN > options.max_width:
                    yield from map(Text(" | ").join, self._rows())
                    return
                for column in table.columns:
                    column.overflow = "fold"
            yield table

    def _rows(self) -> Iterator[list[Text]]:
        head = [self.header.row] if self.header is not None and self.header.row else []
        for row in (*head, *(self.body.rows if self.body is not None else ())):
            yield [cell.content for cell in row.cells]


class _Prose(Markdown):
    """Markdown as agents write it: what looks like a tag is text, and so is a picture's address."""

    def __init__(self, words: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.parsed = list(map(_with_links, parser().parse(words)))

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Cells,
    }


def _with_links(token: Token) -> Token:
    """Let pictures be links: rich would show them before all that stands around them."""
    for child in token.children or []:
        # Columns are measured as if a tab was nothing.
        child.content = child.content.replace("\t", " " * _TAB)
    token.children = [it for child in token.children or [] for it in _linked(child)]
    return token


def _linked(token: Token) -> list[Token]:
    if token.type != "image":
        return [token]
    opening = Token("link_open", "a", 1, attrs={"href": str(token.attrs.get("src", ""))})
    words = Token("text", "", 0, content=token.content or "image")
    return [opening, words, Token("link_close", "a", -1)]


class _Row:
    """A piece that takes one row, however long it is."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        del console
        yield one_row(self._piece, options.max_width)


class _Lines:
    """A long text: only lines that need it are filled, because the rest would take too long."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        style = console.get_style(self._piece.kind)
        room = options.max_width
        for line in self._piece.words.splitlines():
            is_long = cell_len(line) > room
            yield Segment(Filling(lambda: room, 0).feed(line) if is_long else line, style)
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
    words = piece.words.expandtabs()
    line = Text.assemble((piece.mark, piece.mark_kind), (words, piece.kind))
    line.truncate(width, overflow="ellipsis")
    return line
