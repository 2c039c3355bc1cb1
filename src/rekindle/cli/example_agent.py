"""A small deterministic ACP v1 agent without a model, on stdin and stdout.

words in a prompt that do something:
  think, plan, read, edit, run, title, usage, count to N, slow, crash, error,
  what did I say first, what did I say last, how many prompts

example:
  rekindle run -- rekindle example-agent --delay 0.05
"""

import argparse
from pathlib import Path

from rekindle.cli.arguments import seconds
from rekindle.example_agent import LIFECYCLE, Options, serve


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "--offer",
        type=_offers,
        default=frozenset[str](),
        metavar="LIST",
        help=f"lifecycle methods to offer: {','.join(LIFECYCLE)}, or all, or none (default: none)",
    )
    parser.add_argument(
        "--memory", type=Path, metavar="DIR", help="remember sessions in DIR, across restarts"
    )
    parser.add_argument(
        "--no-message-ids",
        dest="message_ids",
        action="store_false",
        help="leave messageId out of message chunks",
    )
    parser.add_argument(
        "--delay",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait before each streamed piece",
    )
    parser.add_argument(
        "--echo", action="store_true", help="send each prompt back as user_message_chunk"
    )
    parser.add_argument(
        "--early-updates",
        action="store_true",
        help="send the first update of a session before the answer to session/new",
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve one client until it hangs up."""
    return serve(_options(arguments))


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        offers=arguments.offer,
        memory=arguments.memory,
        message_ids=arguments.message_ids,
        delay=arguments.delay,
        echo=arguments.echo,
        early_updates=arguments.early_updates,
    )


def _offers(text: str) -> frozenset[str]:
    if text == "all":
        return frozenset(LIFECYCLE)
    if text == "none":
        return frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    if unknown := names.difference(LIFECYCLE):
        raise argparse.ArgumentTypeError(f"unknown method: {', '.join(sorted(unknown))}")
    return names
