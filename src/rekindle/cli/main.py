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

from rekindle.cli.arguments import (
    CommandSpec,
    has_option,
    restore_dashes,
    split_command,
    usage_of,
    with_optional_values,
)
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

COMMAND_GROUPS = {
    "Record sessions": {
        "run": "proxy an ACP agent and record every session",
        "setup": "configure an editor to start an agent behind Rekindle",
        "agents": "list the agents that can be started by name",
        "import": "import sessions of other tools, or a bundle",
    },
    "Find and continue sessions": {
        "list": "list the recorded sessions, last used first",
        "show": "show a session",
        "search": "search the text of all sessions",
        "pick": "choose a session from a list that you search by typing",
        "resume": "continue a session in a chat",
        "new": "start a session in a chat",
        "prompt": "send one prompt to a session and print the answer",
        "attach": "follow a session in use, and answer its permission requests",
        "hosts": "list the processes that run agents now",
        "stop": "end the use of a session by another process",
    },
    "Manage sessions": {
        "rename": "set the title of a session",
        "archive": "hide sessions without deleting them",
        "unarchive": "list archived sessions again",
        "fork": "copy a session, so that both can go different ways",
        "export": "write a session as a document, or as a bundle",
        "relocate": "set the folder of sessions whose project has moved",
        "delete": "delete sessions; you can restore them for 30 days",
        "undelete": "restore deleted sessions",
        "prune": "delete old sessions",
    },
    "Maintain Rekindle": {
        "doctor": "diagnose and repair problems",
        "stats": "show the number of sessions and turns, and the size",
        "compact": "reclaim unused disk space",
        "reindex": "rebuild the search index",
        "config": "show the configuration, and where each value comes from",
        "completion": "print the completion script for a shell",
    },
    "Develop agents": {
        "check": "check an agent against the protocol's rules for sessions",
        "example-agent": "run a small ACP agent without a model",
    },
}
"""The commands, as the help groups them, each with its summary."""

COMMANDS = {name: summary for group in COMMAND_GROUPS.values() for name, summary in group.items()}

ALIASES = {"ls": "list", "rm": "delete"}
HELP = "help"

HIDDEN = frozenset({"complete"})
"""Commands that the help does not list, because shells call them."""

_MODULES = {"unarchive": "archive", "undelete": "delete", "new": "resume", "complete": "completion"}
"""The modules of commands that share one. Any other command has a module of its own name."""

PROTOCOL_COMMANDS = frozenset({"run", "example-agent"})
"""Commands whose stdout carries the protocol."""

CHANGING_COMMANDS = frozenset(
    {
        *("setup", "import", "rename", "archive", "unarchive", "fork", "relocate", "delete"),
        *("undelete", "prune", "doctor", "compact", "reindex"),
    }
)
"""Commands that finish their work even if the reader of their output leaves."""

_DEBUG = "REKINDLE_DEBUG"
RESCUE_HINT = "; `rekindle doctor --fix` recovers what can be read"
_FOLDER_GONE = "the current folder was removed; change to a folder that exists"
_SYNONYMS = {
    "cat": "show",
    "chat": "new",
    "continue": "resume",
    "copy": "fork",
    "find": "search",
    "grep": "search",
    "history": "list",
    "init": "setup",
    "install": "setup",
    "mv": "rename",
    "open": "resume",
    "remove": "delete",
    "restore": "undelete",
    "start": "new",
    "view": "show",
    "wrap": "run",
}
"""Words that people may type for a command. They are suggestions, not aliases."""


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
    parser.usage = parser.usage or usage_of(parser)
    if name not in PROTOCOL_COMMANDS:
        text = "print without colours, as with NO_COLOR=1"
        parser.add_argument("--no-color", nargs=0, action=_NoColour, help=text)
    return spec, parser


