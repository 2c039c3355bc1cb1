"""Write docs/reference/commands.md from the help of the commands.

python -m tools.command_reference    # or: make docs

The page is made from the parsers, and not from the printed help, because its layout differs between
versions of Python.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rekindle.cli.main import COMMANDS, load_command

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
_HEAD = """\
# Commands

*Written by `make docs` from the help of the commands; do not edit.*

`rekindle COMMAND --help` prints the same. Every command also has `--help`, and `--no-color` if it
prints for people.
"""
_SHELL_BLOCKS = ("example:", "examples:")
_COMMON = {"help", "no_color"}


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(PAGE.parents[2])}: {len(COMMANDS)} commands")
    return 0


def page() -> str:
    """Return the text of the page."""
    rows = [f"| [`{name}`](#{name}) | {_cell(summary)} |" for name, summary in COMMANDS.items()]
    summary = ["| command | |", "|---|---|", *rows]
    sections = ["\n".join(section(name, load_command(name)[1])) for name in COMMANDS]
    return "\n\n".join([_HEAD.strip(), "\n".join(summary), *sections]) + "\n"


def section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines that describe one command."""
    yield from [f"## {name}", "", "```text", _usage(parser), "```", ""]
    yield from _description(parser.description or "")
    if places := [action for action in _actions(parser) if not action.option_strings]:
        yield from _table("argument", parser, places)
    if options := [action for action in _actions(parser) if action.option_strings]:
        yield from _table("option", parser, options)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if action.help != argparse.SUPPRESS and action.dest not in _COMMON
    ]


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage of a command: its own text, or its name with the arguments."""
    if parser.usage:
        return "\n".join(line.strip() for line in parser.usage.splitlines())
    words = [_place(action) for action in _actions(parser) if not action.option_strings]
    return " ".join([parser.prog, "[OPTIONS]", *words])


def _place(action: argparse.Action) -> str:
    name = _name(action)
    match action.nargs:
        case argparse.OPTIONAL:
            return f"[{name}]"
        case argparse.ZERO_OR_MORE:
            return f"[{name} …]"
        case argparse.ONE_OR_MORE:
            return f"{name} …"
        case _:
            return name


def _name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.metavar:
        return " ".join(action.metavar)
    if action.choices:
        return f"{{{','.join(map(str, action.choices))}}}"
    return action.dest.upper()


def _description(text: str) -> Iterator[str]:
    """Yield a description: its paragraphs, and its indented blocks as code."""
    for block in re.split(r"\n{2,}", text.strip("\n")):
        lines = block.splitlines()
        indented = [place for place, line in enumerate(lines) if line.startswith("  ")]
        first = indented[0] if indented else len(lines)
        if lines[:first]:
            yield from [_prose(" ".join(lines[:first])), ""]
        if indented:
            language = "sh" if lines[0].strip() in _SHELL_BLOCKS else "text"
            code = [line.removeprefix("  ").rstrip() for line in lines[first:]]
            yield from [f"```{language}", *code, "```", ""]


def _prose(text: str) -> str:
    """Return a paragraph whose special characters Markdown shows as they are."""
    if text.endswith(":"):
        text = text[:1].upper() + text[1:]
    return re.sub(r"([*_<])", r"\\\1", text)


def _table(
    heading: str, parser: argparse.ArgumentParser, actions: list[argparse.Action]
) -> Iterator[str]:
    yield from [f"| {heading} | |", "|---|---|"]
    for action in actions:
        yield f"| {_label(action)} | {_cell(_help(parser, action))} |"
    yield ""


def _label(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_name(action)}`"
    value = "" if action.nargs == 0 else f" {_name(action)}"
    return ", ".join(f"`{flag}{value}`" for flag in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return formatter._expand_help(action) if action.help else ""  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _cell(text: str) -> str:
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    sys.exit(main())
