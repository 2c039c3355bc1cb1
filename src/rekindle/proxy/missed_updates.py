"""Find the updates that the record has and a client lacks after the end of its host."""

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INTERNAL_ERROR, error_response, read_envelope, update_line
from rekindle.acp.recorded_fields import recorded_request
from rekindle.acp.translate.endings import cancelled_prompt, ending_to_v2
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.update_kinds import update_to_v1
from rekindle.jsonvalue import Json, as_array, as_object, decode_object
from rekindle.model import Entry, Kind, Side
from rekindle.proxy.host_connections import HostRequest
from rekindle.proxy.journal import update_in
from rekindle.transcript.model import ToolCallItem, handover_in, handover_notice
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


def responses_to(protocol: int, prompts: list[HostRequest], missed: list[Entry]) -> Iterator[bytes]:
    """Yield the responses to prompts: those in the record, or the error of the ended host."""
    answers: dict[bytes, bytes] = {}
    for entry in missed:
        envelope = read_envelope(entry.line) if entry.kind is Kind.ANSWER else None
        if envelope is not None and isinstance(envelope.id, Raw):
            answers[bytes(envelope.id)] = entry.line
    for prompt in prompts:
        if bytes(prompt.id) in answers:
            yield answers[bytes(prompt.id)]
        elif prompt.is_cancelled:
            yield cancelled_prompt(protocol, prompt.id)
        else:
            yield error_response(prompt.id, **interrupted())


def undelivered_prompts(prompts: list[HostRequest], recorded: list[Entry]) -> list[HostRequest]:
    """Return the prompts that no agent has received.

    A host records a prompt before its agent receives it. A cancelled prompt must not run.
    """
    lines = {it.line for it in recorded if it.kind is Kind.PROMPT}
    return [
        it
        for it in prompts
        if not it.is_cancelled and recorded_request(methods.PROMPT, it.line) not in lines
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
