"""Start an agent again that has exited, when a request needs it, and not in a tight loop."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import read_capabilities
from rekindle.acp.jsonrpc import INTERNAL_ERROR, UNSUPPORTED_VERSION
from rekindle.jsonvalue import as_object
from rekindle.proxy.connection_state import AgentPhase, AgentState, ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    Pause,
    Refusal,
    StartAgent,
    SubFlow,
    WaitForRestart,
)
from rekindle.proxy.validation import refusal_of

_INITIALIZE_TIMEOUT_US = 60_000_000
_FIRST_PAUSE_US = 1_000_000
_MAX_PAUSE_US = 30_000_000


def ensure_agent(conn: ConnectionState) -> SubFlow:
    """Start and initialize the agent if it does not run. Raises Refusal."""
    agent = conn.agent
    if agent.is_usable:
        return
    if agent.is_restarting:
        yield WaitForRestart()
        yield from ensure_agent(conn)
        return
    if not agent.was_ready:
        details = agent.last_exit and agent.last_exit.details
        raise Refusal(INTERNAL_ERROR, f"{agent.last_exit} before it was ready", details)
    agent.advance("start")
    try:
        if agent.phase is AgentPhase.STARTING:
            yield from _start(agent)
        result: object = yield from _initialize(agent)
        agent.initialize_succeeded(read_capabilities(as_object(result)), as_object(result))
    except BaseException:
        agent.advance("start_failed")
        raise


def _start(agent: AgentState) -> SubFlow:
    pause_us = pause_after(agent.deaths)
    if pause_us:
        yield Pause(pause_us)
    reason: str | None = yield StartAgent()
    if reason is not None:
        agent.deaths += 1
        details = agent.last_exit and agent.last_exit.details
        raise Refusal(INTERNAL_ERROR, f"cannot restart the agent: {reason}", details)
    agent.advance("started")


def _initialize(agent: AgentState) -> SubFlow:
    """Return the result of `initialize`. The agent may be another release, of another version."""
    refusals: list[Refusal] = []
    for params in list(agent.initialize_params):
        reply: AgentReply = yield CallAgent(methods.INITIALIZE, params, _INITIALIZE_TIMEOUT_US)
        if reply.error is None:
            agent.initialize_params.sort(key=lambda it: it is not params)
            return reply.result
        refusals.append(refusal_of(reply, "initialize"))
        if not may_accept_other_version(agent, params, reply):
            break
    raise refusals[0]


def may_accept_other_version(agent: AgentState, params: dict[str, Any], reply: AgentReply) -> bool:
    """Return whether an agent that refused one protocol version may accept the other."""
    # Agents refuse an unknown version in many ways. Nearly all of them know version 1.
    is_version_1 = params.get("protocolVersion", 1) == 1
    is_unsupported = as_object(reply.error).get("code") == UNSUPPORTED_VERSION
    return agent.is_running and (is_unsupported or not is_version_1)


def pause_after(deaths: int) -> int:
    """Return the pause in microseconds before the next start. The first restart has none."""
    if deaths <= 1:
        return 0
    return min(_FIRST_PAUSE_US << (deaths - 2), _MAX_PAUSE_US)
