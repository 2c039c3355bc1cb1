"""Record the turns that an agent replays and the record does not have.

A foreign turn is recorded like a turn that a client made: a prompt, the agent's updates, and an
answer. So it can be replayed, searched and exported like any other. The ids are Rekindle's own.
"""

from collections.abc import Sequence
from typing import Any

from rekindle.acp import methods
from rekindle.acp.rewrite import with_session_id
from rekindle.acp.update_kinds import is_user_message
from rekindle.jsonvalue import as_array, encode
from rekindle.model import Change, Counted, Entry, EntryBatch, Kind, Side, Truncated
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.journal import agent_entry, update_in
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_match import ReplayedTurn


def appended_turns(
    conn: ConnectionState, session_id: str, turns: Sequence[ReplayedTurn]
) -> list[Change]:
    """Return the changes that add foreign turns after all recorded ones."""
    changes: list[Change] = []
    for number, turn in enumerate(turns):
        changes += _turn_changes(conn, session_id, turn, f"rekindle-foreign-{conn.at_us}-{number}")
    return changes


def inserted_turns(
    conn: ConnectionState,
    session_id: str,
    transcript: Transcript,
    turns: Sequence[tuple[int, ReplayedTurn]],
    entries: Sequence[Entry],
) -> list[Change]:
    """Return the changes that put foreign turns before recorded ones.

    Each turn comes with the number of the recorded turn that it follows. `entries` are all recorded
    entries from the first place on: they are removed and written again, because a record only grows
    at its end.
    """
    places = {
        transcript.turns[after].items[0].seq: [turn for it, turn in turns if it == after]
        for after, _ in turns
    }
    first = min(places)
    changes: list[Change] = [
        Truncated(session_id=session_id, at_us=conn.at_us, until_seq=first - 1)
    ]
    for entry in entries:
        for number, turn in enumerate(places.get(entry.seq, ())):
            request_id = f"rekindle-foreign-{conn.at_us}-{entry.seq}-{number}"
            changes += _turn_changes(conn, session_id, turn, request_id)
        changes.append(
            EntryBatch(
                session_id=session_id,
                side=entry.side,
                kind=entry.kind,
                at_us=entry.at_us,
                data=entry.line,
                protocol=entry.protocol,
            )
        )
    return changes


def _turn_changes(
    conn: ConnectionState, session_id: str, turn: ReplayedTurn, request_id: str
) -> list[Change]:
    protocol = conn.agent.capabilities.protocol
    blocks: list[Any] = []
    updates: list[bytes] = []
    for line in turn.lines:
        update = update_in(line)
        if is_user_message(str(update.get("sessionUpdate"))):
            content = update.get("content")
            blocks += as_array(content) or ([content] if isinstance(content, dict) else [])
        else:
            live = conn.sessions.get(session_id)
            agent_id = live.agent_id if live is not None else session_id
            updates.append(with_session_id(line, agent_id, session_id))
    params = {"sessionId": session_id, "prompt": blocks}
    prompt = {"jsonrpc": "2.0", "id": request_id, "method": methods.PROMPT, "params": params}
    answer = {"jsonrpc": "2.0", "id": request_id, "result": {"stopReason": "end_turn"}}
    messages = 1 + len(turn.answers)
    return [
        Counted(session_id=session_id, at_us=conn.at_us, turns=1, messages=messages),
        EntryBatch(
            session_id=session_id,
            side=Side.CLIENT,
            kind=Kind.PROMPT,
            at_us=conn.at_us,
            data=encode(prompt),
            protocol=protocol,
        ),
        *(agent_entry(conn, session_id, Kind.UPDATE, line) for line in updates),
        agent_entry(conn, session_id, Kind.ANSWER, encode(answer)),
    ]
