"""Starting an agent that has died, when it is needed again: not sooner, and not in a loop."""

from rekindle.core.capabilities import read_capabilities
from rekindle.core.connection import AgentState, Connection
from rekindle.core.flow import Ask, Part, Pause, Refusal, Reply, StartAgent
from rekindle.core.params import refusal_of
from rekindle.model import AgentIdentity
from rekindle.wire import methods
from rekindle.wire.envelope import INTERNAL_ERROR, table

_PATIENCE_US = 60_000_000
_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 30_000_000


def awake(conn: Connection) -> Part:
    """See to it that there is an agent. Raises Refusal."""
    agent = conn.agent
    if agent.is_running and agent.is_ready:
        return
    if not agent.is_initialized:
        raise Refusal(INTERNAL_ERROR, "the agent has ended before it was ready")
    agent.is_starting = agent.is_initializing = True
    try:
        if not agent.is_running:
            yield from _started(agent)
        reply: Reply = yield Ask(methods.INITIALIZE, agent.initialize_params, _PATIENCE_US)
        if not reply.is_success:
            raise refusal_of(reply, "initialize")
        identify(conn, reply.result)
        agent.is_ready = True
    finally:
        agent.is_starting = agent.is_initializing = False


def _started(agent: AgentState) -> Part:
    pause_us = pause_after(agent.deaths)
    if pause_us:
        yield Pause(pause_us)
    why: str | None = yield StartAgent()
    if why is not None:
        agent.deaths += 1
        raise Refusal(INTERNAL_ERROR, f"the agent could not be started again: {why}")
    agent.is_running, agent.is_ready = True, False


def identify(conn: Connection, result: object) -> None:
    """Learn from its answer to `initialize` what the agent is and can do."""
    agent = conn.agent
    agent.own = read_capabilities(table(result))
    agent.identity = AgentIdentity(
        name=agent.own.name, version=agent.own.version, command=agent.identity.command
    )
    agent.is_initialized = True


def pause_after(deaths: int) -> int:
    """Return how long to wait before the next start: the first one is free."""
    if deaths <= 1:
        return 0
    return min(_FIRST_PAUSE_US << (deaths - 2), _LONGEST_PAUSE_US)
