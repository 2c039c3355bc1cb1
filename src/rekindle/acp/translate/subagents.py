"""Translate the updates about sub-agents and the messages between sessions.

Both versions have the same updates. In version 1 a state has no `background`, and the state of a
sub-agent is reported by its parent only, because version 1 has no `state_update`.
"""

from rekindle.acp.translate.content import block_to_v1
from rekindle.jsonvalue import Json, as_array, as_object, without

SUBAGENT_UPDATE = "subagent_update"


def subagent_to_v1(update: Json) -> Json:
    """Return a `subagent_update` in the form of version 1. Lost: the background work."""
    state = update.get("state")
    return {**update, "state": state_to_v1(as_object(state))} if state is not None else update


def state_to_v1(state: Json) -> Json:
    """Return the state of a sub-agent in the form of version 1. Lost: the background work."""
    return without(state, "background")


def session_message_to_v1(update: Json) -> Json:
    """Return a message between sessions, or a chunk of one, in the form of version 1."""
    content = update.get("content")
    if isinstance(content, list):
        blocks = map(as_object, as_array(update["content"]))
        return {**update, "content": [block_to_v1(block) for block in blocks]}
    if isinstance(content, dict):
        return {**update, "content": block_to_v1(as_object(update["content"]))}
    return update


def state_report(session_id: str, state: Json) -> Json:
    """Return the update with which a parent reports the state of a sub-agent."""
    return {"sessionUpdate": SUBAGENT_UPDATE, "sessionId": session_id, "state": state}
