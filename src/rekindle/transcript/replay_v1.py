"""Replay a transcript as the updates of a version 1 session.

A client that applies them has the same state as a client that watched the session live: whole
messages in order, the final state of tool calls and plans, and then the present state of the
session. There are three intended differences. A tool call that was open when its turn was cut off
or cancelled has failed. A terminal is shown as text. Every message has an id; where the agent gave
none, the id is derived from its place in the record, so it stays the same.
"""

from collections.abc import Iterable, Iterator

from rekindle.transcript.model import ReplayContext, Terminals, TranscriptTurn, Update
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import mark_replayed, replay_state


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
    yield from replay_state(transcript, 1, title=title, with_booleans=with_booleans)


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
