"""List the processes that run agents now, and the sessions and clients of each.

The process is the host of its sessions: other editors and terminals use them
through it. A host that does not answer was stopped, or is overloaded. A
detached one finishes turns whose editor has left.

example:
  rekindle hosts
  rekindle hosts --json
"""

import argparse
from datetime import UTC, datetime
from typing import Any

from rekindle.cli.formatting import one_line, print_json
from rekindle.cli.messages import print_note
from rekindle.cli.store_access import add_store_option, address_for_reading
from rekindle.cli.terminal import paint
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.runtime.host_requests import Host, hosts_of
from rekindle.text.widths import pad, width

_GAP = "  "
_HEADING = ("PID", "AGENT", "SESSIONS", "CLIENTS", "UPTIME", "MEMORY", "VERSION")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the hosts, in the order of their start."""
    address = address_for_reading(arguments.store)
    hosts = [] if address is None else hosts_of(address)
    if arguments.json:
        print_json([_described(host) for host in hosts])
        return 0
    if not hosts:
        print_note("no process runs an agent now")
        return 0
    rows = [_HEADING, *(_row(host) for host in hosts)]
    widths = [max(width(row[column]) for row in rows) for column in range(len(_HEADING))]
    for number, row in enumerate(rows):
        line = _GAP.join(pad(cell, widths[column]) for column, cell in enumerate(row)).rstrip()
        print(paint(line, "bold" if number == 0 else ""))
    return 0


def _row(host: Host) -> tuple[str, ...]:
    status = host.status
    if status is None:
        return (str(host.pid or "?"), "does not answer", *[""] * (len(_HEADING) - 2))
    sessions = as_array(status.get("sessions"))
    clients = sum(len(as_array(as_object(it).get("clients"))) for it in sessions)
    agent = as_object(status.get("agent"))
    name = as_str(agent.get("name")) or next(iter(as_array(agent.get("command"))), "")
    busy = sum(as_object(it).get("state") == "running" for it in sessions)
    waiting = sum(as_object(it).get("state") == "requires_action" for it in sessions)
    states = [f"{busy} running"] * bool(busy) + [f"{waiting} waiting"] * bool(waiting)
    count = str(len(sessions)) + (f" ({', '.join(states)})" if states else "")
    return (
        str(status.get("pid")),
        one_line(str(name)),
        count,
        f"{clients} (detached)" if status.get("detached") else str(clients),
        _uptime(as_str(status.get("startedAt"))),
        f"{int(status.get('memory') or 0) / 1e6:.0f} MB",
        one_line(as_str(status.get("version")) or ""),
    )


def _uptime(started_at: str | None) -> str:
    """Return the time since the start, as `3 min`."""
    if started_at is None:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(started_at)).total_seconds()
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def _described(host: Host) -> dict[str, Any]:
    return {"answers": host.status is not None, **(host.status or {"pid": host.pid or None})}
