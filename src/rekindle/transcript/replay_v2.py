"""Replay a transcript as the updates of a version 2 session.

Each message is sent whole, under its id; the rest of a long one follows in chunks. A terminal is
sent before the first tool call that shows it.
"""

from collections.abc import Iterator

from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import options_to_v2
from rekindle.jsonvalue import as_object
from rekindle.transcript.model import ReplayContext, TranscriptTurn, Update
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v1 import mark_replayed


def replay_v2(
    turns: list[TranscriptTurn],
    transcript: Transcript,
    *,
    title: str | None = None,
    is_running: bool = False,
) -> Iterator[Update]:
    """Yield the updates of these turns and of the present state.

    With `is_running`, the last turn has not ended.
    """
    last = len(transcript.turns)
    shown: set[str] = set()
    for turn in turns:
        context = ReplayContext(
            terminals=transcript.terminals,
            turn=turn,
            is_over=not (is_running and turn.number == last),
            shown_terminals=shown,
        )
        for item in turn.items:
            yield from map(mark_replayed, item.replay_v2(context))
    yield from map(mark_replayed, state_updates(transcript, title))


def state_updates(transcript: Transcript, title: str | None = None) -> Iterator[Update]:
    """Yield the updates of the present state, except whether the agent is working."""
    state = transcript.state
    options = current_options(transcript)
    if options:
        yield {"sessionUpdate": "config_option_update", "configOptions": options}
    if "available_commands_update" in state:
        known = state["available_commands_update"]
        commands = commands_to_v2(known.get("availableCommands"))
        yield {**known, "sessionUpdate": "available_commands_update", "availableCommands": commands}
    if title is not None or "session_info_update" in state:
        yield {
            **as_object(state.get("session_info_update")),
            "sessionUpdate": "session_info_update",
            **({} if title is None else {"title": title}),
        }
    if "usage_update" in state:
        yield {**state["usage_update"], "sessionUpdate": "usage_update"}


def current_options(transcript: Transcript) -> list[Update]:
    """Return the options with their present values. The modes are one of them."""
    modes = dict(as_object(transcript.offered.get("modes")))
    mode = transcript.current_mode
    if mode is not None:
        modes["currentModeId"] = mode
    options = transcript.config_options
    return options_to_v2(options, modes)
