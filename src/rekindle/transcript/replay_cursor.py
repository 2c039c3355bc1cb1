"""Select the part of a transcript that a `replayFrom` cursor asks for.

A cursor is inclusive, as the specification requires: a message or tool call that began before the
cursor and changed after it is replayed whole.
"""

from typing import Any

from msgspec.structs import replace

from rekindle.acp.update_kinds import HISTORY_TRUNCATED
from rekindle.jsonvalue import Json, as_object, as_str
from rekindle.transcript.model import TranscriptItem, TranscriptMessage, TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.truncation import items_of, message_id

REPLAY_CURSORS = ("_rekindle_message", "_rekindle_turns", "_rekindle_seq")
"""The cursor types that Rekindle adds to `start`."""

_MESSAGE, _TURNS, _SEQ = REPLAY_CURSORS


class BadCursor(ValueError):
    """A cursor of an unknown type, with a wrong value, or for a message that does not exist."""

    def __init__(self, cursor: object, reason: str) -> None:
        super().__init__(reason)
        self.cursor = cursor
        self.reason = reason


def check_cursor(cursor: object) -> None:
    """Check the type of a cursor and the types of its values.

    Raises BadCursor.
    """
    fields = as_object(cursor)
    match as_str(fields.get("type")):
        case "start" | "_rekindle_message":
            pass
        case "_rekindle_turns":
            _whole_number(fields, "last")
        case "_rekindle_seq":
            _whole_number(fields, "seq")
        case _:
            raise BadCursor(cursor, "is not a known replay cursor")


def select_turns(cursor: object, transcript: Transcript) -> list[TranscriptTurn]:
    """Return the turns, or the parts of turns, that a cursor selects.

    Raises BadCursor.
    """
    fields = as_object(cursor)
    kind = fields.get("type")
    if kind == "start":
        return transcript.turns
    if kind == _MESSAGE:
        return _from_message(fields, transcript)
    if kind == _TURNS:
        count = _whole_number(fields, "last")
        return transcript.turns[max(len(transcript.turns) - count, 0) :] if count else []
    return _changed_since(transcript, _whole_number(fields, "seq"))


def truncation_since(cursor: object, transcript: Transcript) -> Json | None:
    """Return the update that removes what a client has seen and a rewind has removed, if any.

    Only the cursor `_rekindle_seq` shows what a client has seen.
    """
    fields = as_object(cursor)
    if fields.get("type") != _SEQ or fields["seq"] > transcript.truncations.last_seq:
        return None
    seen = _last_seen(transcript, fields["seq"])
    last_id = message_id(seen) if seen is not None else None
    return {"sessionUpdate": HISTORY_TRUNCATED, "lastMessageId": last_id}


def _last_seen(transcript: Transcript, seq: int) -> TranscriptItem | None:
    """Return the last message that began before an entry."""
    messages = (it for it in items_of(transcript.turns) if message_id(it) is not None)
    return max((it for it in messages if it.seq < seq), key=lambda it: it.seq, default=None)


def _from_message(cursor: dict[str, Any], transcript: Transcript) -> list[TranscriptTurn]:
    wanted = cursor.get("messageId")
    for turn in transcript.turns:
        for index, item in enumerate(turn.items):
            if isinstance(item, TranscriptMessage) and item.replay_id == wanted:
                later = transcript.turns[turn.number :]
                return [replace(turn, items=turn.items[index:]), *later]
    raise BadCursor(cursor, "does not name a message of the session")


def _changed_since(transcript: Transcript, seq: int) -> list[TranscriptTurn]:
    # After a rewind the client removes everything after the last message that it has seen.
    is_rewound = seq <= transcript.truncations.last_seq
    seen = _last_seen(transcript, seq) if is_rewound else None
    kept = seen.seq if seen is not None else 0

    def has_changed(item: TranscriptItem, turn: TranscriptTurn) -> bool:
        if is_rewound and item.seq > kept:
            return True
        last = item.changed_seq(turn, transcript.terminals)
        return last is None or last >= seq

    turns = [
        replace(turn, items=[item for item in turn.items if has_changed(item, turn)])
        for turn in transcript.turns
    ]
    return [turn for turn in turns if turn.items]


def _whole_number(cursor: dict[str, Any], name: str) -> int:
    value = cursor.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadCursor(cursor, f"needs a non-negative integer as {name}")
    return value
