"""The preview of a session: its last turns as text. Rendered in a thread."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import dropwhile

from msgspec.structs import replace
from rich.console import Group
from rich.text import Text

from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.rich_text import make_console, render_pieces
from rekindle.cli.render.transcript import Piece, heading, turn_pieces
from rekindle.model import Entry, Kind, Session
from rekindle.store.base import Store
from rekindle.text.redact.detect import mask
from rekindle.text.widths import ELLIPSIS
from rekindle.transcript.reducer import fold

# Limits of the part that is read and rendered, so that a long session costs no more.
_MAX_ENTRIES = 3_000
_MAX_BYTES = 4_000_000
_MAX_TURNS = 4
_MAX_PIECE = 4_000
_MAX_LINES = 400
_MAX_SECRET = 1_000


def render_preview(store: Store, session: Session, width: int, *, redact: bool = True) -> Text:
    """Return the last turns of a session as lines of at most `width` cells.

    Secrets are masked if `redact` is true.
    """
    console = make_console(width=width)
    pieces = (_shortened(it, redact=redact) for it in _pieces(store, session, redact=redact))
    group = Group(*render_pieces(pieces))
    lines = console.render_lines(group, console.options, pad=False)[-_MAX_LINES:]
    return Text("\n", end="", no_wrap=True).join(
        Text.assemble(
            *((segment.text, segment.style or "") for segment in line if not segment.control)
        )
        for line in lines
    )


def _pieces(store: Store, session: Session, *, redact: bool) -> Iterator[Piece]:
    after = max(0, session.last_seq - _MAX_ENTRIES)
    entries = _last_entries(store.read(session.id, after=after))
    is_whole = not entries or entries[0].seq == 1
    # The rest of a turn whose beginning is missing would appear as a turn of its own.
    whole_turns = entries if is_whole else list(dropwhile(_is_not_prompt, entries))
    transcript = fold(whole_turns or entries)
    if transcript.truncations.unresolved:
        # A rewind leads to an earlier turn.
        is_whole, transcript = True, fold(store.read(session.id))
    if not is_whole:
        for number, turn in enumerate(reversed(transcript.turns)):
            turn.number = max(1, session.turns - number)
    yield from heading(session, redact=redact)
    if not is_whole or len(transcript.turns) > _MAX_TURNS:
        yield Piece(kind="note", text=f"{ELLIPSIS} the last turns:")
    for turn in transcript.turns[-_MAX_TURNS:]:
        yield from turn_pieces(turn, FOLDED, transcript.terminals)


def _last_entries(entries: Iterable[Entry]) -> list[Entry]:
    kept: deque[Entry] = deque()
    size = 0
    for entry in entries:
        kept.append(entry)
        size += len(entry.line)
        while size > _MAX_BYTES and len(kept) > 1:
            size -= len(kept.popleft().line)
    return list(kept)


def _is_not_prompt(entry: Entry) -> bool:
    return entry.kind is not Kind.PROMPT


def _shortened(piece: Piece, *, redact: bool) -> Piece:
    """Return a piece of limited length."""
    # A secret at the limit is masked as a whole.
    text = piece.text[: _MAX_PIECE + _MAX_SECRET]
    text = mask(text) if redact else text
    is_long = len(text) > _MAX_PIECE
    return replace(piece, text=f"{text[:_MAX_PIECE]} {ELLIPSIS}" if is_long else text)
