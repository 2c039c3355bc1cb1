"""The end of a conversation, drawn beforehand: a thread does it, so that nobody waits."""

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
from rekindle.text.widths import ELLIPSIS
from rekindle.transcript.reducer import fold

# However long a session is, this much of its end is read, and that much of it drawn.
_ENTRIES = 3_000
_BYTES = 4_000_000
_TURNS = 4
_CHARACTERS_OF_A_PIECE = 4_000
_LINES = 400


def drawn(store: Store, session: Session, width: int) -> Text:
    """Return the last turns of a session, as lines of at most `width` cells."""
    console = make_console(width=width)
    group = Group(*render_pieces(map(_short, _pieces(store, session))))
    lines = console.render_lines(group, console.options, pad=False)[-_LINES:]
    return Text("\n", end="", no_wrap=True).join(
        Text.assemble(*((it.text, it.style or "") for it in line if not it.control))
        for line in lines
    )


def _pieces(store: Store, session: Session) -> Iterator[Piece]:
    after = max(0, session.last_seq - _ENTRIES)
    entries = _end_of(store.read(session.id, after=after))
    is_whole = not entries or entries[0].seq == 1
    # What is left of a turn whose beginning is not read would be told as another.
    whole = entries if is_whole else list(dropwhile(_is_within_a_turn, entries))
    transcript = fold(whole or entries)
    if not is_whole:
        for number, turn in enumerate(reversed(transcript.turns)):
            turn.number = max(1, session.turns - number)
    yield from heading(session)
    if not is_whole or len(transcript.turns) > _TURNS:
        yield Piece(kind="note", text=f"{ELLIPSIS} the last turns:")
    for turn in transcript.turns[-_TURNS:]:
        yield from turn_pieces(turn, FOLDED, transcript.terminals)


def _end_of(entries: Iterable[Entry]) -> list[Entry]:
    kept: deque[Entry] = deque()
    size = 0
    for entry in entries:
        kept.append(entry)
        size += len(entry.line)
        while size > _BYTES and len(kept) > 1:
            size -= len(kept.popleft().line)
    return list(kept)


def _is_within_a_turn(entry: Entry) -> bool:
    return entry.kind is not Kind.PROMPT


def _short(piece: Piece) -> Piece:
    if len(piece.text) <= _CHARACTERS_OF_A_PIECE:
        return piece
    return replace(piece, text=f"{piece.text[:_CHARACTERS_OF_A_PIECE]} {ELLIPSIS}")
