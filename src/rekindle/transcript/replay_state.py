"""Replay the present state of a session: its options, commands, title and usage.

The registry of update kinds has the order and the translations.
"""

from collections.abc import Iterator

from rekindle.acp.translate.config import options_to_v2
from rekindle.acp.translate.session_state import SessionState
from rekindle.acp.update_kinds import SESSION_INFO_UPDATE, state_updates
from rekindle.jsonvalue import Json, as_object
from rekindle.transcript.model import Update
from rekindle.transcript.reducer import Transcript


def replay_state(
    transcript: Transcript, version: int, *, title: str | None = None, with_booleans: bool = True
) -> Iterator[Update]:
    """Yield the updates of the present state in a version, except whether the agent is working.

    `title` replaces the title that the agent reported.
    """
    updates = dict(transcript.state)
    if title is not None:
        info = {**updates.get(SESSION_INFO_UPDATE, {}), "sessionUpdate": SESSION_INFO_UPDATE}
        updates[SESSION_INFO_UPDATE] = {**info, "title": title}
    state = SessionState(
        updates=updates, modes=_current_modes(transcript), with_booleans=with_booleans
    )
    return map(mark_replayed, state_updates(state, version))


def current_options(transcript: Transcript) -> list[Json]:
    """Return the options with their present values. The modes are one of them."""
    return options_to_v2(transcript.config_options, _current_modes(transcript))


def mark_replayed(update: Update, **more: object) -> Update:
    """Return an update with `_meta.rekindle.replayed`, and these other values."""
    meta = as_object(update.get("_meta"))
    ours = {**as_object(meta.get("rekindle")), "replayed": True, **more}
    return {**update, "_meta": {**meta, "rekindle": ours}}


def _current_modes(transcript: Transcript) -> Json:
    modes = as_object(transcript.offered.get("modes"))
    mode = transcript.current_mode
    return modes if mode is None else {**modes, "currentModeId": mode}
