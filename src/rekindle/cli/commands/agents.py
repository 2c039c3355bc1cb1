"""List the agents that can be started by name, and whether they are installed.

A name works in `run`, `new`, `check` and `setup`, and after `--` in `resume`,
`prompt` and `pick`. The configuration file can add names and change their
commands; `rekindle config --path` prints its path.

example:
  rekindle agents
  rekindle run claude
"""

import argparse
import shlex
from typing import Any

from rekindle.cli.agent_lookup import CONFIGURED, NamedAgent, named_agents
from rekindle.cli.formatting import one_line, print_json, short_path
from rekindle.cli.terminal import paint
from rekindle.text.redact.recorded_command import mask_command
from rekindle.text.widths import pad, width

_GAP = "  "


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the agents. The installed agents come first."""
    agents = sorted(named_agents().values(), key=lambda agent: agent.path is None)
    if arguments.json:
        print_json([_described(agent) for agent in agents])
        return 0
    rows = [("NAME", "COMMAND", "INSTALLED"), *map(_row, agents)]
    widths = [max(width(row[column]) for row in rows) for column in range(2)]
    for number, (name, command, status) in enumerate(rows):
        line = _GAP.join([pad(name, widths[0]), pad(command, widths[1]), status])
        is_dim = number > 0 and agents[number - 1].path is None
        print(paint(line, "bold" if number == 0 else "dim" if is_dim else ""))
    return 0


def _row(agent: NamedAgent) -> tuple[str, str, str]:
    command = one_line(shlex.join(mask_command(agent.command)))
    status = short_path(agent.path) if agent.path else f"no: {_install(agent) or 'not found'}"
    if agent.source == CONFIGURED:
        status += " (from the configuration file)"
    return agent.name, command, status


def _install(agent: NamedAgent) -> str | None:
    return agent.known.install if agent.known else None


def _described(agent: NamedAgent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "title": agent.known.title if agent.known else None,
        "command": list(mask_command(agent.command)),
        "installed": agent.path is not None,
        "path": agent.path,
        "install": _install(agent),
        "source": agent.source,
    }
