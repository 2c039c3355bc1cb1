"""Build the entries of an imported session, as if a client had recorded it live.

Imported sessions can then be folded, replayed and handed over like recorded ones. The builder adds
nothing that the tool has not recorded, except for the end of a turn, which most tools omit.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from rekindle.acp import methods
from rekindle.importers.base import EntryCounts
from rekindle.jsonvalue import Json
from rekindle.model import Entry, Kind, Side
from rekindle.text.times import in_us, read_iso

MAX_TIME_US = 253_402_300_799_999_999
"""The end of the year 9999. Later times are ignored."""
COMPACTED_TEXT = "[The conversation was compacted here: the agent went on with a summary of it.]"
"""The agent message that marks the place where a conversation was compacted."""
MAX_OPEN_CALLS = 10_000
"""The number of unfinished tool calls that a converter remembers."""

_MINUTE_LENGTH = len("2025-12-31T23:59:")
_USUAL_LENGTH = len("2025-12-31T23:59:59.999Z")
_encode = msgspec.json.Encoder().encode


class EntryBuilder:
    """Builds the entries of one session from its beginning, in version 1 of the protocol.

    Texts may be `Raw` JSON strings. They are then copied without being decoded.
    """

    def __init__(self, session_id: str, counts: EntryCounts, start_us: int = 0) -> None:
        self._session_id = _encode(session_id)
        params = b'"params":{"sessionId":' + self._session_id
        self._update_start = (
            b'{"jsonrpc":"2.0","method":"' + methods.UPDATE.encode() + b'",' + params
        )
        self._counts = counts
        self._entries: list[Entry] = []
        self._at_us = start_us
        self._prompt_id: str | None = None
        self._open_message: tuple[str, str | None] | None = None
        """The kind and id of the last message, if nothing else follows it."""
        self._pieces: dict[str, tuple[str, int]] = {}
        """For each kind, the id of the last message, and the number of pieces it was split into."""
        self.is_provisional = False
        """Whether the next entries would be different if the file went on."""

    @property
    def is_in_turn(self) -> bool:
        """Whether a prompt has no response yet."""
        return self._prompt_id is not None

    def set_time(self, at_us: int | None) -> None:
        """Set the time of the next entries. None keeps the last known time."""
        if at_us is not None and 0 <= at_us <= MAX_TIME_US:
            self._at_us = at_us

    def take_entries(self) -> list[Entry]:
        """Return the entries that were built since the last call."""
        entries, self._entries = self._entries, []
        return entries

    # -- turns --------------------------------------------------------------------------

    def add_prompt(self, prompt_id: str, blocks: Sequence[Json]) -> None:
        """Add a prompt, which begins a turn. The id must be unique within the session."""
        method = methods.PROMPT.encode()
        start = b'{"jsonrpc":"2.0","id":%b,"method":"%b",' % (_encode(prompt_id), method)
        params = b'"params":{"sessionId":%b,"prompt":' % self._session_id
        # The prompt may be long: join all parts at once, so that it is copied only once.
        line = b"".join((start, params, _encode(blocks), b"}}"))
        self._counts.turns += 1
        self._counts.messages += 1
        self._open_message = None
        self._prompt_id = prompt_id
        self._add(Side.CLIENT, Kind.PROMPT, line)

    def end_turn(self, stop_reason: str = "end_turn", at_us: int | None = None) -> None:
        """Add the response to the prompt, if a turn is running."""
        if self._prompt_id is None:
            return
        self.set_time(at_us)
        result = {"stopReason": stop_reason}
        line = _encode({"jsonrpc": "2.0", "id": self._prompt_id, "result": result})
        self._prompt_id = None
        self._add(Side.AGENT, Kind.ANSWER, line)

    def abandon_turn(self) -> None:
        """Leave the turn without a response, as an interrupted one."""
        self._prompt_id = None

    # -- updates ------------------------------------------------------------------------

    def add_agent_text(self, text: str | Raw, message_id: str | None = None) -> None:
        """Add text of the agent. Consecutive texts with the same id form one message."""
        self._add_text("agent_message_chunk", text, message_id)

    def add_thought(self, text: str | Raw, message_id: str | None = None) -> None:
        """Add a thought of the agent."""
        self._add_text("agent_thought_chunk", text, message_id)

    def _add_text(self, kind: str, text: str | Raw, message_id: str | None) -> None:
        message_id = self._piece_id(kind, message_id)
        id_field = b"" if message_id is None else b'"messageId":%b,' % _encode(message_id)
        encoded = text if isinstance(text, Raw) else _encode(text)
        start = b'%b,"update":{"sessionUpdate":"%b",%b"content":{"type":"text","text":' % (
            self._update_start, kind.encode(), id_field,
        )  # fmt: skip
        # Most entries are built here, so the line is put together by hand and copied once.
        line = b"".join((start, encoded, b"}}}}"))
        self._add(Side.AGENT, Kind.UPDATE, line)

    def add_user_block(self, block: Json, message_id: str) -> None:
        """Add a content block that the user sent while the agent was working."""
        kind = "user_message_chunk"
        piece_id = self._piece_id(kind, message_id)
        self.add_update({"sessionUpdate": kind, "messageId": piece_id, "content": block})

    def _piece_id(self, kind: str, message_id: str | None) -> str | None:
        """Return the id to record for a message, and count the message if it is a new one.

        A message that continues after something else gets a new id. Otherwise a client would append
        it to the piece before the interruption.
        """
        continues = self._open_message == (kind, message_id)
        self._open_message = kind, message_id
        self._counts.messages += not continues and kind != "agent_thought_chunk"
        if message_id is None:
            return None
        last_id, pieces = self._pieces.get(kind, ("", 0))
        pieces = 1 if last_id != message_id else pieces + (not continues)
        self._pieces[kind] = message_id, pieces
        return message_id if pieces == 1 else f"{message_id}/{pieces}"

    def add_tool_call(self, call_id: str, **fields: object) -> None:
        """Add a new tool call. The fields have the protocol's names."""
        self._open_message = None
        self.add_update({"sessionUpdate": "tool_call", "toolCallId": call_id, **fields})

    def update_tool_call(self, call_id: str, **fields: object) -> None:
        """Add an update of a tool call."""
        self.add_update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields})

    def finish_tool_call(self, call_id: str, text: str | Raw, *, is_error: bool = False) -> None:
        """Add the result of a tool call that consists of text only."""
        status = b"failed" if is_error else b"completed"
        self._add_update_line(
            b'{"sessionUpdate":"tool_call_update","toolCallId":%b,"status":"%b",'
            b'"content":[{"type":"content","content":{"type":"text","text":%b}}]}'
            % (_encode(call_id), status, _encode(text))
        )

    def add_plan(self, entries: Sequence[Json]) -> None:
        """Add the current state of the plan."""
        self._open_message = None
        self.add_update({"sessionUpdate": "plan", "entries": entries})

    def add_update(self, update: Json) -> None:
        """Add any other session update."""
        self._add_update_line(_encode(update))

    def _add_update_line(self, update: bytes) -> None:
        line = b'%b,"update":%b}}' % (self._update_start, update)
        self._add(Side.AGENT, Kind.UPDATE, line)

    def _add(self, side: Side, kind: Kind, line: bytes) -> None:
        self._counts.entries += 1
        if not self.is_provisional:
            self._counts.settled = self._counts.entries
        seq = self._counts.entries
        self._entries.append(Entry(seq=seq, side=side, kind=kind, at_us=self._at_us, line=line))


