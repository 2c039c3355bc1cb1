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
from rekindle.cli.chat.target import add_takeover, place_of
from rekindle.cli.session_choice import add_choice, choose
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_command_after_dashes(parser)
    parser.usage = (
        "rekindle prompt (SESSION | --last | --title TEXT) [OPTIONS] [TEXT …] [-- COMMAND …]"
    )
    add_store_option(parser)
    parser.add_argument(
        "words", nargs="*", metavar="SESSION TEXT", help="the session's id, and what to say"
    )
    add_choice(parser)
    parser.add_argument("--yes", action="store_true", help="allow what the agent asks for")
    parser.add_argument("--json", action="store_true", help="print the whole turn as JSON")
    add_takeover(parser)


def main(arguments: argparse.Namespace) -> int:
    """Send the prompt, and print the answer."""
    words: list[str] = arguments.words
    is_named = not (arguments.last or arguments.title is not None)
    session_id = words.pop(0) if is_named and words else None
    prompt = _prompt(words)
    with open_for_reading(arguments.store) as store:
        session = choose(store, session_id, last=arguments.last, words=arguments.title)
        place = place_of(arguments, store, session)
    from rekindle.cli.chat.one_prompt import Errand, print_of

    return asyncio.run(Errand(place, print_of(arguments), is_allowed=arguments.yes).run(prompt))


def _prompt(words: list[str]) -> str:
    """Return what to say: the arguments, and what is piped in. Raises UsageError if nothing is."""
    said = " ".join(words).strip()
    piped = ""
    if not is_terminal(sys.stdin):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip("\n")
    prompt = "\n\n".join(part for part in (said, piped) if part.strip())
    if not prompt:
        raise UsageError("nothing to send: give a TEXT, or pipe one in")
    return prompt