def _run(argv: list[str]) -> int:
    options, argv = split_global_options(argv)
    if argv[:1] == [HELP]:
        argv = [*argv[1:2], "--help"]
    if not argv or argv[0].startswith("-") or argv[0] == HELP:
        return _top_level([*options, *argv])
    name = ALIASES.get(argv[0], argv[0])
    if name not in {*COMMANDS, *HIDDEN}:
        _top_level_parser().error(_unknown_command(name))
    spec, parser = load_command(name)
    if options and not has_option(parser, "--store"):
        parser.error(f"`rekindle {name}` uses no store; leave --store out")
    argv = [*options, *argv[1:]]
    configuration = None
    if name not in PROTOCOL_COMMANDS:
        from rekindle.cli.configured import apply_configuration

        configuration = apply_configuration(name, parser)
        _check_encoding(parser, argv)
    own, command = split_command(parser, with_optional_values(parser, argv))
    if command is None:
        arguments = parser.parse_args(own)
    else:
        # Intermixed: options may stand between positional arguments.
        arguments = parser.parse_intermixed_args(own)
        arguments.command = command
    restore_dashes(parser, arguments)
    if configuration is not None:
        from rekindle.cli.configured import report_problems

        report_problems(name, configuration)
    try:
        # A watch has no end of its own: it ends when its reader leaves.
        if name in CHANGING_COMMANDS and not getattr(arguments, "watch", False):
            from rekindle.cli.unread_output import accepting_unread_output

            with accepting_unread_output():
                return spec.main(arguments)
        return spec.main(arguments)
    except UsageError as error:
        return _fail(error, USAGE)


def split_global_options(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return `--store` with its value if it precedes the command, and the other arguments.

    `--no-color` takes effect here.
    """
    options: list[str] = []
    rest = list(argv)
    while rest:
        if rest[0] == "--no-color":
            os.environ["NO_COLOR"] = "1"
            rest = rest[1:]
        elif rest[0] == "--store" and len(rest) > 1:
            options, rest = [f"--store={rest[1]}"], rest[2:]
        elif rest[0].startswith("--store="):
            options, rest = rest[:1], rest[1:]
        else:
            break
    return options, rest


def _unknown_command(name: str) -> str:
    """Return the error for an unknown command, with the command that the user may mean."""
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), [*COMMANDS, *ALIASES, HELP], 1)
    meant = _SYNONYMS.get(name.lower()) or (close[0] if close else None)
    text = f"unknown command {name!r}"
    return f"{text}; did you mean `rekindle {meant}`?" if meant else text


def _check_encoding(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Exit with a usage error if an argument is not UTF-8: no store could hold or find it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            parser.error(f"this argument is not valid UTF-8: {argument!a}")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have the form of all errors, with a remedy."""

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit."""
        from rekindle.cli.usage_errors import plain_text, unknown_words

        text, unknown = plain_text(message), unknown_words(message)
        remedy = "" if "; " in text else f"; see `{self.prog} --help`"
        if unknown:
            remedy = self._remedy_for(unknown) or remedy
        raise SystemExit(_fail(f"{text}{remedy}", USAGE))

    def _remedy_for(self, unknown: str) -> str:
        """Return what to type instead of unknown arguments, if it can be guessed."""
        from difflib import get_close_matches

        first = unknown.partition(" ")[0].partition("=")[0]
        if first.startswith("-"):
            known = list(self._option_string_actions)
            close = get_close_matches(first, known, 1)
            return f"; did you mean {close[0]}?" if close else ""
        if self.get_default("command") is not None:
            return f"; type an agent's command after two dashes: -- {unknown}"
        return ""


class _NoColour(argparse.Action):
    """Set NO_COLOR, which all printing code reads."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,  # noqa: ARG002
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        setattr(namespace, self.dest, True)
        os.environ["NO_COLOR"] = "1"


def _top_level(argv: list[str]) -> int:
    """Handle a command line without a command."""
    parser = _top_level_parser()
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return USAGE


def _top_level_parser() -> _Parser:
    from rekindle.cli.version import ShowVersion

    groups = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:14} {about}" for name, about in group.items())])
        for title, group in COMMAND_GROUPS.items()
    )
    aliases = ", ".join(f"`{alias}` is `{name}`" for alias, name in ALIASES.items())
    parser = _Parser(
        prog="rekindle",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="rekindle [OPTIONS] COMMAND …",
        description="Record, continue and search the sessions of any coding agent that speaks ACP.",
        epilog=f"{groups}\n\n{aliases}. `rekindle help COMMAND` explains a command.",
        # Only whole options: `split_global_options` must find the command after them.
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V", "--version", nargs=0, action=ShowVersion, help="print the version and exit"
    )
    parser.add_argument("--store", help="use this store; a command accepts the option, too")
    parser.add_argument(
        "--no-color", action="store_true", help="print without colours, as with NO_COLOR=1"
    )
    return parser


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
    from rekindle.cli.messages import print_error

    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    print_error(str(error))
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
        f"please report it, with the output of the same command and {_DEBUG}=1"
    )


def _discard_output() -> None:
    """Redirect stdout to the null device: the interpreter flushes it again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
