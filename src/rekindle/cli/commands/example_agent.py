"""A small deterministic ACP agent without a model, on stdin and stdout.

words in a prompt that do something:
  think, plan, read, edit, run, title, usage, count to N, slow, crash, error,
  what did I say first, what did I say last, how many prompts

example:
  rekindle run -- rekindle example-agent --delay 0.05
  rekindle example-agent --protocol 2 --offer delete,fork
"""

import argparse
import sys
from pathlib import Path

from rekindle.cli.arguments import seconds
from rekindle.example_agent import LIFECYCLE, Options, serve

_V2 = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--protocol",
        type=int,
        choices=(1, 2),
        default=1,
        help="highest version of ACP to speak; with 2, a client may still ask for 1 (default: 1)",
    )
    parser.add_argument(
        "--only-v2", action="store_true", help="with --protocol 2: refuse to speak version 1"
    )
    parser.add_argument(
        "--offer",
        type=_offers,
        default=frozenset[str](),
        metavar="LIST",
        help=(
            f"lifecycle methods to offer: {','.join(LIFECYCLE)}, or all, or none (default: none);"
            " in version 2 only delete and fork are a matter of choice"
        ),
    )
    parser.add_argument(
        "--memory", type=Path, metavar="DIR", help="remember sessions in DIR, across restarts"
    )
    parser.add_argument(
        "--no-message-ids",
        dest="message_ids",
        action="store_false",
        help="leave messageId out of message chunks (version 1)",
    )
    parser.add_argument(
        "--delay",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait before each streamed piece",
    )
    parser.add_argument(
        "--echo",
        action="store_true",
        help="send each prompt back as user_message_chunk (version 2: instead of user_message)",
    )
    parser.add_argument(
        "--early-updates",
        action="store_true",
        help=(
            "send the first update of a session before the answer to session/new"
            " (version 2: and a prompt's before the answer to session/prompt)"
        ),
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve one client until it closes the connection."""
    if arguments.only_v2 and arguments.protocol != _V2:
        sys.stderr.write("rekindle example-agent: --only-v2 needs --protocol 2\n")
        return 2
    return serve(_options(arguments))


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        versions=_versions(arguments),
        offers=arguments.offer,
        memory=arguments.memory,
        message_ids=arguments.message_ids,
        delay=arguments.delay,
        echo=arguments.echo,
        early_updates=arguments.early_updates,
    )


def _versions(arguments: argparse.Namespace) -> tuple[int, ...]:
    if arguments.protocol == _V2:
        return (_V2,) if arguments.only_v2 else (1, _V2)
    return (1,)


def _offers(text: str) -> frozenset[str]:
    if text == "all":
        return frozenset(LIFECYCLE)
    if text == "none":
        return frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    if unknown := names.difference(LIFECYCLE):
        raise argparse.ArgumentTypeError(f"unknown method: {', '.join(sorted(unknown))}")
    return names