class InferredTurnEnd:
    """The end of the current turn, inferred because most tools do not record it.

    A turn has finished if the agent's last message in it is a text. Its end is added when the next
    turn begins, or provisionally at the end of the file.
    """

    def __init__(self, at_us: int | None = 0) -> None:
        self.is_finished = False
        self.stop_reason = "end_turn"
        self.at_us = at_us

    def finish(self, at_us: int | None) -> None:
        """Note that the turn would be complete if it ended now."""
        self.is_finished, self.stop_reason, self.at_us = True, "end_turn", at_us

    def apply(self, builder: EntryBuilder) -> None:
        """End the turn if it has finished; otherwise leave it as an interrupted one."""
        if self.is_finished:
            builder.end_turn(self.stop_reason, self.at_us)
        else:
            builder.abandon_turn()


class TimestampParser:
    """Parses the timestamps of records, most of which are in the same minute as the last one."""

    def __init__(self) -> None:
        self._minute = ""
        self._minute_us = 0

    def parse(self, timestamp: str | None) -> int | None:
        """Return an RFC 3339 timestamp in microseconds; None if it is not valid."""
        if timestamp is None:
            return None
        is_usual = len(timestamp) == _USUAL_LENGTH and timestamp[-1] == "Z"
        if is_usual and timestamp[:_MINUTE_LENGTH] == self._minute:
            # As in 59.999Z
            milliseconds = timestamp[_MINUTE_LENGTH:-5] + timestamp[-4:-1]
            if milliseconds.isdecimal() and milliseconds.isascii():
                return self._minute_us + int(milliseconds) * 1_000
        parsed = read_iso(timestamp)
        at_us = in_us(parsed) if parsed is not None else -1
        if not 0 <= at_us <= MAX_TIME_US:
            return None
        if is_usual:
            self._minute, self._minute_us = timestamp[:_MINUTE_LENGTH], at_us - at_us % 60_000_000
        return at_us


# -- parts of messages ------------------------------------------------------------------------


def text_block(text: str | Raw) -> Json:
    """Return a content block of text."""
    return {"type": "text", "text": text}


def tool_content(block: Json) -> Json:
    """Return a content block as part of a tool call's content."""
    return {"type": "content", "content": block}


def diff_content(path: str | Raw, old: str | Raw | None, new: str | Raw) -> Json:
    """Return the change of a file as part of a tool call's content."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def plan_entry(content: str, status: str) -> Json:
    """Return an entry of a plan."""
    known = status if status in {"pending", "in_progress", "completed"} else "pending"
    return {"content": content, "priority": "medium", "status": known}


def child_session_meta(session_id: str) -> Json:
    """Return the `_meta` of a tool call that links to the session of a sub-agent."""
    return {"rekindle": {"childSessionId": session_id}}


def with_content(fields: Json, content: list[Json]) -> Json:
    """Return the fields of a tool call, with its content if there is any."""
    return fields | ({"content": content} if content else {})
