"""The command line of the example agent."""

import argparse
import math
import sys
from pathlib import Path

from rekindle.example_agent.agent import Agent
from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.rpc import Connection

_STDOUT = 1
_EPILOG = """\
words in a prompt that do something:
  think, plan, read, edit, run, title, usage, count to N, slow, crash, error,
  what did I say first, what did I say last, how many prompts

example:
  rekindle run -- rekindle example-agent --delay 0.05
"""


def main(argv: list[str]) -> int:
    """Serve one client on stdin and stdout until it hangs up."""
    options = _parse(argv)
    try:
        agent = Agent(Connection(_STDOUT), options)
    except OSError as error:
        sys.stderr.write(f"rekindle example-agent: cannot use the memory folder: {error}\n")
        return 2
    try:
        for line in sys.stdin.buffer:
            agent.receive(line)
    except BrokenPipeError:
        pass  # the client has stopped listening: the same end as no longer talking
    except KeyboardInterrupt:
        return 130
    finally:
        agent.stop()
    return 0


def _parse(argv: list[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="rekindle example-agent",
        description="A small deterministic ACP v1 agent without a model, on stdin and stdout.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
        type=_seconds,
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
    args = parser.parse_args(argv)
    return Options(
        offers=args.offer,
        memory=args.memory,
        message_ids=args.message_ids,
        delay=args.delay,
        echo=args.echo,
        early_updates=args.early_updates,
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


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"not a number of seconds: {text}")
    return seconds
