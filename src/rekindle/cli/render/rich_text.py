"""Render pieces for a terminal with rich. Import it only for terminals: the import takes long.

The agent's text is rendered as Markdown. The result is made safe again, because an entity such as
`&#27;` becomes a control character only when it is parsed. Links are written out, because the text
of a link may hide its address.
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
from rekindle.cli.render.wrap import WordWrapper
from rekindle.cli.terminal import terminal_size
from rekindle.export.markdown_html import parser

_MAX_WIDTH = 100
# A longer text takes too long to render, and is hardly prose.
_MAX_MARKDOWN = 50_000
_TAB = 4
_MIN_COLUMN = 6

PROMPT = "❯ "  # noqa: RUF001 - a usual prompt character
STYLES = {
    "heading": "bold",
    "note": "dim",
    "turn": "dim",
    "user": "bold cyan",
    "agent": "none",
    "thought": "dim italic",
    "tool": "none",
    "file": "cyan",
    "permission": "none",
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
    """A console with the present width of its terminal, unless a width is given.

    A broken pipe is left to the command.
    """

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal. The width is limited, because long lines are hard to read."""
        now = terminal_size(self.file)
        return ConsoleDimensions(min(self._width or now.columns, _MAX_WIDTH), now.lines)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> NoReturn:
        """Raise an error instead of exiting."""
        raise BrokenPipeError


def make_console(*, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console for a terminal. It respects `NO_COLOR`."""
    return _Console(
        file=file,
        force_terminal=True,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        theme=_THEME,
    )


def render_pieces(pieces: Iterable[Piece]) -> Iterator[RenderableType]:
    """Yield pieces as renderables, with empty lines between different kinds."""
    before: Piece | None = None
    for piece in pieces:
        if before is not None and not belong_together(before.kind, piece.kind):
            yield ""
        yield render_piece(piece)
        before = piece


def render_piece(piece: Piece) -> RenderableType:
    """Return a piece as a renderable."""
    if piece.is_row:
        return _Row(piece)
    # rich measures a tab as no column.
    if piece.kind != "agent":
        piece = replace(piece, text=piece.text.expandtabs())
    match piece.kind:
        case "agent" if len(piece.text) <= _MAX_MARKDOWN:
            return Safe(_Prose(piece.text.strip("\n")))
        case "turn":
            return Rule(Text(piece.text.strip("─ "), "turn"), style="turn", align="left")
        case "diff":
            return Padding(_diff(piece.text), (0, 0, 0, len(piece.mark)))
        case kind if kind != "user" and len(piece.text) > _MAX_MARKDOWN:
            return _Lines(piece)
        case kind:
            return _hanging(piece, PROMPT if kind == "user" else piece.mark)


class Safe:
    """A renderable whose control characters are spelled out."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments."""
        for segment in console.render(self._inner, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class _LeftHeading(Heading):
    """A heading that is aligned to the left."""

    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    """Code without empty lines around it, because paragraphs already have them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments."""
        del console, options
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Cells(TableElement):
    """A table whose cells are wrapped and never cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments."""
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                if len(table.columns) * _MIN_COLUMN > options.max_width:
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
    """Markdown in which HTML tags are text and pictures are links."""

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.parsed = list(map(_with_links, parser().parse(text)))

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Cells,
    }


def _with_links(token: Token) -> Token:
    """Turn pictures into links: rich would show them before the surrounding text."""
    for child in token.children or []:
        # rich measures a tab as no column.
        child.content = child.content.replace("\t", " " * _TAB)
    token.children = [it for child in token.children or [] for it in _linked(child)]
    return token


def _linked(token: Token) -> list[Token]:
    if token.type != "image":
        return [token]
    opening = Token("link_open", "a", 1, attrs={"href": str(token.attrs.get("src", ""))})
    text = Token("text", "", 0, content=token.content or "image")
    return [opening, text, Token("link_close", "a", -1)]


class _Row:
    """A piece that is cut to one row."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments."""
        del console
        yield one_row(self._piece, options.max_width)


class _Lines:
    """A long text. Only the lines that are too wide are wrapped, because wrapping takes long."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments."""
        style = console.get_style(self._piece.kind)
        room = options.max_width
        for line in self._piece.text.splitlines():
            is_long = cell_len(line) > room
            yield Segment(WordWrapper(lambda: room, 0).feed(line) if is_long else line, style)
            yield Segment("\n")


def _hanging(piece: Piece, mark: str) -> RenderableType:
    """Return a text with its mark to the left of all its lines."""
    if not mark:
        return Text(piece.text, style=piece.kind)
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(
        Text(mark, style=piece.mark_style or piece.kind), Text(piece.text, style=piece.kind)
    )
    return grid


def _diff(text: str) -> Text:
    lines = [Text(line, style=_DIFF.get(line[:1], "none")) for line in text.splitlines()]
    return Text("\n").join(lines)


def one_row(piece: Piece, width: int) -> Text:
    """Return a piece cut to one row."""
    text = piece.text.expandtabs()
    line = Text.assemble((piece.mark, piece.mark_style), (text, piece.kind))
    line.truncate(width, overflow="ellipsis")
    return line
