"""Send one prompt to a session and print the answer.

Text from a pipe is added after TEXT. The agent's permission requests are
shown on a terminal. Without a terminal they are rejected, unless you pass
--yes.

AGENT is a name from `rekindle agents`, or a command. By default, Rekindle
starts the agent that used the session last. With --new, it starts the agent
that was used last in this folder, and prints the new session's id on stderr.
Without TEXT, quoted words at the end of the command line can be the prompt.

With --wait, it sends nothing, but prints the last turn's answer at its end.

exit codes:
  0 the turn ended normally   3 max_tokens          6 cancelled elsewhere
  1 an error                  4 max_turn_requests   7 another stop reason
  2 wrong usage               5 refusal             130 Ctrl-C

example:
  rekindle prompt --new "Explain this project." -- claude
  rekindle prompt --last "Now write the tests."
  git diff | rekindle prompt --last "Review this:" > review.md
  rekindle prompt --detach --last "Run all tests, and fix what fails."
  rekindle prompt --wait --last
"""

import argparse
import asyncio
import os
import stat
import sys
from collections.abc import Sequence

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.target import (
    ChatTarget,
    add_folder,
    add_takeover,
    chat_target,
    new_target,
)
from rekindle.cli.session_choice import add_session_choice, choose_session
from rekindle.cli.store_access import SESSION_HELP, add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import SessionNotFound, StoreError, UsageError

_EXAMPLE = 'rekindle prompt --new "…" -- claude'
_NEW_HINT = "`rekindle prompt --new TEXT` starts a session"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_command_after_dashes(parser)
    parser.usage = (
        "rekindle prompt [OPTIONS] SESSION TEXT … [-- AGENT …]\n"
        "       rekindle prompt [OPTIONS] --last|--new|--title TITLE TEXT … [-- AGENT …]"
    )
    add_store_option(parser)
    parser.add_argument(
        "words", nargs="*", metavar="SESSION TEXT", help=f"{SESSION_HELP}; then the prompt"
    )
    add_session_choice(parser)
    parser.add_argument("--new", action="store_true", help="start a session")
    add_folder(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="allow what the agent asks for")
    parser.add_argument("--json", action="store_true", help="print the whole turn as JSON")
    parser.add_argument(
        "--detach",
        action="store_true",
        help="start the turn, print the session's id, and return: the turn continues",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="send nothing: wait for the end of the turn, and print its answer",
    )
    add_takeover(parser)


def main(arguments: argparse.Namespace) -> int:
    """Send the prompt and print the answer; return the exit code for its stop reason."""
    if arguments.detach and not arguments.wait and (arguments.yes or arguments.json):
        raise UsageError("--detach does not wait for the turn: leave out --yes and --json")
    if arguments.wait:
        return _wait(arguments)
    if arguments.new:
        prompt, target = _new_session(arguments)
    else:
        prompt, target = _recorded_session(arguments)
    from rekindle.cli.chat.one_prompt import PromptRun, answer_printer

    run = PromptRun(target, answer_printer(arguments), allows_all=arguments.yes)
    if arguments.detach:
        return asyncio.run(run.start(prompt))
    return asyncio.run(run.run(prompt))


def _wait(arguments: argparse.Namespace) -> int:
    """Wait for the end of a turn that another process runs."""
    words: list[str] = arguments.words
    is_named = not (arguments.last or arguments.title is not None)
    if arguments.new or arguments.detach or arguments.yes or arguments.takeover:
        raise UsageError("--wait sends nothing: leave out --new, --detach, --yes and --takeover")
    if arguments.command or len(words) > is_named:
        raise UsageError("--wait sends nothing: leave out TEXT and AGENT")
    from rekindle.cli.chat.wait import wait_for_end

    with open_for_reading(arguments.store) as store:
        session = choose_session(
            store,
            words[0] if words else None,
            last=arguments.last,
            title=arguments.title,
            any_project=True,
        )
        return wait_for_end(arguments, store, session)


def _recorded_session(arguments: argparse.Namespace) -> tuple[str, ChatTarget]:
    words: list[str] = arguments.words
    is_named = not (arguments.last or arguments.title is not None)
    session_id = words.pop(0) if is_named and words else None
    prompt = _prompt(words)
    if not prompt:
        raise UsageError(f"nothing to send: give SESSION and TEXT, or pipe TEXT in; {_NEW_HINT}")
    with open_for_reading(arguments.store) as store:
        try:
            session = choose_session(
                store,
                session_id,
                last=arguments.last,
                title=arguments.title,
                any_project=False,
            )
        except SessionNotFound as error:
            raise StoreError(f"{error}; {_NEW_HINT}") from error
        return prompt, chat_target(arguments, store, session)


def _new_session(arguments: argparse.Namespace) -> tuple[str, ChatTarget]:
    if arguments.last or arguments.title is not None or arguments.takeover:
        raise UsageError("--new starts a session: leave out --last, --title and --takeover")
    prompt, agent = _prompt(arguments.words), arguments.command
    if not prompt and not arguments.words and _has_text_last(agent):
        *agent, prompt = agent
    if not prompt:
        raise UsageError('nothing to send: give TEXT before --, as in `--new "…" -- claude`')
    return prompt, new_target(arguments, agent, example=_EXAMPLE)


def _has_text_last(command: Sequence[str]) -> bool:
    """Return whether the last word after `--` must be the prompt, and not a part of the command.

    It must if it is a sentence that is not the value of an option. A script with an empty pipe has
    nothing to send: there, no word is a prompt.
    """
    if len(command) < 2 or _has_pipe():  # noqa: PLR2004 - an agent, and the prompt
        return False
    *agent, last = command
    return len(last.split()) > 1 and not agent[-1].startswith("-")


def _has_pipe() -> bool:
    """Return whether stdin is a pipe or a file: neither a terminal nor the null device."""
    return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)


def _prompt(words: list[str]) -> str:
    """Return the prompt: the arguments, then stdin. It is empty if both are."""
    typed = " ".join(words).strip()
    piped = ""
    if not is_terminal(sys.stdin):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip("\n")
    return "\n\n".join(part for part in (typed, piped) if part.strip())
