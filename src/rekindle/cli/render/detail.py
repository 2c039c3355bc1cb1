"""How much of a conversation is to be shown, as far as the user says so."""

import argparse

from msgspec import Struct


class Detail(Struct, frozen=True, kw_only=True):
    """How much to show of thoughts and tools: None is folded, True whole, False nothing."""

    thoughts: bool | None = None
    tools: bool | None = None


FOLDED = Detail()


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
