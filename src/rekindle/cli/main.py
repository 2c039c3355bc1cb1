"""The command line. The module of a command is imported only when the command is used.

The module of a command has `configure(parser)` and `main(arguments) -> int`, and its docstring is
the help text. A module with several commands has a dictionary `SPECS` of `CommandSpec` instead.
Shells complete an argument by its metavar: SESSION, FILE, DIR or COMMAND.
"""

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from rekindle.cli.arguments import CommandSpec, split_at_dashes
from rekindle.errors import (
    AgentNotStarted,
    IndexDamaged,
    RekindleError,
    StoreDamaged,
    UsageError,
)

FAILURE = 1
USAGE = 2
INTERNAL_ERROR = 70
"""The exit code for a bug in Rekindle."""
INTERRUPTED = 130
BROKEN_PIPE = 141

COMMANDS = {
    "run": "stand before an ACP agent and record every session",
    "list": "list recorded sessions, the last used first",
    "show": "show a session",
    "pick": "choose a session by typing, and go on with it",
    "resume": "go on with a session, in a chat",
    "new": "start a session, in a chat",
    "prompt": "send one prompt to a session, and print the answer",
    "search": "look for words in all sessions",
    "rename": "give a session a title that stays",
    "archive": "put sessions away, without deleting them",
    "unarchive": "take archived sessions out again",
    "fork": "make a session that begins with another's record",
    "export": "write a session as a document, or for another machine",
    "import": "take in what other tools have, or what was exported",
    "relocate": "say where a moved project is now",
    "delete": "delete sessions, for 30 days or for good",
    "undelete": "bring deleted sessions back",
    "prune": "delete old sessions",
    "stats": "sessions, turns, agents, size and growth",
    "compact": "give unused space back to the disk",
    "reindex": "rebuild the index for searching",
    "check": "check whether an agent keeps the protocol's rules for sessions",
    "doctor": "see whether all is well, and repair what can be",
    "setup": "put Rekindle into an editor's configuration",
    "completion": "let a shell complete commands, options and sessions",
    "example-agent": "a small ACP agent without a model, for trying things out",
}

HIDDEN = frozenset({"complete"})
"""Commands that the help does not list, because shells call them."""

_MODULES = {"unarchive": "archive", "undelete": "delete", "new": "resume", "complete": "completion"}
"""The modules of commands that share one. Any other command has a module of its own name."""

PROTOCOL_COMMANDS = frozenset({"run", "example-agent"})
"""Commands whose stdout carries the protocol."""

