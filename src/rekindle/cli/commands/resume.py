"""The commands `resume` and `new`, which open a chat in the terminal."""

import argparse
import asyncio
import sys
from pathlib import Path

from rekindle.cli.arguments import CommandSpec, add_command_after_dashes
from rekindle.cli.chat.target import ChatTarget, add_takeover, chat_target, recorded_command
from rekindle.cli.render.detail import add_detail, detail_of
from rekindle.cli.session_choice import (
    add_session_choice,
    choose_from_menu,
    choose_session,
    last_used,
)
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError
from rekindle.store.address import locate
from rekindle.transcript.reducer import Transcript, fold

_RESUME_HELP = """\
Go on with a session, in a chat: the agent remembers it, and you see what was said.

Without COMMAND it is the agent that the session was last used with. Without SESSION you are
asked which one.

example:
  rekindle resume --last
  rekindle resume 3f2a -- opencode acp
"""
_NEW_HELP = """\
Start a session with an agent, in a chat. It is recorded, and `rekindle resume` goes on.

Without COMMAND it is the agent that was last used in this folder, else the last used of all.

example:
  rekindle new -- opencode acp
"""
_TURNS_SHOWN = 10


def configure_resume(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle resume [SESSION | --last | --title TEXT] [OPTIONS] [-- COMMAND …]"
    add_store_option(parser)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it"
    )
    add_session_choice(parser)
    add_takeover(parser)
    parser.add_argument(
        "--history",
        type=int,
        default=_TURNS_SHOWN,
        metavar="N",
        help="show the last N turns first (default: %(default)d)",
    )
    add_detail(parser)


def resume(arguments: argparse.Namespace) -> int:
    """Continue a recorded session in a chat."""
    _check_terminal("resume")
    with open_for_reading(arguments.store) as store:
        if arguments.session is None and not arguments.last and arguments.title is None:
            session = choose_from_menu(store)
        else:
            session = choose_session(
                store, arguments.session, last=arguments.last, title=arguments.title
            )
        target = chat_target(arguments, store, session)
        history = fold(store.read(session.id))
    return _chat(arguments, target, history, turns_shown=max(0, arguments.history))


def configure_new(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `new`."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle new [OPTIONS] [-- COMMAND …]"
    add_store_option(parser)
    parser.add_argument("--cwd", default=".", metavar="DIR", help="its folder (default: this one)")
    add_detail(parser)


def new(arguments: argparse.Namespace) -> int:
    """Start a session in a chat."""
    _check_terminal("new")
    cwd = Path(arguments.cwd).expanduser().absolute()
    if not cwd.is_dir():
        raise UsageError(f"there is no folder {cwd}")
    command = tuple(arguments.command) or _last_command(arguments)
    target = ChatTarget(command=command, cwd=str(cwd), store=locate(arguments.store))
    return _chat(arguments, target, Transcript(), turns_shown=0)


def _last_command(arguments: argparse.Namespace) -> tuple[str, ...]:
    with open_for_reading(arguments.store) as store:
        return recorded_command(last_used(store, prompted=False))


def _check_terminal(command: str) -> None:
    if not (is_terminal(sys.stdin) and is_terminal()):
        raise UsageError(
            f"rekindle {command} is a chat, and needs a terminal: `rekindle prompt` needs none"
        )


def _chat(
    arguments: argparse.Namespace, target: ChatTarget, history: Transcript, *, turns_shown: int
) -> int:
    # These imports are slow, so they come after all checks.
    from rekindle.cli.chat.chat import Chat
    from rekindle.cli.render.screen import screen_for

    chat = Chat(target, screen_for(), detail_of(arguments), history)
    return asyncio.run(chat.run(turns_shown))


SPECS = {
    "resume": CommandSpec(_RESUME_HELP, configure_resume, resume),
    "new": CommandSpec(_NEW_HELP, configure_new, new),
}
