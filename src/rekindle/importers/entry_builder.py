"""Making entries of what another tool has on record: as if a client had heard it from an agent.

So what is imported is folded, replayed and handed over as what was recorded here. Nothing is told
that the tool did not have on record, but for the end of a turn, which most tools leave out.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from rekindle.acp import methods
from rekindle.importers.base import Tally
from rekindle.model import Entry, Kind, Side
from rekindle.text.times import in_us, read_iso

Json = dict[str, Any]

LATEST_US = 253_402_300_799_999_999
"""What no calendar has is no time."""

_MINUTE = len("2025-12-31T23:59:")
_USUAL = len("2025-12-31T23:59:59.999Z")
_encode = msgspec.json.Encoder().encode


class Teller:
    """Tells one session from its beginning, in the words of version 1 of the protocol.

    Texts may be given as `Raw` JSON strings, which are then not even looked at.
    """

    def __init__(self, session_id: str, tally: Tally, first_us: int = 0) -> None:
        self._session = _encode(session_id)
        params = b'"params":{"sessionId":' + self._session
        self._update = b'{"jsonrpc":"2.0","method":"' + methods.UPDATE.encode() + b'",' + params
        self._tally = tally
        self._told: list[Entry] = []
        self._at_us = first_us
        self._prompt_id: str | None = None
        self._ends_with: tuple[str, str | None] | None = None
        """Which message was told last, if nothing else stands after it."""
        self._pieces: dict[str, tuple[str, int]] = {}
        """Of each kind, the id that was told last, and how many messages it was told as."""
        self.is_provisional = False
        """Whether what is told now would be told otherwise if the file went on."""

    @property
    def is_in_turn(self) -> bool:
        """Whether a prompt is not answered yet."""
        return self._prompt_id is not None

    def at(self, at_us: int | None) -> None:
        """Say when it was what is told next; None if nobody knows."""
        if at_us is not None and 0 <= at_us <= LATEST_US:
            self._at_us = at_us

    def take(self) -> list[Entry]:
        """Return what was told since the last time."""
        told, self._told = self._told, []
        return told

    # -- turns --------------------------------------------------------------------------

    def prompt(self, prompt_id: str, blocks: Sequence[Json]) -> None:
        """Tell what the user has asked; a turn begins. The id must be like no other."""
        method = methods.PROMPT.encode()
        begin = b'{"jsonrpc":"2.0","id":%b,"method":"%b",' % (_encode(prompt_id), method)
        params = b'"params":{"sessionId":%b,"prompt":' % self._session
        # It may be long, and is copied once.
        line = b"".join((begin, params, _encode(blocks), b"}}"))
        self._tally.turns += 1
        self._tally.messages += 1
        self._ends_with = None
        self._prompt_id = prompt_id
        self._add(Side.CLIENT, Kind.PROMPT, line)

    def end(self, stop_reason: str = "end_turn", at_us: int | None = None) -> None:
        """Tell how the turn ended, as it did then."""
        if self._prompt_id is None:
            return
        self.at(at_us)
        result = {"stopReason": stop_reason}
        line = _encode({"jsonrpc": "2.0", "id": self._prompt_id, "result": result})
        self._prompt_id = None
        self._add(Side.AGENT, Kind.ANSWER, line)

    def leave(self) -> None:
        """Leave the turn as one that was cut off."""
        self._prompt_id = None

    # -- what happens in them -----------------------------------------------------------

    def agent(self, words: str | Raw, message_id: str | None = None) -> None:
        """Tell what the agent has said. What has the same id is one message, up to what is else."""
        self._say("agent_message_chunk", words, message_id)

    def thought(self, words: str | Raw, message_id: str | None = None) -> None:
        """Tell what the agent has thought."""
        self._say("agent_thought_chunk", words, message_id)

    def _say(self, kind: str, words: str | Raw, message_id: str | None) -> None:
        message_id = self._name(kind, message_id)
        named = b"" if message_id is None else b'"messageId":%b,' % _encode(message_id)
        said = words if isinstance(words, Raw) else _encode(words)
        begin = b'%b,"update":{"sessionUpdate":"%b",%b"content":{"type":"text","text":' % (
            self._update, kind.encode(), named,
        )  # fmt: skip
        # Most of what is told is this, so it is written without much ado, and copied once.
        line = b"".join((begin, said, b"}}}}"))
        self._add(Side.AGENT, Kind.UPDATE, line)

    def user(self, block: Json, message_id: str) -> None:
        """Tell what the user has said while the agent was at work."""
        kind = "user_message_chunk"
        named = self._name(kind, message_id)
        self.update({"sessionUpdate": kind, "messageId": named, "content": block})

    def _name(self, kind: str, message_id: str | None) -> str | None:
        """Return what a message is called, and count it if it is another than the last one.

        What goes on after something else must not be told as what stands before that.
        """
        goes_on = self._ends_with == (kind, message_id)
        self._ends_with = kind, message_id
        self._tally.messages += not goes_on and kind != "agent_thought_chunk"
        if message_id is None:
            return None
        last_id, pieces = self._pieces.get(kind, ("", 0))
        pieces = 1 if last_id != message_id else pieces + (not goes_on)
        self._pieces[kind] = message_id, pieces
        return message_id if pieces == 1 else f"{message_id}/{pieces}"

    def call(self, call_id: str, **fields: object) -> None:
        """Tell that the agent calls a tool; the names are those of the protocol."""
        self._ends_with = None
        self.update({"sessionUpdate": "tool_call", "toolCallId": call_id, **fields})

    def called(self, call_id: str, **fields: object) -> None:
        """Tell what became of a call."""
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields})

    def printed(self, call_id: str, words: str | Raw, *, is_error: bool = False) -> None:
        """Tell what became of a call that brought nothing but text."""
        status = b"failed" if is_error else b"completed"
        self._write(
            b'{"sessionUpdate":"tool_call_update","toolCallId":%b,"status":"%b",'
            b'"content":[{"type":"content","content":{"type":"text","text":%b}}]}'
            % (_encode(call_id), status, _encode(words))
        )

    def plan(self, entries: Sequence[Json]) -> None:
        """Tell the plan as it stands."""
        self._ends_with = None
        self.update({"sessionUpdate": "plan", "entries": entries})

    def update(self, update: Json) -> None:
        """Tell anything else that an agent may tell."""
        self._write(_encode(update))

    def _write(self, update: bytes) -> None:
        self._add(Side.AGENT, Kind.UPDATE, b'%b,"update":%b}}' % (self._update, update))

    def _add(self, side: Side, kind: Kind, line: bytes) -> None:
        self._tally.entries += 1
        if not self.is_provisional:
            self._tally.settled = self._tally.entries
        seq = self._tally.entries
        self._told.append(Entry(seq=seq, side=side, kind=kind, at_us=self._at_us, line=line))


class Clock:
    """Reads the times of records, most of which are of the same minute as the one before."""

    def __init__(self) -> None:
        self._minute = ""
        self._minute_us = 0

    def read(self, written: str | None) -> int | None:
        """Return a time that is written as RFC 3339 has it, in microseconds; None if it is none."""
        if written is None:
            return None
        if written[:_MINUTE] == self._minute and len(written) == _USUAL and written[-1] == "Z":
            # As in 59.999Z
            thousandths = written[_MINUTE:-5] + written[-4:-1]
            if thousandths.isdecimal() and thousandths.isascii():
                return self._minute_us + int(thousandths) * 1_000
        told = read_iso(written)
        at_us = in_us(told) if told is not None else -1
        if not 0 <= at_us <= LATEST_US:
            return None
        if len(written) == _USUAL and written[-1] == "Z":
            self._minute, self._minute_us = written[:_MINUTE], at_us - at_us % 60_000_000
        return at_us


def text(words: str | Raw) -> Json:
    """Return a content block of text."""
    return {"type": "text", "text": words}


def shown(block: Json) -> Json:
    """Return a content block as a part of what a tool call shows."""
    return {"type": "content", "content": block}


def change(path: str | Raw, old: str | Raw | None, new: str | Raw) -> Json:
    """Return a change of a file as a part of what a tool call shows."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def step(content: str, status: str) -> Json:
    """Return an entry of a plan."""
    known = status if status in {"pending", "in_progress", "completed"} else "pending"
    return {"content": content, "priority": "medium", "status": known}
