"""Starting an agent that has died, when it is needed again: not sooner, and not in a loop."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import read_capabilities
from rekindle.acp.jsonrpc import INTERNAL_ERROR, UNSUPPORTED_VERSION
from rekindle.jsonvalue import as_object
from rekindle.model import AgentIdentity
from rekindle.proxy.connection_state import AgentState, ConnectionState
from rekindle.proxy.flow import AgentReply, CallAgent, Pause, Refusal, StartAgent, SubFlow
from rekindle.proxy.validation import refusal_of

_PATIENCE_US = 60_000_000
_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 30_000_000


def awake(conn: ConnectionState) -> SubFlow:
    """See to it that there is an agent. Raises Refusal."""
    agent = conn.agent
    if agent.is_running and agent.is_ready:
        return
    if not agent.is_initialized:
        details = agent.ended and agent.ended.details
        raise Refusal(INTERNAL_ERROR, f"{agent.ended} before it was ready", details)
    agent.is_starting = agent.is_initializing = True
    try:
        if not agent.is_running:
            yield from _started(agent)
        identify(conn, (yield from _greeted(agent)))
        agent.is_ready = True
    finally:
        agent.is_starting = agent.is_initializing = False


def _started(agent: AgentState) -> SubFlow:
    pause_us = pause_after(agent.deaths)
    if pause_us:
        yield Pause(pause_us)
    why: str | None = yield StartAgent()
    if why is not None:
        agent.deaths += 1
        details = agent.ended and agent.ended.details
        raise Refusal(INTERNAL_ERROR, f"the agent could not be started again: {why}", details)
    agent.is_running, agent.is_ready = True, False


def _greeted(agent: AgentState) -> SubFlow:
    """Return the answer to `initialize`: it may be another release, of another version."""
    refusals: list[Refusal] = []
    for greeting in list(agent.greetings):
        reply: AgentReply = yield CallAgent(methods.INITIALIZE, greeting, _PATIENCE_US)
        if reply.is_success:
            agent.greetings.sort(key=lambda it: it is not greeting)
            return reply.result
        refusals.append(refusal_of(reply, "initialize"))
        if not may_take_another(agent, greeting, reply):
            break
    raise refusals[0]


def may_take_another(agent: AgentState, greeting: dict[str, Any], reply: AgentReply) -> bool:
    """Tell whether an agent that refuses a greeting may take one of another version."""
    # Agents refuse what they do not know in many ways; version 1 they all know, but for a few.
    is_version_1 = greeting.get("protocolVersion", 1) == 1
    is_too_old = as_object(reply.error).get("code") == UNSUPPORTED_VERSION
    return agent.is_running and (is_too_old or not is_version_1)


def identify(conn: ConnectionState, result: object) -> None:
    """Learn from its answer to `initialize` what the agent is and can do."""
    agent = conn.agent
    agent.own = read_capabilities(as_object(result))
    agent.identity = AgentIdentity(
        name=agent.own.name, version=agent.own.version, command=agent.identity.command
    )
    agent.is_initialized = True


def pause_after(deaths: int) -> int:
    """Return how long to wait before the next start: the first one is free."""
    if deaths <= 1:
        return 0
    return min(_FIRST_PAUSE_US << (deaths - 2), _LONGEST_PAUSE_US)
