"""Run a small ACP agent without a model, on stdin and stdout.

It reacts to these words in a prompt:
  think, plan, read, edit, run, delegate, title, usage, count to N, slow,
  crash, error, what did I say first, what did I say last, how many prompts,
  your system prompt

example:
  rekindle run -- rekindle example-agent --delay 0.05
  rekindle example-agent --protocol 2 --offer delete,fork
"""

import argparse
from pathlib import Path

from rekindle.cli.arguments import seconds
from rekindle.errors import UsageError
from rekindle.example_agent import LIFECYCLE, NEWER, Options, serve

_V2 = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--protocol",
        type=int,
        choices=(1, 2),
        default=1,
        help="the highest supported version of ACP (default: 1)",
    )
    parser.add_argument(
        "--only-v2", action="store_true", help="refuse version 1 of ACP; needs --protocol 2"
    )
    parser.add_argument(
        "--offer",
        type=_offers,
        default=frozenset[str](),
        metavar="LIST",
        help=(
            f"the lifecycle methods to offer: {','.join(LIFECYCLE)}, all or none (default: none);"
            " in version 2, only delete and fork are optional;"
            f" unstable methods and a proposal: {','.join(NEWER)}, or newest for these and all"
        ),
    )
    parser.add_argument(
        "--memory",
        type=Path,
        metavar="DIR",
        help="store sessions in DIR, so that restarts keep them",
    )
    parser.add_argument(
        "--no-message-ids",
        dest="message_ids",
        action="store_false",
        help="send message chunks without messageId (version 1)",
    )
    parser.add_argument(
        "--delay",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="the delay before each chunk",
    )
    parser.add_argument(
        "--echo",
        action="store_true",
        help="echo each prompt as user_message_chunk, in version 2 instead of user_message",
    )
    parser.add_argument(
        "--early-updates",
        action="store_true",
        help=(
            "send the first update before the response to session/new, and in version 2 also"
            " before the response to session/prompt"
        ),
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve one client until it closes the connection."""
    if arguments.only_v2 and arguments.protocol != _V2:
        raise UsageError("--only-v2 needs --protocol 2")
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
    if text == "newest":
        return frozenset({*LIFECYCLE, *NEWER})
    if text == "none":
        return frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    if unknown := names.difference(LIFECYCLE, NEWER):
        raise argparse.ArgumentTypeError(
            f"unknown method: {', '.join(sorted(unknown))}; use {', '.join((*LIFECYCLE, *NEWER))}"
        )
    return names
