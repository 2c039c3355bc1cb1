"""Add the conversations of sub-agents to the replay of their parent.

A sub-agent is announced where its parent announced it. Its whole conversation follows, under its
own session id, and then its state. The state of work that was running when the record ended is
reported as unknown: it neither runs any more, nor is it known to have failed.
"""

from collections.abc import Collection, Iterable, Iterator

from rekindle.acp.translate.subagents import state_report
from rekindle.acp.update_kinds import Category, concerns_subagents, kind_of
from rekindle.transcript.model import TranscriptTurn, Update
from rekindle.transcript.replay_state import mark_replayed
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2
from rekindle.transcript.subagents import SubagentItem, subagents_in

SessionUpdate = tuple[str, Update]
"""A session id, and an update of that session."""


def with_subagents(
    session_id: str,
    updates: Iterable[Update],
    turns: Iterable[TranscriptTurn],
    version: int,
    *,
    running: Collection[str] = (),
) -> Iterator[SessionUpdate]:
    """Yield the updates of a session, each with its session id, and those of its sub-agents.

    `turns` are the turns that the updates replay. `running` are the sub-agents that still work.
    """
    known = {item.id: item for item in subagents_in(turns)}
    for update in updates:
        yield session_id, update
        is_announced = kind_of(update.get("sessionUpdate")).category is Category.SUBAGENT
        item = known.pop(str(update.get("sessionId")), None) if is_announced else None
        if item is not None:
            yield from _conversation(session_id, item, version, running)


def without_subagents(session_id: str, updates: Iterable[Update]) -> Iterator[SessionUpdate]:
    """Yield the updates of a session for a client that does not know sub-agents."""
    for update in updates:
        if not concerns_subagents(str(update.get("sessionUpdate"))):
            yield session_id, update


def _conversation(
    parent_id: str, item: SubagentItem, version: int, running: Collection[str]
) -> Iterator[SessionUpdate]:
    child = item.child
    if child is not None:
        is_running = item.id in running
        updates = (
            replay_v1(child, is_running=is_running)
            if version == 1
            else replay_v2(child.turns, child, is_running=is_running)
        )
        yield from with_subagents(item.id, updates, child.turns, version, running=running)
    state = item.past_state
    if state is not None:
        yield parent_id, mark_replayed(state_report(item.id, state))
        if version > 1:
            yield item.id, mark_replayed({"sessionUpdate": "state_update", **state})
