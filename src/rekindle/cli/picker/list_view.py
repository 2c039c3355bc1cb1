"""The list of sessions, and what is done with the one that is marked.

What takes time is done by threads, one of a kind at a time; what they find comes back as a
message. Whatever a session says is shown as text, and never read as markup.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from rekindle.cli.formatting import printable, several, title
from rekindle.cli.picker import actions, preview
from rekindle.cli.picker.dialogs import InOrder, NewTitle, Sure
from rekindle.cli.picker.messages import Drawn, Indexed, Named, Said, Told
from rekindle.cli.picker.search import Catalogue, Found, Texts
from rekindle.cli.render.table import SessionRow, layout, legend
from rekindle.errors import RekindleError
from rekindle.model import Page, Session
from rekindle.store.address import StoreAddress
from rekindle.store.base import Store

# How long nobody must have typed before all that was said is searched, and moved before the end
# of a session is drawn.
_PAUSE_IN_TYPING = 0.15
_PAUSE_IN_MOVING = 0.04
_SHOWN = 100
_NEARLY_AT_THE_END = 10
KEYS = "⏎ resume  ^o show  ^f fork  ^r rename  ^t archive  ^x delete  esc leave"
# On a narrow screen, a key and what it does stay together.
_KEPT_TOGETHER = KEYS.replace("  ", "\n").replace(" ", "\N{NO-BREAK SPACE}").replace("\n", "  ")

_REVERSED = Style(reverse=True)

_Deed = Callable[[str | None, Session], str]
_T = TypeVar("_T")


class Chosen(NamedTuple):
    """A session, and the command that goes on with it."""

    command: str
    session_id: str


class Picking(NamedTuple):
    """What there is to choose from."""

    option: str | None
    address: StoreAddress | None
    store: Store
    page: Page


class Typed(InOrder):
    """Where one types what is looked for; the other keys are here, too, to stay in order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.leave_for('resume')"),
        Binding("ctrl+o", "screen.leave_for('show')"),
        Binding("ctrl+f", "screen.fork"),
        Binding("ctrl+r", "screen.rename"),
        Binding("ctrl+t", "screen.archive"),
        Binding("ctrl+x", "screen.delete"),
        Binding("escape", "screen.leave"),
        Binding("up,ctrl+p", "screen.move('cursor_up')"),
        Binding("down,ctrl+n", "screen.move('cursor_down')"),
        Binding("pageup", "screen.turn_page(-1)"),
        Binding("pagedown", "screen.turn_page(1)"),
    ]


class Sessions(OptionList):
    """The rows, one for each session. The marked one is reversed, which needs no colour."""

    def render_line(self, y: int) -> Strip:
        """Draw a row."""
        strip = super().render_line(y)
        if self.scroll_offset.y + y != self.highlighted:
            return strip
        return Strip(Segment.apply_style(strip, post_style=_REVERSED), strip.cell_length)


