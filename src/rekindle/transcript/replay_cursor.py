"""`replayFrom`: where a replay begins. Inclusive, as the specification asks; never a guess."""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.capabilities import CURSORS
from rekindle.acp.jsonrpc import rows, table, text
from rekindle.model import Session
from rekindle.proxy.flow import Find, Flow, Refusal, Tell
from rekindle.proxy.validation import invalid
from rekindle.transcript.model import Item, Message, ToolCall, Turn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v1 import Terminals, as_line, is_unfinished, message_id

_MESSAGE, _TURNS, _SEQ = CURSORS


def check_cursor(cursor: object) -> None:
    """Raise Refusal if a cursor is of no kind that is known."""
    told = table(cursor)
    match text(told.get("type")):
        case "start" | "_rekindle_message":
            pass
        case "_rekindle_turns":
            _number(told, "last")
        case "_rekindle_seq":
            _number(told, "seq")
        case _:
            raise _refused(cursor, "is no place to replay from that is known here")


def turns_from(cursor: object, transcript: Transcript) -> list[Turn]:
    """Return the turns, or the parts of them, that a cursor asks for. Raises Refusal."""
    told = table(cursor)
    match told.get("type"):
        case "start":
            return transcript.turns
        case _ if told.get("type") == _MESSAGE:
            return _from_message(told, transcript)
        case _ if told.get("type") == _TURNS:
            count = _number(told, "last")
            return transcript.turns[max(len(transcript.turns) - count, 0) :] if count else []
        case _:
            return _since(transcript, _number(told, "seq"))


def tell_position(session_id: str) -> Flow:
    """Tell the client from where on it has yet to hear of a session, as far as is known."""
    session: Session | None = None
    with suppress(Refusal):
        session = yield Find(session_id)
    if session is not None:
        ours = {"rekindle": {"seq": session.last_seq + 1}}
        yield Tell(
            [as_line(session_id, {"sessionUpdate": methods.SESSION_INFO_UPDATE, "_meta": ours})]
        )
    return None


def _from_message(told: dict[str, Any], transcript: Transcript) -> list[Turn]:
    wanted = told.get("messageId")
    for turn in transcript.turns:
        for index, item in enumerate(turn.items):
            if isinstance(item, Message) and message_id(item) == wanted:
                later = transcript.turns[turn.number :]
                return [replace(turn, items=turn.items[index:]), *later]
    raise _refused(told, "names no message of the session")


def _since(transcript: Transcript, seq: int) -> list[Turn]:
    """Return what has changed since an entry; what was begun before it is told whole."""
    turns = [
        replace(turn, items=[item for item in turn.items if _has_changed(item, turn, seq, shown)])
        for shown in [transcript.terminals]
        for turn in transcript.turns
    ]
    return [turn for turn in turns if turn.items]


def _has_changed(item: Item, turn: Turn, seq: int, terminals: Terminals) -> bool:
    last = max(item.seq, item.last_seq)
    if isinstance(item, ToolCall):
        names = [str(table(part).get("terminalId")) for part in rows(item.fields.get("content"))]
        last = max([last, *(terminals[name].last_seq for name in names if name in terminals)])
        if is_unfinished(item):
            # It ends with its turn: then, or when that was cut off, which nobody has noted.
            last = max(last, turn.ended_seq or seq)
    return last >= seq


def _number(told: dict[str, Any], name: str) -> int:
    value = told.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refused(told, f"needs a whole number as {name}")
    return value


def _refused(cursor: object, what: str) -> Refusal:
    return invalid(methods.RESUME, "replayFrom", cursor, what)
