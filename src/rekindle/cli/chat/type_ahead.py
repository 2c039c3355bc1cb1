"""The text that the user types while the agent works.

It is shown below the output. Enter adds it to a queue of prompts, which are sent one after
another; ↑ takes the last one back. Text that is not sent stays for the next input line.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from rekindle.cli.formatting import one_line, plural, printable
from rekindle.cli.render.rich_text import PROMPT
from rekindle.cli.render.transcript import INDENT, Piece
from rekindle.cli.terminal import if_encodable
from rekindle.text.widths import cut_front

QUIT = "/quit"
_BRACKETED_PASTE_ON, _BRACKETED_PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_ESCAPE_TIMEOUT = 0.2
_MAX_QUEUED_ROWS = 3
_MAX_DRAFT_ROWS = 3
_MAX_DRAFT_CELLS = 60
"""A longer line is cut at its beginning, so that its end can be seen."""


class TypeAhead:
    """The prompts that wait, and the text that is not sent yet."""

    def __init__(self, input_: Input, show: Callable[[Sequence[Piece]], None]) -> None:
        self._input = input_
        self._show = show
        """Shows pieces below the output, a row each."""
        self._queue: deque[str] = deque()
        self._draft = Buffer()
        self._timer: asyncio.TimerHandle | None = None
        """Ends the wait for the rest of a sequence that begins with Escape."""
        self._had_escape = False
        """Whether the last key was Escape. Before Enter, that is Alt-Enter."""
        self._caret = if_encodable("▏", "|")

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read keys and show the typed text."""
        sys.stdout.write(_BRACKETED_PASTE_ON)
        # These keys were pressed together with the Enter that sent the last prompt.
        self._handle(get_typeahead(self._input))
        try:
            with self._input.attach(self._read):
                yield
        finally:
            self._stop_timer()
            self._show([])
            sys.stdout.write(_BRACKETED_PASTE_OFF)
            sys.stdout.flush()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the keys to others."""
        with self._input.detach():
            yield

    @property
    def has_draft(self) -> bool:
        """Whether there is text that is not sent."""
        return bool(self._draft.text)

    def take_prompt(self) -> str | None:
        """Remove the next prompt from the queue and return it; None if the queue is empty."""
        return self._queue.popleft() if self._queue else None

    def take_draft(self) -> str:
        """Remove the text that is not sent, and return it."""
        text = self._draft.text
        self._draft.reset()
        return text

    def set_draft(self, text: str) -> None:
        """Make a text the one that is not sent."""
        self._draft.text = text
        self._draft.cursor_position = len(text)

    def recall(self) -> None:
        """Make the waiting prompts text that is not sent, because the turn before them failed.

        A user who only wants to leave still does.
        """
        if list(self._queue) == [QUIT]:
            return
        prompts = [prompt for prompt in self._queue if prompt != QUIT]
        self._queue.clear()
        self._draft.text = "\n".join(filter(None, [*prompts, self._draft.text]))

    # -- keys ---------------------------------------------------------------------------

    def _read(self) -> None:
        self._handle(self._input.read_keys())
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(_ESCAPE_TIMEOUT, self._flush)

    def _flush(self) -> None:
        self._handle(self._input.flush_keys())
        self._had_escape = False

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handle(self, keys: list[KeyPress]) -> None:
        for key in keys:
            self._press(key)
            self._had_escape = key.key == Keys.Escape
        self._show(self._pieces())

    def _press(self, pressed: KeyPress) -> None:
        draft = self._draft
        match pressed.key:
            case Keys.ControlM if not self._had_escape:
                self._enter()
            case Keys.ControlM | Keys.ControlJ:
                draft.insert_text("\n")
            case Keys.Up if not draft.text and self._queue:
                draft.text = self._queue.pop()
                draft.cursor_position = len(draft.text)
            case Keys.ControlD if not draft.text:
                self._queue.append(QUIT)
            case Keys.BracketedPaste:
                draft.insert_text(pressed.data.replace("\r\n", "\n").replace("\r", "\n"))
            case Keys():
                self._edit(pressed.key)
            case letter if not self._had_escape:
                draft.insert_text(letter)
            case _:
                pass

    def _edit(self, key: Keys) -> None:
        draft = self._draft
        before = draft.document
        match key:
            case Keys.ControlH:
                draft.delete_before_cursor()
            case Keys.Delete | Keys.ControlD:
                draft.delete()
            case Keys.ControlU:
                draft.delete_before_cursor(before.cursor_position)
            case Keys.ControlK:
                draft.delete(len(before.text) - before.cursor_position)
            case Keys.ControlW:
                draft.delete_before_cursor(-(before.find_start_of_previous_word() or 0))
            case Keys.Left | Keys.ControlB:
                draft.cursor_position -= 1
            case Keys.Right | Keys.ControlF:
                draft.cursor_position += 1
            case Keys.Home | Keys.ControlA:
                draft.cursor_position = 0
            case Keys.End | Keys.ControlE:  # codespell:ignore controle
                draft.cursor_position = len(before.text)
            case _:
                pass

    def _enter(self) -> None:
        draft = self._draft
        if draft.document.text_before_cursor.endswith("\\"):
            draft.delete_before_cursor()
            draft.insert_text("\n")
        elif draft.text.strip():
            self._queue.append(draft.text)
            draft.reset()

    # -- showing ------------------------------------------------------------------------

    def _pieces(self) -> list[Piece]:
        return [*self._queued_pieces(), *self._draft_pieces()]

    def _queued_pieces(self) -> list[Piece]:
        hidden = len(self._queue) - _MAX_QUEUED_ROWS
        texts = [f"queued: {one_line(it)}" for it in list(self._queue)[-_MAX_QUEUED_ROWS:]]
        if hidden > 0:
            texts.insert(0, f"queued: {plural(hidden, 'more prompt')}")
        if texts and not self._draft.text:
            texts.append("↑ edits the last queued prompt")
        return [Piece(kind="note", text=text, mark=INDENT, is_row=True) for text in texts]

    def _draft_pieces(self) -> list[Piece]:
        text, at = self._draft.text, self._draft.cursor_position
        if not text:
            return []
        lines = f"{text[:at]}{self._caret}{text[at:]}".split("\n")
        shown = [cut_front(printable(line), _MAX_DRAFT_CELLS) for line in lines]
        marks = [PROMPT, *[INDENT] * (len(shown) - 1)]
        pieces = [
            Piece(kind="user", text=line, mark=mark, mark_style="user", is_row=True)
            for mark, line in zip(marks, shown, strict=True)
        ]
        return pieces[-_MAX_DRAFT_ROWS:]