class List(Screen[Chosen]):
    """The sessions that fit what is typed, and the end of the one that is marked."""

    CSS_PATH = "list.tcss"
    AUTO_FOCUS = "#typed"

    def __init__(self, picking: Picking) -> None:
        super().__init__()
        self._option, address, self._store, self._page = picking
        self._catalogue = Catalogue(self._store, self._page)
        self._texts = Texts(address, self._store, self._page) if address is not None else None
        self._named: Found | None = None
        self._said: Found | None = None
        self._lines: list[SessionRow] = []
        self._latest: str | None = ""
        """What is looked for, to tell threads; None once nobody waits for any of them."""
        self._shown_for: str | None = None
        self._most = _SHOWN
        self._indexing = False
        self._indexed: float | None = None
        self._news = ""
        self._later: Callable[[], None] | None = None
        self._typing: Timer | None = None
        self._moving: Timer | None = None

    def compose(self) -> ComposeResult:
        """Make what is seen."""
        yield Typed(placeholder="title, project, agent, or what was said", id="typed")
        yield Static(id="head", markup=False)
        yield Sessions(id="sessions", markup=False)
        yield Static(id="news", markup=False)
        with VerticalScroll(id="preview", can_focus=False):
            yield Static(id="end", markup=False)
        yield Static(_KEPT_TOGETHER, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin with the sessions used last."""
        self.query_one(OptionList).can_focus = False
        self._look_again()

    def on_unmount(self) -> None:
        """Let no thread work on."""
        self._latest = None

    def on_resize(self) -> None:
        """Make all fit."""
        self._show_lines()
        self._draw_soon()

    # -- looking ------------------------------------------------------------------------

    @property
    def _typed(self) -> str:
        return self.query_one("#typed", Input).value

    @on(Input.Changed, "#typed")
    def _look_for_what_is_typed(self) -> None:
        if self._latest != self._typed:
            self._most, self._news = _SHOWN, ""
            self._look_again()

    def _look_again(self) -> None:
        self._said, self._latest = None, self._typed
        self._find_named(self._typed, self._most)
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_PAUSE_IN_TYPING, self._look_at_texts)

    def _look_at_texts(self) -> None:
        if self._texts is None or not self._typed.strip():
            self.post_message(Said(Found(typed=self._typed, lines=[])))
            return
        if self._indexed is not None:
            self._find_said(self._texts, self._typed)
        elif not self._indexing:
            # Searched once it is open: two that make an index at once are in each other's way.
            self._indexing = True
            self._index(self._texts)

    @work(thread=True, exclusive=True, group="named")
    def _find_named(self, typed: str, most: int) -> None:
        try:
            found = self._catalogue.find(typed, most, lambda: self._latest == typed)
        except RekindleError as error:
            self.post_message(Told(str(error)))
        else:
            self.post_message(Named(found))

    @work(thread=True, exclusive=True, group="said")
    def _find_said(self, texts: Texts, typed: str) -> None:
        try:
            found = texts.find(typed)
        except RekindleError as error:
            found = Found(typed=typed, lines=[])
            # What is being written now is searched again when it is done.
            if self._indexed == 1.0:
                self.post_message(Told(str(error)))
        self.post_message(Said(found))

    @work(thread=True, group="index")
    def _index(self, texts: Texts) -> None:
        for part in texts.update():
            if self._latest is None:
                return
            self.post_message(Indexed(part))
        self.post_message(Indexed(1.0))

    @on(Indexed)
    def _see_how_far_it_is(self, message: Indexed) -> None:
        is_turn = self._indexed is None or message.part >= 1.0
        self._indexed = message.part
        if is_turn and self._texts is not None and self._typed.strip():
            self._find_said(self._texts, self._typed)
        self._show_news()

    @on(Named)
    def _take_named(self, message: Named) -> None:
        if message.found.typed == self._typed:
            self._named = message.found
            self._show_lines()
            self._do_what_waits()

    @on(Said)
    def _take_said(self, message: Said) -> None:
        if message.found.typed == self._typed:
            self._said = message.found
            self._show_lines()
            self._do_what_waits()

    @property
    def _is_looked_for(self) -> bool:
        """Whether what is shown is not yet all that fits what is typed."""
        is_named = self._named is not None and self._named.typed == self._typed
        return not is_named or (not self._lines and self._said is None)

    # -- showing ------------------------------------------------------------------------

    @property
    def _marked(self) -> SessionRow | None:
        at = self.query_one(OptionList).highlighted
        return self._lines[at] if at is not None and at < len(self._lines) else None

    def _show_lines(self) -> None:
        if self._named is None:
            return
        marked, listed = self._marked, self.query_one(OptionList)
        is_new = self._named.typed != self._shown_for
        known = {line.session.id for line in self._named.lines}
        others = self._said.lines if self._said is not None else []
        self._lines = [
            *self._named.lines,
            *(line for line in others if line.session.id not in known),
        ]
        self._shown_for = self._named.typed
        listed.clear_options()
        head, rows = ("", [])
        if self._lines:
            head, rows = layout(self._lines, listed.scrollable_content_region.width)
        self.query_one("#head", Static).update(head)
        listed.add_options(
            [Option(Text.assemble(*row, no_wrap=True, overflow="crop")) for row in rows]
        )
        ids = [line.session.id for line in self._lines]
        is_kept = marked is not None and not is_new and marked.session.id in ids
        if ids:
            listed.highlighted = ids.index(marked.session.id) if marked and is_kept else 0
        else:
            self._draw_soon()
        self._show_news()

    def _show_news(self) -> None:
        self.query_one("#news", Static).update(self._said_of_marked() or self._state())

    def _state(self) -> Text:
        if self._news:
            return Text(self._news, "bold")
        count = several(len(self._lines), "session")
        is_more = self._named is not None and self._named.is_more
        words = [f"more than {count}" if is_more else count, legend(self._lines)]
        if self._indexed is not None and self._indexed < 1.0:
            words.append(f"reading what was said: {self._indexed:.0%}")
        return Text(" · ".join(filter(None, words)), "dim")

    def _said_of_marked(self) -> Text | None:
        """Return where the words were said that are looked for."""
        line = self._marked
        if self._news or line is None or self._said is None:
            return None
        pieces = self._said.said.get(line.session.id)
        if not pieces:
            return None
        styled = [(printable(words), "bold yellow" if hit else "") for words, hit in pieces]
        return Text.assemble(*styled, no_wrap=True, overflow="ellipsis")

    @on(OptionList.OptionHighlighted)
    def _see_what_is_marked(self, message: OptionList.OptionHighlighted) -> None:
        self._show_news()
        self._draw_soon()
        is_more = self._named is not None and self._named.is_more
        if is_more and message.option_index >= len(self._lines) - _NEARLY_AT_THE_END:
            self._most += _SHOWN
            self._find_named(self._typed, self._most)

    def _draw_soon(self) -> None:
        if self._moving is not None:
            self._moving.stop()
        self._moving = self.set_timer(_PAUSE_IN_MOVING, self._draw_marked)

    def _draw_marked(self) -> None:
        line = self._marked
        width = self.query_one("#preview").scrollable_content_region.width
        if line is None:
            self.query_one("#end", Static).update("")
        elif width:
            self._draw(line.session, width)

    @work(thread=True, exclusive=True, group="preview")
    def _draw(self, session: Session, width: int) -> None:
        try:
            lines = preview.drawn(self._store, session, width)
        except RekindleError as error:
            lines = Text(printable(str(error)))
        self.post_message(Drawn(session.id, lines))

    @on(Drawn)
    def _show_end(self, message: Drawn) -> None:
        if self._marked is not None and self._marked.session.id == message.session_id:
            self.query_one("#end", Static).update(message.lines)
            self.query_one("#preview").scroll_end(animate=False)

    # -- doing --------------------------------------------------------------------------

    def _with_marked(self, do: Callable[[Session], None]) -> None:
        """Do something with the marked session, once it is the one that was typed for."""
        typed = self._typed

        def begin() -> None:
            # Who types on has thought better of it.
            if self._marked is not None and typed == self._typed:
                do(self._marked.session)

        self._later = begin
        self._do_what_waits()

    def _do_what_waits(self) -> None:
        if self._later is not None and not self._is_looked_for:
            later, self._later = self._later, None
            later()

    @work(thread=True, group="deed")
    def _carry_out(self, do: Callable[[], str]) -> None:
        try:
            self.post_message(Told(do(), is_done=True))
        except RekindleError as error:
            self.post_message(Told(str(error)))

    @on(Told)
    def _tell(self, message: Told) -> None:
        self._news = printable(message.words)
        self._show_news()
        if message.is_done:
            self._catalogue = Catalogue(self._store, self._page)
            self._look_again()

    def action_leave(self) -> None:
        """Leave, with nothing chosen."""
        self.dismiss(None)

    def action_leave_for(self, command: str) -> None:
        """Leave, and go on with a command."""
        self._with_marked(lambda it: self._leave_with(Chosen(command, it.id)))

    def _leave_with(self, chosen: Chosen) -> None:
        self.dismiss(chosen)

    def action_fork(self) -> None:
        """Fork the marked session."""
        self._with_marked(lambda it: self._do(actions.make_fork, it))

    def action_archive(self) -> None:
        """Archive the marked session."""
        self._with_marked(lambda it: self._do(actions.archive, it))

    def action_delete(self) -> None:
        """Delete the marked session, if that is really meant."""

        def ask(session: Session) -> None:
            def delete(is_sure: bool | None) -> None:  # noqa: FBT001 - as Textual calls it
                if is_sure:
                    self._do(actions.delete, session)

            self._ask(Sure(f"Delete {title(session)}?"), delete)

        self._with_marked(ask)

    def action_rename(self) -> None:
        """Ask for another title of the marked session."""

        def ask(session: Session) -> None:
            def rename(words: str | None) -> None:
                if words is not None:
                    self._carry_out(lambda: actions.give_title(self._option, session, words))

            self._ask(NewTitle(title(session) if session.title else ""), rename)

        self._with_marked(ask)

    def _ask(self, question: Screen[_T], answer: Callable[[_T | None], None]) -> None:
        self.app.push_screen(question, answer)  # pyright: ignore[reportUnknownMemberType]

    def _do(self, deed: _Deed, session: Session) -> None:
        self._carry_out(lambda: deed(self._option, session))

    def action_move(self, way: str) -> None:
        """Mark another session."""
        listed = self.query_one(OptionList)
        (listed.action_cursor_up if way == "cursor_up" else listed.action_cursor_down)()

    def action_turn_page(self, way: int) -> None:
        """Read what is above or below in the preview."""
        shown = self.query_one("#preview")
        (shown.scroll_page_up if way < 0 else shown.scroll_page_down)(animate=False)
