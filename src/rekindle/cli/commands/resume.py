"""Go on with a session, in a chat: the agent remembers it, and you see what was said.

Without COMMAND it is the agent that the session was last used with. Without SESSION you are
asked which one.

example:
  rekindle resume --last
  rekindle resume 3f2a -- opencode acp
"""

import argparse

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.menu import pick
from rekindle.cli.chat.start import add_history, chat, check_terminal
from rekindle.cli.chat.target import add_takeover, place_of
from rekindle.cli.render.detail import add_detail
from rekindle.cli.session_choice import add_choice, choose
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.transcript.reducer import fold


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle resume [SESSION | --last | --title TEXT] [OPTIONS] [-- COMMAND …]"
    add_store_option(parser)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it"
    )
    add_choice(parser)
    add_takeover(parser)
    add_history(parser)
    add_detail(parser)


def main(arguments: argparse.Namespace) -> int:
    """Chat."""
    check_terminal("resume")
    with open_for_reading(arguments.store) as store:
        if arguments.session is None and not arguments.last and arguments.title is None:
            session = pick(store)
        else:
            session = choose(store, arguments.session, last=arguments.last, words=arguments.title)
        place = place_of(arguments, store, session)
        record = fold(store.read(session.id))
    return chat(arguments, place, record)
