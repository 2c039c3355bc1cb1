"""How a conversation is to look, as far as the user says so; and where it is printed."""

import argparse
import sys

from rekindle.cli.paper import Paper, Plain
from rekindle.cli.pieces import Detail


def add_detail(parser: argparse.ArgumentParser) -> None:
    """Let thoughts and tool calls be shown whole, or not at all."""
    parser.add_argument(
        "--thoughts", action=argparse.BooleanOptionalAction, help="thoughts: whole, or none"
    )
    parser.add_argument(
        "--tools", action=argparse.BooleanOptionalAction, help="tool calls: whole, or none"
    )


def detail_of(arguments: argparse.Namespace) -> Detail:
    """Return how much to show."""
    return Detail(thoughts=arguments.thoughts, tools=arguments.tools)


def live_paper() -> Paper:
    """Return what to print live things on."""
    if not sys.stdout.isatty():
        return Plain()
    from rekindle.cli.pretty import make_console
    from rekindle.cli.pretty_paper import Terminal

    return Terminal(make_console())
