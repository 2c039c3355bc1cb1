"""The commands `resume` and `new`, which open a chat in the terminal."""

import argparse
import asyncio
import sys

from rekindle.cli.arguments import (
    CommandSpec,
    add_agent,
    add_command_after_dashes,
    agent_words,
)
from rekindle.cli.chat.target import (
    ChatTarget,
    add_folder,
    add_takeover,
    chat_target,
    new_target,
)
from rekindle.cli.commands.pick import can_pick, pick
from rekindle.cli.render.detail import add_detail, detail_of
from rekindle.cli.session_choice import (
    add_session_choice,
    choose_from_menu,
    choose_session,
)
from rekindle.cli.store_access import SESSION_HELP, add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError
from rekindle.transcript.reducer import Transcript, fold

_RESUME_HELP = """\
Continue a session in a chat.

The chat shows the last turns, and the agent knows all of them. Without
SESSION, you choose from a list.

AGENT is a name from `rekindle agents`, or a command. By default, Rekindle
starts the agent that used the session last.

example:
  rekindle resume
  rekindle resume --last
  rekindle resume @2 -- claude    # the second session of `rekindle list`
"""
_NEW_HELP = """\
Start a session in a chat.

The session is recorded, and `rekindle resume` continues it.

AGENT is a name from `rekindle agents`. Any other command follows `--`. By
default, Rekindle starts the agent that was used last in this folder. If there
was none, it starts the agent that was used last in any folder.

example:
  rekindle new claude
  rekindle new -- opencode acp
"""
_TURNS_SHOWN = 10


def configure_resume(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle resume [OPTIONS] [SESSION | --last | --title TEXT] [-- AGENT …]"
    add_store_option(parser)
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION_HELP)
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
    # For the list of sessions.
    parser.set_defaults(redact=True)


def resume(arguments: argparse.Namespace) -> int:
    """Continue a recorded session in a chat."""
    _check_terminal("resume")
    is_chosen = arguments.session is not None or arguments.last or arguments.title is not None
    if not is_chosen and can_pick():
        return pick(arguments)
    with open_for_reading(arguments.store) as store:
        if not is_chosen:
            session = choose_from_menu(store, redact=arguments.redact)
        else:
            session = choose_session(
                store,
                arguments.session,
                last=arguments.last,
                title=arguments.title,
                # The chat shows the session before anything is sent.
                any_project=True,
            )
        target = chat_target(arguments, store, session)
        history = fold(store.read(session.id))
    return _chat(arguments, target, history, turns_shown=max(0, arguments.history))


def configure_new(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `new`."""
    parser.usage = "rekindle new [OPTIONS] [AGENT [ARGS…] | -- COMMAND ARGS…]"
    add_store_option(parser)
    add_folder(parser)
    add_detail(parser)
    add_agent(parser, "a name from `rekindle agents`, or a command")


def new(arguments: argparse.Namespace) -> int:
    """Start a session in a chat."""
    _check_terminal("new")
    words, is_command = agent_words(arguments.command)
    target = new_target(arguments, words, is_command=is_command, example="rekindle new claude")
    return _chat(arguments, target, Transcript(), turns_shown=0)


def _check_terminal(command: str) -> None:
    if not (is_terminal(sys.stdin) and is_terminal()):
        option = " --new" if command == "new" else ""
        raise UsageError(
            f"rekindle {command} is a chat and needs a terminal: without one, use"
            f" `rekindle prompt{option}`"
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
