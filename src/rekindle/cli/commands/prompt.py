"""Send one prompt to a session, print the answer, and tell by the exit code how it ended.

What is piped in is added after TEXT, or is the prompt if there is no TEXT. Questions for
permission are asked on a terminal; where there is none they are refused, unless --yes.

exit codes:
  0 it ended as it should     3 max_tokens            6 cancelled by others
  1 an error                  4 max_turn_requests     7 another stop reason
  2 wrong usage               5 refusal               130 Ctrl-C

example:
  rekindle prompt 3f2a "Now write the tests."
  git diff | rekindle prompt --last "Review this:" > review.md
"""

import argparse
import asyncio
import sys

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.target import add_takeover, chat_target
from rekindle.cli.session_choice import add_session_choice, choose_session
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_command_after_dashes(parser)
    parser.usage = (
        "rekindle prompt (SESSION | --last | --title TEXT) [OPTIONS] [TEXT …] [-- COMMAND …]"
    )
    add_store_option(parser)
    parser.add_argument(
        "words", nargs="*", metavar="SESSION TEXT", help="the session's id, and what to say"
    )
    add_session_choice(parser)
    parser.add_argument("--yes", action="store_true", help="allow what the agent asks for")
    parser.add_argument("--json", action="store_true", help="print the whole turn as JSON")
    add_takeover(parser)


def main(arguments: argparse.Namespace) -> int:
    """Send the prompt and print the answer; return the exit code for its stop reason."""
    words: list[str] = arguments.words
    is_named = not (arguments.last or arguments.title is not None)
    session_id = words.pop(0) if is_named and words else None
    prompt = _prompt(words)
    with open_for_reading(arguments.store) as store:
        session = choose_session(store, session_id, last=arguments.last, title=arguments.title)
        target = chat_target(arguments, store, session)
    from rekindle.cli.chat.one_prompt import PromptRun, answer_printer

    run = PromptRun(target, answer_printer(arguments), allows_all=arguments.yes)
    return asyncio.run(run.run(prompt))


def _prompt(words: list[str]) -> str:
    """Return the prompt: the arguments, then stdin. Raises UsageError if both are empty."""
    typed = " ".join(words).strip()
    piped = ""
    if not is_terminal(sys.stdin):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip("\n")
    prompt = "\n\n".join(part for part in (typed, piped) if part.strip())
    if not prompt:
        raise UsageError("nothing to send: give a TEXT, or pipe one in")
    return prompt
