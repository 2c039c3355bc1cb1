"""Choose a session by typing: words of its title, project or agent, or of what was said in it.

Enter goes on with it in a chat; other keys, told in the last line, show, fork, rename, archive and
delete it. Esc leaves. Without Textual (`pip install 'rekindle[tui]'`) you choose from a list.

example:
  rekindle pick
  rekindle pick --here -- opencode acp    # this project's; go on with another agent
"""

import argparse
import sys
from importlib import import_module

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.chat.target import add_takeover
from rekindle.cli.project import project_folders
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.terminal import is_terminal
from rekindle.errors import RekindleError
from rekindle.model import Page

_WITHOUT_TEXTUAL = (
    "rekindle: to choose by typing, and from all of them: pip install 'rekindle[tui]'"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle pick [OPTIONS] [-- COMMAND …]"
    add_store_option(parser)
    parser.add_argument(
        "--here", action="store_true", help="only sessions of this project, as in rekindle list"
    )
    add_takeover(parser)


def main(arguments: argparse.Namespace) -> int:
    """Let the user pick a session, and run the chosen command with it."""
    if not (is_terminal(sys.stdin) and is_terminal()):
        raise RekindleError(
            "rekindle pick needs a terminal: `rekindle list` and `rekindle search` need none"
        )
    page = Page(under=project_folders() if arguments.here else (), prompted=True)
    if not _has_textual():
        return _pick_from_menu(arguments, page)
    from rekindle.cli.picker.app import pick_session

    picked = pick_session(arguments.store, page)
    if picked is None:
        return 0
    return _run(picked.command, picked.session_id, arguments)


def _has_textual() -> bool:
    try:
        import_module("textual")
    except ImportError:
        return False
    return True


def _pick_from_menu(arguments: argparse.Namespace, page: Page) -> int:
    from rekindle.cli.session_choice import choose_from_menu

    print(_WITHOUT_TEXTUAL, file=sys.stderr)
    with open_for_reading(arguments.store) as store:
        session = choose_from_menu(store, page)
    return _run("resume", session.id, arguments)


def _run(command: str, session_id: str, given: argparse.Namespace) -> int:
    """Run another command with the picked session."""
    from rekindle.cli.main import load_command

    spec, parser = load_command(command)
    arguments = parser.parse_args([])
    # The id is not parsed: an agent may choose one that looks like an option.
    for name in ("store", "takeover", "command"):
        setattr(arguments, name, getattr(given, name))
    arguments.session = session_id
    return spec.main(arguments)
