"""The command line: one module a command, imported only when it is used.

A command's module has `configure(parser)` and `main(arguments) -> int`. An argument whose metavar
is SESSION, FILE, DIR or COMMAND is completed as one by shells.
"""

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from rekindle.cli.arguments import split_at_dashes
from rekindle.errors import (
    AgentNotStarted,
    IndexDamaged,
    RekindleError,
    StoreDamaged,
    UsageError,
)

FAILURE = 1
USAGE = 2
MISTAKE = 70
"""What is wrong is Rekindle itself."""
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
"""Commands that people do not type."""

SPEAKERS = frozenset({"run", "example-agent"})
"""Commands whose stdout carries the protocol."""

_DEBUG = "REKINDLE_DEBUG"
TO_BE_SAVED = ": `rekindle doctor --fix` saves what can be read"
_GONE = "the current folder is gone: change into one that is there"


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code. Whatever happens, no traceback is shown."""
    _see_that_streams_are_there()
    try:
        _heed_interrupts()
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except RekindleError as error:
        is_to_be_saved = isinstance(error, StoreDamaged) and not isinstance(error, IndexDamaged)
        words = f"{error}{TO_BE_SAVED if is_to_be_saved else ''}"
        return _fail(words, error.exit_code if isinstance(error, AgentNotStarted) else FAILURE)
    except OSError as error:
        return _fail(_GONE if _is_for_want_of_folder(error) else _of_system(error), FAILURE)
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        return _fail(_in_words(error), MISTAKE)


def _heed_interrupts() -> None:
    """Let Ctrl-C be an exception again, now that somebody takes it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def parser_of(name: str) -> tuple[ModuleType, argparse.ArgumentParser]:
    """Return a command's module, and what reads its arguments."""
    module = import_module(f"rekindle.cli.commands.{name.replace('-', '_')}")
    parser = _Parser(
        prog=f"rekindle {name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=module.__doc__,
    )
    module.configure(parser)
    if name not in SPEAKERS:
        words = "no colours, as with NO_COLOR=1"
        parser.add_argument("--no-color", nargs=0, action=_NoColour, help=words)
    return module, parser


def _run(argv: list[str]) -> int:
    if argv[:1] == ["--no-color"]:
        os.environ["NO_COLOR"] = "1"
        argv = argv[1:]
    if not argv or argv[0] not in {*COMMANDS, *HIDDEN}:
        return _top_level(argv)
    module, parser = parser_of(argv[0])
    if argv[0] not in SPEAKERS:
        _check_text(parser, argv[1:])
    words, command = split_at_dashes(parser, argv[1:])
    if command is None:
        arguments = parser.parse_args(words)
    else:
        # Intermixed: words may stand on either side of options.
        arguments = parser.parse_intermixed_args(words)
        arguments.command = command
    try:
        return module.main(arguments)
    except UsageError as error:
        parser.print_usage(sys.stderr)
        return _fail(error, USAGE)


def _check_text(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """End with a complaint if an argument is no text, which no store could hold or find."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            parser.error(f"this argument is not text in UTF-8: {argument!a}")


class _Parser(argparse.ArgumentParser):
    """Quotes what it was given so that a terminal does not obey it."""

    def error(self, message: str) -> NoReturn:
        from rekindle.cli.formatting import printable

        super().error(printable(message))


class _NoColour(argparse.Action):
    """Does what the variable does, which all that prints already heeds."""

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

    summary = "\n".join(f"  {name:15} {what}" for name, what in COMMANDS.items())
    parser = _Parser(
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


def _see_that_streams_are_there() -> None:
    """Put something in the place of streams that the caller has closed.

    A file opened later would else get the number of one, and what is printed. What stands in
    for them here can still not be read or written, so that `run` knows that nobody is there.
    """
    for number, name, flags in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_RDONLY),
    ):
        if getattr(sys, name) is None:
            with suppress(OSError):
                _occupy(number, flags)
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as we run
    for stream in (sys.stdout, sys.stderr):
        # Not every terminal can show every character; none of them is worth a failure.
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
        _forget_output()
    with suppress(OSError):
        # It may quote an agent.
        print(f"rekindle: {printable(str(error))}", file=sys.stderr)
    return code


def _is_for_want_of_folder(error: OSError) -> bool:
    """Tell whether it is because the current folder was removed, which many things stumble over."""
    is_named = os.path.isabs(error.filename or "")  # noqa: PTH117 - may be bytes
    if not isinstance(error, FileNotFoundError) or is_named:
        return False
    try:
        os.getcwd()  # noqa: PTH109 - nothing is made of it
    except OSError:
        return True
    return False


def _of_system(error: OSError) -> str:
    """Say what the system says, without its number, which tells nobody anything."""
    if error.strerror is None:
        return str(error)
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    return f"{where}{error.strerror}"


def _in_words(error: Exception) -> str:
    """Say of a mistake of ours what whoever repairs it has to know."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return (
        f"a bug in Rekindle: {type(error).__name__}: {error}{where}; "
        f"please report it, best with what {_DEBUG}=1 shows"
    )


def _forget_output() -> None:
    """Let nobody have what is not yet written: the interpreter would try it again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
