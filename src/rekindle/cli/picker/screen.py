"""The screen of the picker: the matching sessions, and the actions on the highlighted one.

Slow work runs in threads, one of each kind at a time, and its results arrive as messages. All
text of sessions is shown literally, never parsed as markup.
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
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from rekindle.cli.formatting import plural, printable, title_label
from rekindle.cli.picker import actions, preview
from rekindle.cli.picker.dialogs import ConfirmDialog, OrderedInput, TitleDialog
from rekindle.cli.picker.search import MetadataSearch, PickerMatches, SearchState, TextSearch
from rekindle.cli.render.table import SessionRow, layout, legend
from rekindle.errors import RekindleError
from rekindle.model import Page, Session
from rekindle.store.address import StoreAddress, can_be_searched
from rekindle.store.base import Store

# Pauses without a key before the text search starts, and before the preview is rendered.
_TEXT_SEARCH_DELAY = 0.15
_PREVIEW_DELAY = 0.04
_PAGE = 100
_LOAD_MORE_AT = 10
"""More sessions are loaded if the highlight is this close to the end."""
KEYS = "⏎ resume  ^o show  ^f fork  ^r rename  ^t archive  ^x delete  esc leave"
# On a narrow screen, a line break must not separate a key from its label.
_KEYS_WITHOUT_BREAKS = (
    KEYS.replace("  ", "\n").replace(" ", "\N{NO-BREAK SPACE}").replace("\n", "  ")
)

_REVERSED = Style(reverse=True)

_Action = Callable[[str | None, Session], str]
_T = TypeVar("_T")


class PickedSession(NamedTuple):
    """A session, and the command to run with it."""

    command: str
    session_id: str


class PickerSource(NamedTuple):
    """The store and the sessions to pick from."""

    option: str | None
    address: StoreAddress | None
    store: Store
    page: Page


# -- messages of threads --------------------------------------------------------------------


class MetadataMatched(Message):
    """The search in titles, folders, agents and ids has ended."""

    def __init__(self, matches: PickerMatches) -> None:
        super().__init__()
        self.matches = matches


class TextMatched(Message):
    """The search in the text of the sessions has ended."""

    def __init__(self, matches: PickerMatches) -> None:
        super().__init__()
        self.matches = matches


class IndexProgressed(Message):
    """A share of the text, from 0 to 1, is indexed."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share


class PreviewRendered(Message):
    """The preview of a session is ready."""

    def __init__(self, session_id: str, lines: Text) -> None:
        super().__init__()
        self.session_id = session_id
        self.lines = lines


class ActionFinished(Message):
    """An action has succeeded or failed."""

    def __init__(self, text: str, *, is_done: bool = False) -> None:
        super().__init__()
        self.text = text
        self.is_done = is_done


# -- widgets --------------------------------------------------------------------------------


class SearchInput(OrderedInput):
    """The search field. It has the key bindings of the screen, to keep keys in order."""

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
        Binding("pageup", "screen.scroll_preview(-1)"),
        Binding("pagedown", "screen.scroll_preview(1)"),
    ]


class SessionRows(OptionList):
    """The rows of the sessions. The highlighted one is reversed, which needs no colour."""

    def render_line(self, y: int) -> Strip:
        """Render a row."""
        strip = super().render_line(y)
        if self.scroll_offset.y + y != self.highlighted:
            return strip
        return Strip(Segment.apply_style(strip, post_style=_REVERSED), strip.cell_length)


