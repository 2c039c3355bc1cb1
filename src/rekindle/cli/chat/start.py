"""Starting the chat, once it is known with whom. What is heavy is imported here, and late."""

import argparse
import asyncio
import sys

from rekindle.cli.chat.target import Place
from rekindle.cli.render.detail import detail_of
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError
from rekindle.transcript.reducer import Transcript

_TURNS_SHOWN = 10


def add_history(parser: argparse.ArgumentParser) -> None:
    """Let it be said how much of the conversation to show before the chat."""
    parser.add_argument(
        "--history",
        type=int,
        default=_TURNS_SHOWN,
        metavar="N",
        help="show the last N turns first (default: %(default)d)",
    )


def check_terminal(command: str) -> None:
    """Raise UsageError where nobody can type or read."""
    if not (is_terminal(sys.stdin) and is_terminal()):
        raise UsageError(
            f"rekindle {command} is a chat, and needs a terminal: `rekindle prompt` needs none"
        )


def chat(arguments: argparse.Namespace, place: Place, record: Transcript) -> int:
    """Chat in the terminal; return the exit code."""
    from rekindle.cli.chat.chat import Chat
    from rekindle.cli.render.screen import screen_for

    talk = Chat(place, screen_for(), detail_of(arguments), record)
    return asyncio.run(talk.run(max(0, getattr(arguments, "history", 0))))
