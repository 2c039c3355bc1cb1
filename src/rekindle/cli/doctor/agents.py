"""The agents that have sessions in the store, and how their sessions came back."""

import shlex
import shutil
from collections.abc import Iterator

from rekindle.cli.doctor import Finding, some
from rekindle.cli.formatting import agent_label, format_age, one_line
from rekindle.store.sqlite.inspect import AgentSeen, Examination
from rekindle.text.times import iso

_WAYS = {
    "native": "by its own means",
    "handover": "by being told the record",
    "live": "while it was still running",
}


def check_agents(store: Examination) -> Iterator[Finding]:
    """Tell which agents were seen."""
    for seen in store.agents():
        agent = seen.identity
        name = agent_label(agent) + (f" {one_line(agent.version)}" if agent.version else "")
        command = one_line(shlex.join(agent.command))
        is_missing = bool(agent.command) and shutil.which(agent.command[0]) is None
        used = f"{some(seen.sessions, 'session')}, the last {format_age(seen.updated_us)} ago"
        start = f"; {command}{' (not found here)' if is_missing else ''}" if command else ""
        yield Finding(
            check="agent",
            what=f"{name}: {used}; {_ways(seen)}{start}",
            facts={
                "name": agent.name,
                "version": agent.version,
                "command": list(agent.command),
                "sessions": seen.sessions,
                "updatedAt": iso(seen.updated_us),
                "restored": seen.restored,
            },
        )


def _ways(seen: AgentSeen) -> str:
    if not seen.restored:
        return "no session of it was restored yet"
    most_first = sorted(seen.restored.items(), key=lambda it: -it[1])
    ways = [
        f"{_WAYS.get(how, one_line(how))} ({some(number, 'time')})" for how, number in most_first
    ]
    return f"restored {', '.join(ways)}"
