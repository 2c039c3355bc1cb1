"""Start a session with an agent, in a chat. It is recorded, and `rekindle resume` goes on.

Without COMMAND it is the agent that was last used in this folder, else the last used of all.

example:
  rekindle new -- opencode acp
"""

import argparse
from pathlib import Path

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.start import chat, check_terminal
from rekindle.cli.chat.target import Place, recorded_command
from rekindle.cli.render.detail import add_detail
from rekindle.cli.session_choice import last_used
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.errors import UsageError
from rekindle.store.address import locate
from rekindle.transcript.reducer import Transcript


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle new [OPTIONS] [-- COMMAND …]"
    add_store_option(parser)
    parser.add_argument("--cwd", default=".", metavar="DIR", help="its folder (default: this one)")
    add_detail(parser)


def main(arguments: argparse.Namespace) -> int:
    """Chat."""
    check_terminal("new")
    cwd = Path(arguments.cwd).expanduser().absolute()
    if not cwd.is_dir():
        raise UsageError(f"there is no folder {cwd}")
    command = tuple(arguments.command) or _last_command(arguments)
    place = Place(command=command, cwd=str(cwd), store=locate(arguments.store))
    return chat(arguments, place, Transcript())


def _last_command(arguments: argparse.Namespace) -> tuple[str, ...]:
    with open_for_reading(arguments.store) as store:
        return recorded_command(last_used(store))
