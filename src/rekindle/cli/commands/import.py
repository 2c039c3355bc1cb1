"""Import sessions of other tools, or a bundle of `rekindle export`.

FILE is the name of a tool or `all`, for the sessions on this machine; a file or
folder of a tool; or a bundle, with - for stdin. Rekindle only reads the files.
You can import again: a session that has grown is extended, and if both copies
have new turns, both are kept.

example:
  rekindle import all --dry-run
  rekindle import claude --cwd . --since 2w
  rekindle import session.rekindle
"""

# ruff: noqa: N999 - a module has the name of its command
import argparse
from pathlib import Path

from rekindle.cli.arguments import past_time
from rekindle.cli.bundle_import import STDIN, import_bundle, is_bundle
from rekindle.cli.formatting import one_line
from rekindle.cli.messages import print_error, print_warning
from rekindle.cli.store_access import add_store_option
from rekindle.errors import ImporterUnavailable, NothingToImport, UsageError
from rekindle.importers.registry import ALL, BUILT_IN_NAMES

_ANY_TOOL = f"{', '.join(BUILT_IN_NAMES[:-1])} or {BUILT_IN_NAMES[-1]}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_store_option(parser)
    parser.add_argument("--cwd", metavar="DIR", help="only sessions of exactly this folder")
    parser.add_argument(
        "--since",
        type=past_time,
        metavar="TIME",
        help="only sessions changed since then: 3d, 2w, 2025-12-31",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be imported")
    parser.add_argument(
        "--watch", action="store_true", help="continue to import changes, until Ctrl-C"
    )
    parser.add_argument(
        "--undelete", action="store_true", help="restore sessions that were deleted here"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="accept the agents' commands in a bundle; use it only if you trust its author",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "source",
        metavar="FILE",
        help=f"{', '.join(BUILT_IN_NAMES)} or {ALL}; a file, a folder, or - for stdin",
    )


def main(arguments: argparse.Namespace) -> int:
    """Import from a tool, a path or a bundle, depending on the source."""
    source: str = arguments.source
    names = _importer_names()
    if source == ALL:
        usable = _usable(names)
        return _import_tools(arguments, usable, None) or int(usable != names)
    if source in names:
        return _import_tools(arguments, (source,), None)
    path = Path(source)
    if source != STDIN and not _is_bundle(path):
        names = _tools_with_sessions_in(path, _usable(names))
        if names:
            return _import_tools(arguments, names, path)
        raise NothingToImport(f"{one_line(source)}: {_reason_against(path)}")
    if arguments.watch or arguments.dry_run or arguments.cwd or arguments.since:
        raise UsageError(
            "--cwd, --since, --dry-run and --watch do not apply to a bundle; leave them out"
        )
    return import_bundle(arguments)


def _is_bundle(path: Path) -> bool:
    try:
        return is_bundle(path)
    except FileNotFoundError as error:
        tools = f", and no tool of that name; use {_ANY_TOOL}, or {ALL}"
        reason = f"there is no such file{tools if path.parent == Path() else ''}"
        raise NothingToImport(f"{one_line(str(path))}: {reason}") from error


def _reason_against(path: Path) -> str:
    from rekindle.store.address import is_store_file

    if path.is_dir():
        return "the folder has no sessions that can be imported"
    if is_store_file(path):
        return "it is a store; name it with --store, or write a bundle with `rekindle export --all`"
    return f"it is neither a bundle nor a session of {_ANY_TOOL}; nothing was imported"


def _importer_names() -> tuple[str, ...]:
    """Return the names of all importers; report packages that cannot be used."""
    from rekindle.importers.registry import find_plugins

    plugins = find_plugins()
    for problem in plugins.problems:
        print_warning(one_line(problem))
    return (*BUILT_IN_NAMES, *plugins.names)


def _usable(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the importers that can be loaded; report the others."""
    from rekindle.importers.registry import load_importer

    usable: list[str] = []
    for name in names:
        try:
            load_importer(name)
        except ImporterUnavailable as error:
            print_error(one_line(str(error)))
        else:
            usable.append(name)
    return tuple(usable)


def _tools_with_sessions_in(path: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the tools that have sessions in a file or folder."""
    from rekindle.importers.registry import load_importer

    errors = {
        name: [found.error for found in load_importer(name).find(path, None)] for name in names
    }
    certain = [name for name, found in errors.items() if "" in found]
    # A file that cannot be read may belong to any of them.
    return tuple(certain or [name for name, found in errors.items() if found])


def _import_tools(arguments: argparse.Namespace, names: tuple[str, ...], path: Path | None) -> int:
    from rekindle.cli.tool_import import import_tools

    return import_tools(arguments, names, path)
