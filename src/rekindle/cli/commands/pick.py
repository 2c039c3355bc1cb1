"""Choose a session from a list, and continue it in a chat.

Type to find a session by its title, project, agent or text. Enter continues
it. The last line shows further keys: show, fork, rename, archive, delete, undo.
Without Textual (`pip install 'rekindle-acp[tui]'`), you get a numbered menu.

example:
  rekindle pick
  rekindle pick --here -- claude    # this project's sessions, with this agent
"""

import argparse
import os
import sys
from importlib import import_module

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.target import add_takeover
from rekindle.cli.messages import print_note
from rekindle.cli.project import project_folders
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import RekindleError
from rekindle.model import Page

_WITHOUT_TEXTUAL = "to search all sessions, run `pip install 'rekindle-acp[tui]'`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle pick [OPTIONS] [-- AGENT …]"
    add_store_option(parser)
    parser.add_argument(
        "--here", action="store_true", help="only sessions of this project, as in rekindle list"
    )
    add_takeover(parser)
    parser.set_defaults(redact=True)


def main(arguments: argparse.Namespace) -> int:
    """Let the user pick a session, and run the chosen command with it."""
    if not (is_terminal(sys.stdin) and is_terminal()):
        raise RekindleError(
            "rekindle pick needs a terminal; without one, use `rekindle list` or `rekindle search`"
        )
    page = Page(under=project_folders() if arguments.here else (), prompted=True)
    if not can_pick():
        return _pick_from_menu(arguments, page)
    return pick(arguments, page)


def can_pick() -> bool:
    """Return whether the terminal and the installed packages are enough for the picker."""
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        import_module("textual")
    except ImportError:
        return False
    return True


def pick(arguments: argparse.Namespace, page: Page = Page(prompted=True)) -> int:  # noqa: B008 - frozen
    """Show the picker, and run the chosen command with the picked session.

    The options in `arguments` apply to that command. Raises StoreError if there is no session.
    """
    from rekindle.cli.picker.app import pick_session

    picked = pick_session(arguments.store, page, redact=arguments.redact)
    if picked is None:
        return 0
    return _run(picked.command, picked.session_id, arguments)


def _pick_from_menu(arguments: argparse.Namespace, page: Page) -> int:
    from rekindle.cli.session_choice import choose_from_menu

    print_note(_WITHOUT_TEXTUAL)
    with open_for_reading(arguments.store) as store:
        session = choose_from_menu(store, page, redact=arguments.redact)
    return _run("resume", session.id, arguments)


def _run(command: str, session_id: str, given: argparse.Namespace) -> int:
    """Run another command with the picked session, and with the given options that it has."""
    from rekindle.cli.main import load_command

    spec, parser = load_command(command)
    arguments = parser.parse_args([])
    for name, value in vars(given).items():
        if hasattr(arguments, name):
            setattr(arguments, name, value)
    # The id is not parsed, because an agent may choose an id that looks like an option.
    arguments.session = session_id
    return spec.main(arguments)
