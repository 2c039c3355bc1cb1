"""The command line: one module a command, imported only when it is used.

A command's module has `configure(parser)` and `main(arguments) -> int`.
"""

import argparse
import io
import os
import sys
from importlib import import_module

from rekindle.errors import RekindleError, UsageError

FAILURE = 1
USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

COMMANDS = {
    "run": "stand before an ACP agent and record every session",
    "list": "list recorded sessions, the last used first",
    "show": "show a session",
    "search": "look for words in all sessions",
    "export": "write a session as a document, or for another machine",
    "import": "take in sessions that were exported",
    "delete": "delete a session, for 30 days or for good",
    "undelete": "bring a deleted session back",
    "relocate": "tell where a moved project is now",
    "reindex": "make the index for searching anew",
    "example-agent": "a small ACP agent without a model, for trying things out",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        # Not every terminal can show every character; none of them is worth a failure.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not argv or argv[0] not in COMMANDS:
        return _top_level(argv)
    name, *rest = argv
    module = import_module(f"rekindle.cli.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"rekindle {name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=module.__doc__,
    )
    module.configure(parser)
    arguments = parser.parse_args(rest)
    try:
        code = module.main(arguments)
        _flush()
    except UsageError as error:
        parser.print_usage(sys.stderr)
        return _fail(error, USAGE)
    except BrokenPipeError:
        return _reader_left()
    except (RekindleError, OSError) as error:
        return _fail(error, getattr(error, "exit_code", FAILURE))
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _top_level(argv: list[str]) -> int:
    from rekindle import __version__

    summary = "\n".join(f"  {name:15} {what}" for name, what in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="rekindle",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="rekindle COMMAND …",
        description="A memory that lasts, for every coding agent that speaks ACP.",
        epilog=f"commands:\n{summary}\n\nrekindle COMMAND --help tells more.",
    )
    parser.add_argument("--version", action="version", version=f"rekindle {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", choices=list(COMMANDS))
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return USAGE


def _flush() -> None:
    # There is no stdout where the caller has closed it.
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout.flush()


def _fail(error: Exception, code: int) -> int:
    from rekindle.cli.words import printable

    # It may name what somebody else has named.
    print(f"rekindle: {printable(str(error))}", file=sys.stderr)
    return code


def _reader_left() -> int:
    """End as other programs do when nobody reads their output any more."""
    # The interpreter flushes stdout when it ends, and would complain once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
