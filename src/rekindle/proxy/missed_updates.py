"""Find the updates that the record has and a client lacks after the end of its host."""

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INTERNAL_ERROR, error_response, read_envelope, update_line
from rekindle.acp.recorded_fields import recorded_request
from rekindle.acp.translate.endings import cancelled_prompt, ending_to_v1, ending_to_v2
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.update_kinds import update_to_v1
from rekindle.jsonvalue import Json, as_array, as_object, decode_object, encode
from rekindle.model import Entry, Kind, Side
from rekindle.proxy.host_connections import HostRequest
from rekindle.proxy.journal import update_in
from rekindle.transcript.model import (
    ToolCallItem,
    TranscriptTurn,
    handover_in,
    handover_notice,
)
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_cursor import select_turns
from rekindle.transcript.replay_v2 import replay_v2


def missed_lines(
    protocol: int,
    session_id: str,
    transcript: Transcript,
    missed: list[Entry],
    own_prompts: list[HostRequest],
) -> Iterator[bytes]:
    """Yield the updates of the last entries of a session for a client that lacks them.

    A version 1 client knows its own prompts. A version 2 client receives whole messages again,
    which replace its own.
    """
    if protocol == 1:
        updates = _missed_in_v1(transcript, missed, [_blocks(it.line) for it in own_prompts])
    else:
        cursor = {"type": "_rekindle_seq", "seq": missed[0].seq}
        updates = replay_v2(select_turns(cursor, transcript), transcript, is_running=False)
    return (update_line(session_id, update) for update in updates)


def _missed_in_v1(
    transcript: Transcript, missed: list[Entry], own_prompts: list[list[Any]]
) -> Iterator[Json]:
    known = (it for turn in transcript.turns for it in turn.items if it.seq < missed[0].seq)
    to_v1 = LiveToV1()
    to_v1.tool_calls.know([it.id for it in known if isinstance(it, ToolCallItem)])
    for entry in missed:
        if entry.kind is Kind.PROMPT:
            blocks = _blocks(entry.line)
            if blocks in own_prompts:
                own_prompts.remove(blocks)
                continue
            # Chunks of one message have one id.
            chunk = {"sessionUpdate": "user_message_chunk", "messageId": f"rekindle-{entry.seq}"}
            for block in blocks:
                yield {**chunk, "content": block}
        elif entry.kind is Kind.HANDOVER:
            yield handover_notice(entry.at_us, handover_in(entry).reason)
        elif entry.kind is Kind.UPDATE and entry.side is Side.AGENT:
            update = update_in(entry.line)
            yield from [update] if entry.protocol == 1 else update_to_v1(to_v1, update)


def responses_to(
    protocol: int, prompts: list[HostRequest], entries: list[Entry], transcript: Transcript
) -> Iterator[bytes]:
    """Yield the responses to prompts: those in the record, or the error of the ended host."""
    for prompt in prompts:
        recorded = _recorded_prompt(prompt, entries)
        answer = None if recorded is None else _answer_after(recorded, prompt.id, entries)
        turn = None if recorded is None else _turn_of(recorded, transcript)
        if answer is not None:
            yield answer.line
        elif protocol == 1 and turn is not None and not turn.was_cut_off:
            # The agent is of version 2, which ends a turn in another way.
            outcome = {"error": turn.error, "result": {"stopReason": turn.stop_reason}}
            ending = ending_to_v1(ending_to_v2(outcome))
            yield encode({"jsonrpc": "2.0", "id": prompt.id, **ending})
        elif prompt.is_cancelled:
            yield cancelled_prompt(protocol, prompt.id)
        else:
            yield error_response(prompt.id, **interrupted())


def _recorded_prompt(prompt: HostRequest, entries: list[Entry]) -> Entry | None:
    line = recorded_request(methods.PROMPT, prompt.line)
    found = (it for it in entries if it.kind is Kind.PROMPT and it.seq > prompt.after_seq)
    return next((it for it in found if it.line == line), None)


def _answer_after(recorded: Entry, prompt_id: Raw, entries: list[Entry]) -> Entry | None:
    """Return the response to a prompt. Other clients use the same ids."""
    for entry in entries:
        if entry.seq > recorded.seq and entry.kind is Kind.ANSWER:
            envelope = read_envelope(entry.line)
            if envelope is not None and envelope.id == prompt_id:
                return entry
    return None


def _turn_of(recorded: Entry, transcript: Transcript) -> TranscriptTurn | None:
    turns = (it for it in transcript.turns if it.items and it.items[0].seq == recorded.seq)
    return next(turns, None)


def undelivered_prompts(prompts: list[HostRequest], recorded: list[Entry]) -> list[HostRequest]:
    """Return the prompts that no agent has received.

    A host records a prompt before its agent receives it, unless the host cannot record. A cancelled
    prompt must not run.
    """
    return [
        it
        for it in prompts
        if not (it.is_cancelled or it.may_be_unrecorded) and _recorded_prompt(it, recorded) is None
    ]


def ending_of_last_turn(transcript: Transcript, missed: list[Entry]) -> Json:
    """Return the state of a session after its host has ended: idle, and why the last turn ended.

    A turn that was interrupted earlier is known to the client.
    """
    if not transcript.turns:
        return {"state": "idle"}
    turn = transcript.turns[-1]
    if turn.ended_us is None:
        was_interrupted_before = turn.precedes_opening and not any(
            it.kind is Kind.SETUP for it in missed
        )
        return (
            {"state": "idle"} if was_interrupted_before else ending_to_v2({"error": interrupted()})
        )
    if turn.ended_seq in {it.seq for it in missed}:
        return ending_to_v2({"error": turn.error, "result": {"stopReason": turn.stop_reason}})
    return {"state": "idle"}


def interrupted() -> Json:
    """Return the error of a prompt whose host has ended."""
    text = "the process that ran the agent has ended: the turn was interrupted"
    return {"code": INTERNAL_ERROR, "message": text, "data": {"agentEnded": True}}


def _blocks(line: bytes) -> list[Any]:
    params = as_object((decode_object(line) or {}).get("params"))
    return as_array(params.get("prompt"))
