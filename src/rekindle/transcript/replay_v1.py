"""Replay a transcript as the updates of a version 1 session.

A client that applies them has the same state as a client that watched the session live: whole
messages in order, the final state of tool calls and plans, and then the present state of the
session. There are three intended differences. A tool call that never ended has failed. A terminal
is shown as text. Every message has an id; where the agent gave none, the id is derived from its
place in the record, so it stays the same.
"""

from collections.abc import Iterable, Iterator

from rekindle.acp.translate.commands import commands_to_v1
from rekindle.acp.translate.config import options_to_v1
from rekindle.acp.update_kinds import SESSION_INFO_UPDATE
from rekindle.jsonvalue import as_object
from rekindle.transcript.model import ReplayContext, Terminals, TranscriptTurn, Update
from rekindle.transcript.reducer import Transcript

_STATE_KINDS = (
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    SESSION_INFO_UPDATE,
    "usage_update",
)
"""The updates of the present state, in the order in which they are replayed."""


def replay_v1(
    transcript: Transcript,
    turns: Iterable[TranscriptTurn] | None = None,
    *,
    title: str | None = None,
    is_running: bool = False,
    with_booleans: bool = True,
) -> Iterator[Update]:
    """Yield the updates of these turns, or of all, and of the present state.

    `turns` may be an iterator that takes the turns from the transcript. With `is_running`, the
    last turn has not ended. With `with_booleans`, the client can show boolean options.
    """
    last = len(transcript.turns)
    for turn in transcript.turns if turns is None else turns:
        is_going_on = is_running and turn.number == last
        yield from _replay_turn(turn, transcript.terminals, is_going_on=is_going_on)
    state = dict(transcript.state)
    if title is not None:
        info = as_object(state.get(SESSION_INFO_UPDATE))
        state[SESSION_INFO_UPDATE] = {**info, "title": title}
    for kind in _STATE_KINDS:
        if kind in state:
            fields = {k: v for k, v in state[kind].items() if k != "sessionUpdate"}
            fields = _state_to_v1(kind, fields, with_booleans=with_booleans)
            yield mark_replayed({"sessionUpdate": kind, **fields})


def _state_to_v1(kind: str, fields: Update, *, with_booleans: bool) -> Update:
    match kind:
        case "config_option_update":
            options = options_to_v1(fields.get("configOptions"), with_booleans=with_booleans)
            return {**fields, "configOptions": options}
        case "available_commands_update":
            return {**fields, "availableCommands": commands_to_v1(fields.get("availableCommands"))}
        case _:
            return fields


def _replay_turn(
    turn: TranscriptTurn, terminals: Terminals, *, is_going_on: bool
) -> Iterator[Update]:
    last: Update | None = None
    context = ReplayContext(terminals=terminals, turn=turn, is_over=not is_going_on)
    for item in turn.items:
        context.may_continue = is_going_on and item is turn.items[-1]
        for update in item.replay_v1(context):
            if last is not None:
                yield mark_replayed(last)
            last = update
    if last is not None:
        is_interrupted = turn.was_cut_off and not is_going_on
        yield mark_replayed(last, **({"interrupted": True} if is_interrupted else {}))


def mark_replayed(update: Update, **more: object) -> Update:
    """Return an update with `_meta.rekindle.replayed`, and these other values."""
    meta = as_object(update.get("_meta"))
    ours = {**as_object(meta.get("rekindle")), "replayed": True, **more}
    return {**update, "_meta": {**meta, "rekindle": ours}}
