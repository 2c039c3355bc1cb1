"""The screen of the picker: the matching sessions, and the actions on the highlighted one.

Slow work runs in threads, one of each kind at a time, and its results arrive as messages. All
text of sessions is shown literally, never parsed as markup.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar

from msgspec.structs import replace
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
from rekindle.cli.picker.actions import Action, ActionOutcome, ActionQueue
from rekindle.cli.picker.dialogs import ConfirmDialog, OrderedInput, TitleDialog, key_lines
from rekindle.cli.picker.search import (
    MetadataSearch,
    PickerMatches,
    SearchKey,
    SearchState,
    TextSearch,
)
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

_REVERSED = Style(reverse=True)

_SessionAction = Callable[[str | None, Session], ActionOutcome]
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
    redact: bool = True
    """Whether secrets are masked."""

    def archived(self, *, is_archived: bool) -> "PickerSource":
        """Return the archived sessions of this source, or the others."""
        return self._replace(page=replace(self.page, archived=is_archived))


def picker_keys(*, is_archived: bool, can_undo: bool) -> list[tuple[str, str]]:
    """Return the keys of the picker, with their meanings."""
    return [
        ("⏎", "resume"),
        ("^o", "show"),
        ("^f", "fork"),
        ("^r", "rename"),
        ("^t", "unarchive" if is_archived else "archive"),
        ("^x", "delete"),
        *([("^z", "undo")] if can_undo else []),
        ("tab", "back" if is_archived else "archived"),
        ("esc", "leave"),
    ]


# -- messages of threads --------------------------------------------------------------------


class MetadataMatched(Message):
    """The search in titles, projects, agents and ids has ended."""

    def __init__(self, search: MetadataSearch, matches: PickerMatches) -> None:
        super().__init__()
        self.search = search
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


class SearchFailed(Message):
    """A search could not read the store."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ActionFinished(Message):
    """An action has succeeded or failed."""

    def __init__(self, outcome: ActionOutcome) -> None:
        super().__init__()
        self.outcome = outcome


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
        Binding("ctrl+z", "screen.undo"),
        Binding("tab,shift+tab", "screen.toggle_archived"),
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
        self._text_search = _text_search(source)
        self._search = SearchState(limit=_PAGE)
        self._lines: list[SessionRow] = []
        self._lines_key: SearchKey | None = None
        """The search that found the lines."""
        self._status = ""
        """The outcome of the last action."""
        self._wanted_id: str | None = None
        """The session to highlight once the list has it."""
        self._actions = ActionQueue(self._run_in_thread)
        self._pending_action: Callable[[], None] | None = None
        self._search_timer: Timer | None = None
        self._preview_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield SearchInput(id="typed")
        yield Static(id="head", markup=False)
        yield SessionRows(id="sessions", markup=False)
        yield Static(id="status", markup=False)
        with VerticalScroll(id="preview", can_focus=False):
            yield Static(id="end", markup=False)
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Show the sessions used last."""
        self.query_one(OptionList).can_focus = False
        self._show_keys()
        self._start_search()

    def on_unmount(self) -> None:
        """Stop the threads."""
        self._search.key = None

    def on_resize(self) -> None:
        """Fit the rows, the preview and the keys to the new size."""
        self._show_keys()
        self._show_lines()
        self._preview_soon()

    # -- searching ----------------------------------------------------------------------

    @property
    def _key(self) -> SearchKey:
        return SearchKey(self.query_one("#typed", Input).value, self._is_archived)

    @property
    def _is_archived(self) -> bool:
        return self._source.page.archived

    @on(Input.Changed, "#typed")
    def _typed_changed(self) -> None:
        if self._search.key != self._key:
            self._search.limit, self._status, self._wanted_id = _PAGE, "", None
            self._start_search()

    def _start_search(self) -> None:
        self._search.restart(self._key)
        self._find_by_metadata(self._metadata_search, self._key, self._search.limit)
        if self._search_timer is not None:
            self._search_timer.stop()
        self._search_timer = self.set_timer(_TEXT_SEARCH_DELAY, self._start_text_search)

    def _start_text_search(self) -> None:
        if self._text_search is None or not self._key.typed.strip():
            self.post_message(TextMatched(PickerMatches(key=self._key, lines=[])))
            return
        if self._search.indexed is not None:
            self._find_by_text(self._text_search, self._key)
        elif not self._search.is_indexing:
            # The search waits until the index is open: two that create it would collide.
            self._search.is_indexing = True
            self._update_index(self._text_search)

    @work(thread=True, exclusive=True, group="metadata")
    def _find_by_metadata(self, search: MetadataSearch, key: SearchKey, limit: int) -> None:
        try:
            matches = search.find(key.typed, limit, lambda: self._search.key == key)
        except RekindleError as error:
            self.post_message(SearchFailed(str(error)))
        else:
            self.post_message(MetadataMatched(search, matches))

    @work(thread=True, exclusive=True, group="text")
    def _find_by_text(self, search: TextSearch, key: SearchKey) -> None:
        try:
            matches = search.find(key.typed)
        except RekindleError as error:
            matches = PickerMatches(key=key, lines=[])
            # An index that is still being written is searched again at the end.
            if self._search.indexed == 1.0:
                self.post_message(SearchFailed(str(error)))
        self.post_message(TextMatched(matches))

    @on(SearchFailed)
    def _search_failed(self, message: SearchFailed) -> None:
        self._status = printable(message.text)
        self._show_status()

    @work(thread=True, group="index")
    def _update_index(self, search: TextSearch) -> None:
        for share in search.update():
            if self._search.key is None:
                return
            self.post_message(IndexProgressed(share))
        self.post_message(IndexProgressed(1.0))

    @on(IndexProgressed)
    def _index_progressed(self, message: IndexProgressed) -> None:
        is_first_or_last = self._search.indexed is None or message.share >= 1.0
        self._search.indexed = message.share
        if is_first_or_last and self._text_search is not None and self._key.typed.strip():
            self._find_by_text(self._text_search, self._key)
        self._show_status()

    @on(MetadataMatched)
    def _metadata_matched(self, message: MetadataMatched) -> None:
        # A search that was started before an action may end after it.
        if message.search is self._metadata_search and message.matches.key == self._key:
            self._search.by_metadata = message.matches
            self._show_lines()
            self._run_pending_action()

    @on(TextMatched)
    def _text_matched(self, message: TextMatched) -> None:
        if message.matches.key == self._key:
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
        rows_widget = self.query_one(OptionList)
        before, place = self._highlighted, rows_widget.highlighted or 0
        is_new = matches.key != self._lines_key
        self._lines, self._lines_key = self._search.lines(), matches.key
        rows_widget.clear_options()
        head, rows = ("", [])
        if self._lines:
            room = rows_widget.scrollable_content_region.width
            head, rows = layout(self._lines, room, redact=self._source.redact)
        self.query_one("#head", Static).update(head)
        rows_widget.add_options(
            [Option(Text.assemble(*row, no_wrap=True, overflow="crop")) for row in rows]
        )
        if self._lines:
            kept = before.session.id if before is not None and not is_new else None
            rows_widget.highlighted = self._place_of(kept, 0 if is_new else place)
        else:
            self._preview_soon()
        self._show_status()

    def _place_of(self, kept: str | None, place: int) -> int:
        """Return the place to highlight: of the wanted session, of the kept one, or the same."""
        ids = [line.session.id for line in self._lines]
        if self._wanted_id in ids:
            kept, self._wanted_id = self._wanted_id, None
        return ids.index(kept) if kept in ids else min(place, len(ids) - 1)

    def _show_keys(self) -> None:
        keys = picker_keys(is_archived=self._is_archived, can_undo=self._actions.can_undo)
        self.query_one("#keys", Static).update(key_lines(keys, self.size.width))
        self.query_one("#typed", Input).placeholder = (
            "search archived sessions"
            if self._is_archived
            else "search titles, projects, agents, text"
        )

    def _show_status(self) -> None:
        self.query_one("#status", Static).update(self._snippet() or self._status_text())

    def _status_text(self) -> Text:
        if self._status:
            return Text(self._status, "bold")
        count = plural(len(self._lines), "archived session" if self._is_archived else "session")
        parts = [f"more than {count}" if self._search.has_more else count]
        if not self._is_archived:
            parts.append(legend(self._lines))
        indexed = self._search.indexed
        if indexed is not None and indexed < 1.0:
            parts.append(f"indexing text: {indexed:.0%}")
        return Text(" · ".join(filter(None, parts)), "dim")

    def _snippet(self) -> Text | None:
        """Return the text of the highlighted session around the typed words, if any."""
        line, matches = self._highlighted, self._search.by_text
        if self._status or line is None or matches is None:
            return None
        pieces = matches.snippets.get(line.session.id)
        if not pieces:
            return None
        styled = [(printable(text), "bold underline" if hit else "") for text, hit in pieces]
        return Text.assemble(*styled, no_wrap=True, overflow="ellipsis")

    @on(OptionList.OptionHighlighted)
    def _highlight_changed(self, message: OptionList.OptionHighlighted) -> None:
        self._show_status()
        self._preview_soon()
        if self._search.has_more and message.option_index >= len(self._lines) - _LOAD_MORE_AT:
            self._search.limit += _PAGE
            self._find_by_metadata(self._metadata_search, self._key, self._search.limit)

    def _preview_soon(self) -> None:
        if self._preview_timer is not None:
            self._preview_timer.stop()
        self._preview_timer = self.set_timer(_PREVIEW_DELAY, self._start_preview)

    def _start_preview(self) -> None:
        line = self._highlighted
        width = self.query_one("#preview").scrollable_content_region.width
        if line is None:
            self.query_one("#end", Static).update(self._text_without_lines())
        elif width:
            self._render_preview(line.session, width)

    def _text_without_lines(self) -> str:
        if not self._search.is_finished:
            return ""
        if self._key.typed.strip():
            other = "the other" if self._is_archived else "the archived"
            return f"No session matches.\nTab searches {other} sessions."
        return "No session is archived." if self._is_archived else "No session is left."

    @work(thread=True, exclusive=True, group="preview")
    def _render_preview(self, session: Session, width: int) -> None:
        try:
            source = self._source
            lines = preview.render_preview(source.store, session, width, redact=source.redact)
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
        key = self._key

        def begin() -> None:
            if self._highlighted is not None and key == self._key:
                do(self._highlighted.session)

        self._pending_action = begin
        self._run_pending_action()

    def _run_pending_action(self) -> None:
        is_ready = self._search.is_complete(self._key, has_lines=bool(self._lines))
        if self._pending_action is not None and is_ready:
            action, self._pending_action = self._pending_action, None
            action()

    @work(thread=True, group="action")
    def _run_in_thread(self, action: Action) -> None:
        try:
            outcome = action()
        except RekindleError as error:
            outcome = ActionOutcome(str(error))
        self.post_message(ActionFinished(outcome))

    @on(ActionFinished)
    def _action_finished(self, message: ActionFinished) -> None:
        outcome = message.outcome
        self._actions.finish()
        self._status = printable(outcome.text)
        if outcome.session_id is not None:
            self._wanted_id = outcome.session_id
            self._search.hidden.discard(outcome.session_id)
        self._show_keys()
        self._show_status()
        self._metadata_search = MetadataSearch(self._source.store, self._source.page)
        self._start_search()

    def _do(self, action: _SessionAction, session: Session) -> None:
        self._actions.add(lambda: action(self._source.option, session))

    def _remove(self, action: _SessionAction, session: Session) -> None:
        """Run an action that removes a session from the list.

        The row disappears at once, so that the next key acts on its neighbour.
        """

        def run() -> ActionOutcome:
            try:
                return action(self._source.option, session)
            except RekindleError as error:
                return ActionOutcome(str(error), session.id)

        self._search.hidden.add(session.id)
        self._show_lines()
        self._actions.add(run)

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
        """Archive the highlighted session, or unarchive it."""
        archive = partial(actions.archive_session, is_archived=not self._is_archived)
        self._with_highlighted(lambda session: self._remove(archive, session))

    def action_delete(self) -> None:
        """Delete the highlighted session after a confirmation."""

        def ask(session: Session) -> None:
            def delete(is_confirmed: bool | None) -> None:  # noqa: FBT001 - Textual calls it
                if is_confirmed:
                    self._remove(actions.delete_session, session)

            question = f"Delete {title_label(session, redact=self._source.redact)}?"
            remark = "You can restore it for 30 days."
            self._ask(ConfirmDialog(question, remark, "delete", "keep"), delete)

        self._with_highlighted(ask)

    def action_rename(self) -> None:
        """Ask for a new title of the highlighted session."""

        def ask(session: Session) -> None:
            def rename(title: str | None) -> None:
                if title is not None:
                    self._do(partial(actions.rename_session, title=title), session)

            title = title_label(session, redact=self._source.redact) if session.title else ""
            self._ask(TitleDialog(title), rename)

        self._with_highlighted(ask)

    def action_undo(self) -> None:
        """Undo the last action."""
        self._pending_action = None
        self._actions.add(self._actions.undo)

    def action_toggle_archived(self) -> None:
        """Show the archived sessions, or the others again."""
        self._pending_action = None
        self._source = self._source.archived(is_archived=not self._is_archived)
        self._metadata_search = MetadataSearch(self._source.store, self._source.page)
        self._text_search = _text_search(self._source)
        self._search.limit, self._status, self._wanted_id = _PAGE, "", None
        self._show_keys()
        self._start_search()

    def _ask(self, dialog: Screen[_T], on_answer: Callable[[_T | None], None]) -> None:
        self.app.push_screen(dialog, on_answer)  # pyright: ignore[reportUnknownMemberType]

    def action_move(self, direction: str) -> None:
        """Move the highlight."""
        self._status, self._wanted_id = "", None
        rows = self.query_one(OptionList)
        (rows.action_cursor_up if direction == "cursor_up" else rows.action_cursor_down)()

    def action_scroll_preview(self, direction: int) -> None:
        """Scroll the preview by a page."""
        shown = self.query_one("#preview")
        (shown.scroll_page_up if direction < 0 else shown.scroll_page_down)(animate=False)


def _text_search(source: PickerSource) -> TextSearch | None:
    """Return the search in the text of the sessions; None if the store has no search."""
    if source.address is None or not can_be_searched(source.address):
        return None
    return TextSearch(source.address, source.store, source.page, redact=source.redact)