_DEBUG = "REKINDLE_DEBUG"
RESCUE_HINT = ": `rekindle doctor --fix` saves what can be read"
_FOLDER_GONE = "the current folder is gone: change into one that is there"


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code.

    An error is printed as one line without a traceback, unless REKINDLE_DEBUG is set.
    """
    _replace_closed_streams()
    try:
        _restore_interrupts()
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except RekindleError as error:
        needs_rescue = isinstance(error, StoreDamaged) and not isinstance(error, IndexDamaged)
        text = f"{error}{RESCUE_HINT if needs_rescue else ''}"
        return _fail(text, error.exit_code if isinstance(error, AgentNotStarted) else FAILURE)
    except OSError as error:
        return _fail(_FOLDER_GONE if _lacks_current_folder(error) else _os_error(error), FAILURE)
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        return _fail(_bug_report(error), INTERNAL_ERROR)


def _restore_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C again, which `rekindle.__main__` has switched off."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def load_command(name: str) -> tuple[CommandSpec, argparse.ArgumentParser]:
    """Import a command; return it with the parser of its arguments."""
    module = import_module(f"rekindle.cli.commands.{_MODULES.get(name, name).replace('-', '_')}")
    specs: dict[str, CommandSpec] = getattr(module, "SPECS", {})
    spec = specs.get(name) or CommandSpec(module.__doc__, module.configure, module.main)
    parser = _Parser(
        prog=f"rekindle {name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=spec.description,
    )
    spec.configure(parser)
    if name not in PROTOCOL_COMMANDS:
        text = "no colours, as with NO_COLOR=1"
        parser.add_argument("--no-color", nargs=0, action=_NoColour, help=text)
    return spec, parser


def _run(argv: list[str]) -> int:
    if argv[:1] == ["--no-color"]:
        os.environ["NO_COLOR"] = "1"
        argv = argv[1:]
    if not argv or argv[0] not in {*COMMANDS, *HIDDEN}:
        return _top_level(argv)
    spec, parser = load_command(argv[0])
    if argv[0] not in PROTOCOL_COMMANDS:
        _check_encoding(parser, argv[1:])
    own, command = split_at_dashes(parser, argv[1:])
    if command is None:
        arguments = parser.parse_args(own)
    else:
        # Intermixed: options may stand between positional arguments.
        arguments = parser.parse_intermixed_args(own)
        arguments.command = command
    try:
        return spec.main(arguments)
    except UsageError as error:
        parser.print_usage(sys.stderr)
        return _fail(error, USAGE)


def _check_encoding(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Exit with a usage error if an argument is not UTF-8: no store could hold or find it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            parser.error(f"this argument is not text in UTF-8: {argument!a}")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors quote arguments without control characters."""

    def error(self, message: str) -> NoReturn:
        from rekindle.cli.formatting import printable

        super().error(printable(message))


class _NoColour(argparse.Action):
    """Set NO_COLOR, which all printing code reads."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,  # noqa: ARG002
        values: str | Sequence[object] | None,  # noqa: ARG002
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        os.environ["NO_COLOR"] = "1"


def _top_level(argv: list[str]) -> int:
    from rekindle import __version__

    summaries = "\n".join(f"  {name:15} {summary}" for name, summary in COMMANDS.items())
    parser = _Parser(
        prog="rekindle",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="rekindle COMMAND …",
        description="A memory that lasts, for every coding agent that speaks ACP.",
        epilog=f"commands:\n{summaries}\n\nrekindle COMMAND --help tells more.",
    )
    parser.add_argument("--version", action="version", version=f"rekindle {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", choices=list(COMMANDS))
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return USAGE


def _replace_closed_streams() -> None:
    """Open the null device in place of each standard stream that the caller has closed.

    Otherwise a file opened later would get the stream's descriptor, and printed text with it. The
    device is opened in the wrong direction, so that `run` still fails to read or write.
    """
    for number, name, flags in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_RDONLY),
    ):
        if getattr(sys, name) is None:
            with suppress(OSError):
                _occupy(number, flags)
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the process ends
    for stream in (sys.stdout, sys.stderr):
        # A terminal may lack some characters. That must not end a command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _occupy(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _fail(error: Exception | str, code: int) -> int:
    from rekindle.cli.formatting import printable

    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    with suppress(OSError):
        # The error may quote an agent.
        print(f"rekindle: {printable(str(error))}", file=sys.stderr)
    return code


def _lacks_current_folder(error: OSError) -> bool:
    """Return whether an error has occurred because the current folder was removed."""
    is_absolute = os.path.isabs(error.filename or "")  # noqa: PTH117 - may be bytes
    if not isinstance(error, FileNotFoundError) or is_absolute:
        return False
    try:
        os.getcwd()  # noqa: PTH109 - only the error matters
    except OSError:
        return True
    return False


def _os_error(error: OSError) -> str:
    """Return the system's description of an error, without the error number."""
    if error.strerror is None:
        return str(error)
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    return f"{where}{error.strerror}"


def _bug_report(error: Exception) -> str:
    """Describe an internal error and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return (
        f"a bug in Rekindle: {type(error).__name__}: {error}{where}; "
        f"please report it, best with what {_DEBUG}=1 shows"
    )


def _discard_output() -> None:
    """Redirect stdout to the null device: the interpreter flushes it again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
