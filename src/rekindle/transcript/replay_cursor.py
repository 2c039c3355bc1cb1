"""Select the part of a transcript that a `replayFrom` cursor asks for.

A cursor is inclusive, as the specification requires: a message or tool call that began before the
cursor and changed after it is replayed whole.
"""

from typing import Any

from msgspec.structs import replace

from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.transcript.model import Item, ToolCallItem, TranscriptMessage, TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v1 import Terminals, is_unfinished, message_id

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
            raise BadCursor(cursor, "is no place to replay from that is known here")


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


def _from_message(cursor: dict[str, Any], transcript: Transcript) -> list[TranscriptTurn]:
    wanted = cursor.get("messageId")
    for turn in transcript.turns:
        for index, item in enumerate(turn.items):
            if isinstance(item, TranscriptMessage) and message_id(item) == wanted:
                later = transcript.turns[turn.number :]
                return [replace(turn, items=turn.items[index:]), *later]
    raise BadCursor(cursor, "names no message of the session")


def _changed_since(transcript: Transcript, seq: int) -> list[TranscriptTurn]:
    terminals = transcript.terminals
    turns = [
        replace(turn, items=[it for it in turn.items if _has_changed(it, turn, seq, terminals)])
        for turn in transcript.turns
    ]
    return [turn for turn in turns if turn.items]


def _has_changed(item: Item, turn: TranscriptTurn, seq: int, terminals: Terminals) -> bool:
    last = max(item.seq, item.last_seq)
    if isinstance(item, ToolCallItem):
        content = map(as_object, as_array(item.fields.get("content")))
        shown = [terminals.get(str(part.get("terminalId"))) for part in content]
        last = max([last, *(terminal.last_seq for terminal in shown if terminal is not None)])
        if is_unfinished(item):
            # An unfinished call ends with its turn. No entry marks the end of an interrupted turn.
            last = max(last, turn.ended_seq or seq)
    return last >= seq


def _whole_number(cursor: dict[str, Any], name: str) -> int:
    value = cursor.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadCursor(cursor, f"needs a whole number as {name}")
    return value
