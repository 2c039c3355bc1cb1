"""Record the turns that an agent replays and the record does not have.

A foreign turn is recorded like a turn that a client made: a prompt, the agent's updates, and an
answer. So it can be replayed, searched and exported like any other. The ids are Rekindle's own.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.rewrite import with_session_id
from rekindle.acp.update_kinds import is_user_message
from rekindle.jsonvalue import as_array, encode
from rekindle.model import Change, Counted, Entry, EntryBatch, Kind, Side, Truncated
from rekindle.proxy.journal import update_in
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_match import ReplayedTurn


def place_after(transcript: Transcript, number: int) -> int | None:
    """Return the seq of the first item after the turn with this number; None if there is none."""
    later = (turn.items for turn in transcript.turns if turn.number > number)
    return next((items[0].seq for items in later if items), None)


class ForeignTurnRecorder(Struct, frozen=True, kw_only=True):
    """Makes the changes that record foreign turns of one session."""

    session_id: str
    agent_id: str
    """The id that the agent's updates carry."""
    protocol: int
    """The agent's version of the protocol."""
    at_us: int

    def append(self, turns: Sequence[ReplayedTurn]) -> list[Change]:
        """Return the changes that add turns after all recorded ones."""
        changes: list[Change] = []
        for number, turn in enumerate(turns):
            changes += self._record(turn, f"{number}", self.at_us)
        return changes

    def insert(
        self, turns: Sequence[tuple[int, ReplayedTurn]], entries: Sequence[Entry]
    ) -> list[Change]:
        """Return the changes that put turns before recorded ones.

        Each turn comes with the seq of the entry that it precedes, in order. It gets the time of
        that entry, because nothing shows its own. `entries` are all recorded entries from the first
        place on: they are removed and written again, because a record only grows at its end.
        """
        first = turns[0][0]
        truncated = Truncated(session_id=self.session_id, at_us=self.at_us, until_seq=first - 1)
        changes: list[Change] = [truncated]
        places = {place for place, _ in turns}
        run: list[Entry] = []
        for entry in entries:
            if entry.seq in places or (run and not _can_share_row(run[-1], entry)):
                changes += self._written_again(run)
                run = []
            here = [turn for place, turn in turns if place == entry.seq]
            for number, turn in enumerate(here):
                changes += self._record(turn, f"{entry.seq}-{number}", entry.at_us)
            run.append(entry)
        return [*changes, *self._written_again(run)]

    def _written_again(self, run: list[Entry]) -> list[Change]:
        if not run:
            return []
        first = run[0]
        return [
            EntryBatch(
                session_id=self.session_id,
                side=first.side,
                kind=first.kind,
                at_us=first.at_us,
                data=b"\n".join(entry.line for entry in run),
                protocol=first.protocol,
                count=len(run),
            )
        ]

    def _record(self, turn: ReplayedTurn, suffix: str, at_us: int) -> list[Change]:
        blocks: list[Any] = []
        updates: list[bytes] = []
        for line in turn.lines:
            update = update_in(line)
            if is_user_message(str(update.get("sessionUpdate"))):
                content = update.get("content")
                blocks += as_array(content) or ([content] if isinstance(content, dict) else [])
            else:
                updates.append(with_session_id(line, self.agent_id, self.session_id))
        request_id = f"rekindle-foreign-{self.at_us}-{suffix}"
        params = {"sessionId": self.session_id, "prompt": blocks}
        prompt = {"jsonrpc": "2.0", "id": request_id, "method": methods.PROMPT, "params": params}
        answer = {"jsonrpc": "2.0", "id": request_id, "result": {"stopReason": "end_turn"}}
        messages = 1 + len(turn.answers)
        return [
            Counted(session_id=self.session_id, at_us=at_us, turns=1, messages=messages),
            # In version 1 a prompt begins a turn even if an earlier one was cut off.
            self._entry(Side.CLIENT, Kind.PROMPT, encode(prompt), at_us, protocol=1),
            *(
                self._entry(Side.AGENT, Kind.UPDATE, line, at_us, protocol=self.protocol)
                for line in updates
            ),
            self._entry(Side.AGENT, Kind.ANSWER, encode(answer), at_us, protocol=1),
        ]

    def _entry(
        self, side: Side, kind: Kind, line: bytes, at_us: int, *, protocol: int
    ) -> EntryBatch:
        return EntryBatch(
            session_id=self.session_id,
            side=side,
            kind=kind,
            at_us=at_us,
            data=line,
            protocol=protocol,
        )


def _can_share_row(one: Entry, other: Entry) -> bool:
    return (one.side, one.kind, one.at_us, one.protocol) == (
        other.side,
        other.kind,
        other.at_us,
        other.protocol,
    )
