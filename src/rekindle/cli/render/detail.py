"""The options that choose how much of a conversation is shown."""

import argparse

from msgspec import Struct


class Detail(Struct, frozen=True, kw_only=True):
    """The detail of thoughts and tool calls: None is folded, True is whole, False is nothing."""

    thoughts: bool | None = None
    tools: bool | None = None


FOLDED = Detail()


def add_detail(parser: argparse.ArgumentParser) -> None:
    """Add the options `--thoughts` and `--tools`."""
    parser.add_argument(
        "--thoughts", action=argparse.BooleanOptionalAction, help="show whole thoughts, or none"
    )
    parser.add_argument(
        "--tools", action=argparse.BooleanOptionalAction, help="show whole tool calls, or none"
    )


def detail_of(arguments: argparse.Namespace) -> Detail:
    """Return the chosen detail."""
    return Detail(thoughts=arguments.thoughts, tools=arguments.tools)