class SessionPicker(Screen[PickedSession]):
    """The sessions that match the typed text, and a preview of the highlighted one."""

    CSS_PATH = "picker.tcss"
    AUTO_FOCUS = "#typed"

    def __init__(self, source: PickerSource) -> None:
        super().__init__()
        self._source = source
        self._metadata_search = MetadataSearch(source.store, source.page)
        self._text_search = (
            TextSearch(source.address, source.store, source.page)
            if source.address is not None and can_be_searched(source.address)
            else None
        )
        self._search = SearchState(limit=_PAGE)
        self._lines: list[SessionRow] = []
        self._lines_typed: str | None = None
        """The typed text that the lines match."""
        self._status = ""
        """The outcome of the last action."""
        self._pending_action: Callable[[], None] | None = None
        self._search_timer: Timer | None = None
        self._preview_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield SearchInput(placeholder="title, project, agent, or what was said", id="typed")
        yield Static(id="head", markup=False)
        yield SessionRows(id="sessions", markup=False)
        yield Static(id="status", markup=False)
        with VerticalScroll(id="preview", can_focus=False):
            yield Static(id="end", markup=False)
        yield Static(_KEYS_WITHOUT_BREAKS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Show the sessions used last."""
        self.query_one(OptionList).can_focus = False
        self._start_search()

    def on_unmount(self) -> None:
        """Stop the threads."""
        self._search.typed = None

    def on_resize(self) -> None:
        """Fit the rows and the preview to the new size."""
        self._show_lines()
        self._preview_soon()

    # -- searching ----------------------------------------------------------------------

    @property
    def _typed(self) -> str:
        return self.query_one("#typed", Input).value

    @on(Input.Changed, "#typed")
    def _typed_changed(self) -> None:
        if self._search.typed != self._typed:
            self._search.limit, self._status = _PAGE, ""
            self._start_search()

    def _start_search(self) -> None:
        self._search.restart(self._typed)
        self._find_by_metadata(self._typed, self._search.limit)
        if self._search_timer is not None:
            self._search_timer.stop()
        self._search_timer = self.set_timer(_TEXT_SEARCH_DELAY, self._start_text_search)

    def _start_text_search(self) -> None:
        if self._text_search is None or not self._typed.strip():
            self.post_message(TextMatched(PickerMatches(typed=self._typed, lines=[])))
            return
        if self._search.indexed is not None:
            self._find_by_text(self._text_search, self._typed)
        elif not self._search.is_indexing:
            # The search waits until the index is open: two that create it would collide.
            self._search.is_indexing = True
            self._update_index(self._text_search)

    @work(thread=True, exclusive=True, group="metadata")
    def _find_by_metadata(self, typed: str, limit: int) -> None:
        try:
            matches = self._metadata_search.find(typed, limit, lambda: self._search.typed == typed)
        except RekindleError as error:
            self.post_message(ActionFinished(str(error)))
        else:
            self.post_message(MetadataMatched(matches))

    @work(thread=True, exclusive=True, group="text")
    def _find_by_text(self, search: TextSearch, typed: str) -> None:
        try:
            matches = search.find(typed)
        except RekindleError as error:
            matches = PickerMatches(typed=typed, lines=[])
            # An index that is still being written is searched again at the end.
            if self._search.indexed == 1.0:
                self.post_message(ActionFinished(str(error)))
        self.post_message(TextMatched(matches))

    @work(thread=True, group="index")
    def _update_index(self, search: TextSearch) -> None:
        for share in search.update():
            if self._search.typed is None:
                return
            self.post_message(IndexProgressed(share))
        self.post_message(IndexProgressed(1.0))

    @on(IndexProgressed)
    def _index_progressed(self, message: IndexProgressed) -> None:
        is_first_or_last = self._search.indexed is None or message.share >= 1.0
        self._search.indexed = message.share
        if is_first_or_last and self._text_search is not None and self._typed.strip():
            self._find_by_text(self._text_search, self._typed)
        self._show_status()

    @on(MetadataMatched)
    def _metadata_matched(self, message: MetadataMatched) -> None:
        if message.matches.typed == self._typed:
            self._search.by_metadata = message.matches
            self._show_lines()
            self._run_pending_action()

    @on(TextMatched)
    def _text_matched(self, message: TextMatched) -> None:
        if message.matches.typed == self._typed:
            self._search.by_text = message.matches
            self._show_lines()
            self._run_pending_action()

    # -- showing ------------------------------------------------------------------------

    @property
    def _highlighted(self) -> SessionRow | None:
        at = self.query_one(OptionList).highlighted
        return self._lines[at] if at is not None and at < len(self._lines) else None

    def _show_lines(self) -> None:
        matches = self._search.by_metadata
        if matches is None:
            return
        highlighted, rows_widget = self._highlighted, self.query_one(OptionList)
        is_new = matches.typed != self._lines_typed
        self._lines, self._lines_typed = self._search.lines(), matches.typed
        rows_widget.clear_options()
        head, rows = ("", [])
        if self._lines:
            head, rows = layout(self._lines, rows_widget.scrollable_content_region.width)
        self.query_one("#head", Static).update(head)
        rows_widget.add_options(
            [Option(Text.assemble(*row, no_wrap=True, overflow="crop")) for row in rows]
        )
        ids = [line.session.id for line in self._lines]
        is_kept = highlighted is not None and not is_new and highlighted.session.id in ids
        if ids:
            rows_widget.highlighted = (
                ids.index(highlighted.session.id) if highlighted and is_kept else 0
            )
        else:
            self._preview_soon()
        self._show_status()

    def _show_status(self) -> None:
        self.query_one("#status", Static).update(self._snippet() or self._status_text())

    def _status_text(self) -> Text:
        if self._status:
            return Text(self._status, "bold")
        count = plural(len(self._lines), "session")
        parts = [f"more than {count}" if self._search.has_more else count, legend(self._lines)]
        indexed = self._search.indexed
        if indexed is not None and indexed < 1.0:
            parts.append(f"reading what was said: {indexed:.0%}")
        return Text(" · ".join(filter(None, parts)), "dim")

    def _snippet(self) -> Text | None:
        """Return the text of the highlighted session around the typed words, if any."""
        line, matches = self._highlighted, self._search.by_text
        if self._status or line is None or matches is None:
            return None
        pieces = matches.snippets.get(line.session.id)
        if not pieces:
            return None
        styled = [(printable(text), "bold yellow" if hit else "") for text, hit in pieces]
        return Text.assemble(*styled, no_wrap=True, overflow="ellipsis")

    @on(OptionList.OptionHighlighted)
    def _highlight_changed(self, message: OptionList.OptionHighlighted) -> None:
        self._show_status()
        self._preview_soon()
        if self._search.has_more and message.option_index >= len(self._lines) - _LOAD_MORE_AT:
            self._search.limit += _PAGE
            self._find_by_metadata(self._typed, self._search.limit)

    def _preview_soon(self) -> None:
        if self._preview_timer is not None:
            self._preview_timer.stop()
        self._preview_timer = self.set_timer(_PREVIEW_DELAY, self._start_preview)

    def _start_preview(self) -> None:
        line = self._highlighted
        width = self.query_one("#preview").scrollable_content_region.width
        if line is None:
            self.query_one("#end", Static).update("")
        elif width:
            self._render_preview(line.session, width)

    @work(thread=True, exclusive=True, group="preview")
    def _render_preview(self, session: Session, width: int) -> None:
        try:
            lines = preview.render_preview(self._source.store, session, width)
        except RekindleError as error:
            lines = Text(printable(str(error)))
        self.post_message(PreviewRendered(session.id, lines))

    @on(PreviewRendered)
    def _preview_rendered(self, message: PreviewRendered) -> None:
        line = self._highlighted
        if line is not None and line.session.id == message.session_id:
            self.query_one("#end", Static).update(message.lines)
            self.query_one("#preview").scroll_end(animate=False)

    # -- actions ------------------------------------------------------------------------

    def _with_highlighted(self, do: Callable[[Session], None]) -> None:
        """Call a function with the highlighted session, once the search has ended.

        The call is dropped if the user types on.
        """
        typed = self._typed

        def begin() -> None:
            if self._highlighted is not None and typed == self._typed:
                do(self._highlighted.session)

        self._pending_action = begin
        self._run_pending_action()

    def _run_pending_action(self) -> None:
        is_ready = self._search.is_complete(self._typed, has_lines=bool(self._lines))
        if self._pending_action is not None and is_ready:
            action, self._pending_action = self._pending_action, None
            action()

    @work(thread=True, group="action")
    def _run_in_thread(self, do: Callable[[], str]) -> None:
        try:
            self.post_message(ActionFinished(do(), is_done=True))
        except RekindleError as error:
            self.post_message(ActionFinished(str(error)))

    @on(ActionFinished)
    def _action_finished(self, message: ActionFinished) -> None:
        self._status = printable(message.text)
        self._show_status()
        if message.is_done:
            self._metadata_search = MetadataSearch(self._source.store, self._source.page)
            self._start_search()

    def action_leave(self) -> None:
        """Leave without a session."""
        self.dismiss(None)

    def action_leave_for(self, command: str) -> None:
        """Leave, to run a command with the highlighted session."""
        self._with_highlighted(lambda session: self._leave_with(PickedSession(command, session.id)))

    def _leave_with(self, picked: PickedSession) -> None:
        self.dismiss(picked)

    def action_fork(self) -> None:
        """Fork the highlighted session."""
        self._with_highlighted(lambda session: self._do(actions.fork_session, session))

    def action_archive(self) -> None:
        """Archive the highlighted session."""
        self._with_highlighted(lambda session: self._do(actions.archive_session, session))

    def action_delete(self) -> None:
        """Delete the highlighted session after a confirmation."""

        def ask(session: Session) -> None:
            def delete(is_confirmed: bool | None) -> None:  # noqa: FBT001 - Textual calls it
                if is_confirmed:
                    self._do(actions.delete_session, session)

            self._ask(ConfirmDialog(f"Delete {title_label(session)}?"), delete)

        self._with_highlighted(ask)

    def action_rename(self) -> None:
        """Ask for a new title of the highlighted session."""

        def ask(session: Session) -> None:
            def rename(title: str | None) -> None:
                if title is not None:
                    self._run_in_thread(
                        lambda: actions.rename_session(self._source.option, session, title)
                    )

            self._ask(TitleDialog(title_label(session) if session.title else ""), rename)

        self._with_highlighted(ask)

    def _ask(self, dialog: Screen[_T], on_answer: Callable[[_T | None], None]) -> None:
        self.app.push_screen(dialog, on_answer)  # pyright: ignore[reportUnknownMemberType]

    def _do(self, action: _Action, session: Session) -> None:
        self._run_in_thread(lambda: action(self._source.option, session))

    def action_move(self, direction: str) -> None:
        """Move the highlight."""
        rows = self.query_one(OptionList)
        (rows.action_cursor_up if direction == "cursor_up" else rows.action_cursor_down)()

    def action_scroll_preview(self, direction: int) -> None:
        """Scroll the preview by a page."""
        shown = self.query_one("#preview")
        (shown.scroll_page_up if direction < 0 else shown.scroll_page_down)(animate=False)
