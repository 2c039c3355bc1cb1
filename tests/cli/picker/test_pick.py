"""`rekindle pick`, in a real terminal."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from picker_store import read, write, write_three
from prepared_sessions import HARMFUL, cli, record
from pty_terminal import Terminal
from rekindle.cli.picker.screen import picker_keys
from rekindle.model import Opened, Page, TitleSource
from rekindle.store.sqlite.store import SqliteStore
from tmux import TMUX, Tmux

PROMPT = "❯"  # noqa: RUF001 - the prompt's character
READY = f"/help\n\n{PROMPT}"
"""The end of the opening hint, and the first prompt."""
COLOUR = re.compile(r"\x1b\[[0-9;]*\b(3[0-7]|4[0-7]|9[0-7]|38;|48;)[0-9;]*m")
BACKGROUND = re.compile(r"\x1b\[(?:[0-9;]*;)?(4[0-8]|10[0-7])[0-9;]*m")

needs_tmux = pytest.mark.skipif(TMUX is None, reason="there is no tmux")
Pick = Callable[..., Tmux]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with three sessions, oldest first."""
    return write_three(tmp_path / "s.db")


@pytest.fixture
def pick(tmp_path: Path, store: Path) -> Iterator[Pick]:
    opened: list[Tmux] = []

    def begin(*arguments: str | Path, **environ: str) -> Tmux:
        opened.append(Tmux(tmp_path, "pick", "--store", store, *arguments, **environ))
        opened[0].wait_for("leave")
        return opened[0]

    yield begin
    for terminal in opened:
        terminal.__exit__()


@needs_tmux
def test_typing_filters_and_highlight_shows_a_preview(pick: Pick) -> None:
    terminal = pick()
    screen = terminal.wait_for("It rains into the attic.")
    rows = screen.splitlines()
    assert [row.split()[0] for row in rows[2:5]] == ["ses_roof", "ses_bike", "ses_milk"]
    assert "3 sessions" in screen
    terminal.press("Down")
    terminal.wait_for("The zebra crossing was wet.")
    # All words match in any order: one in the title, one in the folder.
    terminal.type("kitch MILK")
    screen = terminal.wait_for("The fridge is empty.")
    assert "1 session\n" in screen
    assert "ses_roof" not in screen
    terminal.type("x")
    terminal.wait_for("No session matches.")
    terminal.press("C-u")
    terminal.wait_for("3 sessions")
    terminal.press("Escape")
    assert terminal.end() == 0


@needs_tmux
def test_session_without_a_turn_is_not_offered(store: Path, pick: Pick) -> None:
    with SqliteStore(store) as opened:
        later = max(session.updated_us for session in opened.sessions(Page())) + 1
        opened.write([Opened(session_id="ses_unused", at_us=later, cwd="/p")])
    terminal = pick()
    screen = terminal.wait_for("3 sessions")
    assert "ses_unused" not in screen
    terminal.type("unused")
    terminal.wait_for("No session matches.")
    terminal.press("Escape")
    assert terminal.end() == 0


@needs_tmux
def test_text_of_sessions_is_searched_while_typing(pick: Pick) -> None:
    terminal = pick()
    terminal.type("zeb")
    screen = terminal.wait_for("ses_bike")
    screen = terminal.wait_until(lambda it: "ses_roof" not in it and it.count("zebra") > 1)
    # The snippet is above the preview.
    assert screen.index("The zebra") < screen.index("───")
    terminal.press("Escape")
    assert terminal.end() == 0


@needs_tmux
def test_enter_resumes_the_session(tmp_path: Path, store: Path, pick: Pick) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    name = record(store, folder, "My name is Ada.")
    write(store, "ses_new", tmp_path / "other", "Newest of all")
    terminal = pick()
    # The key comes before the search has any result.
    terminal.press("A", "d", "a", "Enter")
    terminal.wait_for(READY)
    terminal.type("What did I say first?")
    terminal.press("Enter")
    terminal.wait_until(lambda it: bool(re.search(rf"first: My name is Ada.\n\n{PROMPT}", it)))
    terminal.press("C-d")
    assert terminal.end() == 0
    assert read(store, name).turns == 2


@needs_tmux
def test_key_shows_the_session(pick: Pick) -> None:
    terminal = pick()
    terminal.type("bike")
    terminal.press("C-o")
    assert terminal.end() == 0
    assert f"{PROMPT} The zebra crossing was wet." in terminal.screen
    assert "^f fork" not in terminal.screen


@needs_tmux
def test_key_renames_the_session(store: Path, pick: Pick) -> None:
    terminal = pick()
    terminal.type("bike")
    terminal.press("C-r")
    screen = terminal.wait_for("esc cancel")
    # The question is shown over the list.
    assert "ses_bike" in screen
    terminal.press("C-u", *"Sell it", "Enter")
    terminal.wait_for("renamed: Sell it")
    now = read(store, "ses_bike")
    assert (now.title, now.title_source) == ("Sell it", TitleSource.USER)
    terminal.press("C-u")
    terminal.wait_until(lambda it: "ses_bike" in it and "Sell it" in it and "3 sessions" in it)
    terminal.press("C-r")
    terminal.wait_for("esc cancel")
    terminal.press("x", "Escape")
    terminal.wait_without("esc cancel")
    terminal.press("Escape")
    assert terminal.end() == 0
    assert read(store, "ses_roof").title == "Look at the roof"


@needs_tmux
@pytest.mark.slow
def test_key_archives_the_session(store: Path, pick: Pick) -> None:
    terminal = pick()
    terminal.wait_for("3 sessions")
    terminal.press("Down", "C-t")
    terminal.wait_for("archived: Mend the bike")
    terminal.wait_without("ses_bike")
    assert read(store, "ses_bike").archived_us is not None
    assert read(store, "ses_roof").archived_us is None


@needs_tmux
def test_key_deletes_after_confirmation(store: Path, pick: Pick) -> None:
    terminal = pick()
    terminal.wait_for("3 sessions")
    terminal.press("C-x")
    screen = terminal.wait_for("Delete Look at the roof?")
    # The question is shown over the list.
    assert "ses_bike" in screen
    terminal.press("n")
    terminal.wait_without("y delete")
    assert read(store, "ses_roof").deleted_us is None
    terminal.press("C-x")
    terminal.wait_for("y delete")
    terminal.press("y")
    terminal.wait_for("deleted: Look at the roof")
    terminal.wait_without("ses_roof")
    assert read(store, "ses_roof").deleted_us is not None
    assert read(store, "ses_bike").deleted_us is None


@needs_tmux
@pytest.mark.slow
def test_key_forks_the_session(store: Path, pick: Pick) -> None:
    terminal = pick()
    terminal.type("bike")
    terminal.press("C-f")
    terminal.wait_for("forked: ")
    with SqliteStore(store) as opened:
        (fork,) = (item for item in opened.sessions(Page()) if item.parent_id)
    assert fork.parent_id == "ses_bike"
    terminal.wait_for(fork.id[:8])


@needs_tmux
@pytest.mark.slow
def test_failed_action_is_reported(store: Path, pick: Pick) -> None:
    terminal = pick()
    terminal.wait_for("3 sessions")
    with SqliteStore(store) as opened:
        opened.erase("ses_roof")
    terminal.press("C-t")
    terminal.wait_for("no session matches 'ses_roof'")
    terminal.press("Escape")
    assert terminal.end() == 0


@needs_tmux
def test_ctrl_c_interrupts(pick: Pick) -> None:
    terminal = pick()
    terminal.press("C-c")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.screen


@needs_tmux
def test_text_of_sessions_is_not_parsed_as_markup(tmp_path: Path, store: Path, pick: Pick) -> None:
    title = "\x1b]0;gone\x07 [red]x[/red] [/]"
    write(store, "ses_evil", tmp_path / "[bold]", title, "\x1b[2J [link=x]y[/link] \x9bm")
    terminal = pick()
    screen = terminal.wait_for(r"\x1b[2J [link=x]y[/link] \x9bm")
    assert "[red]x[/red] [/]" in screen
    assert not [sequence for sequence in HARMFUL if sequence in terminal.painted]


@needs_tmux
@pytest.mark.one_of(4)
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (50, 12), (40, 15), (160, 40)])
def test_rows_do_not_wrap_on_a_narrow_screen(
    tmp_path: Path, store: Path, pick: Pick, columns: int, rows: int
) -> None:
    write(store, "ses_long", tmp_path / ("f" * 90), "長い " * 60, "Hello.")
    terminal = pick(columns=columns, rows=rows)
    lines = terminal.wait_for("Hello.").splitlines()
    assert lines[1].split()[0] == "ID"
    assert [line.split()[0] for line in lines[2:4]] == ["ses_long", "ses_roof"]
    keys = " ".join(" ".join(pair) for pair in picker_keys(is_archived=False, can_undo=False))
    assert " ".join(lines[-4:]).split()[-len(keys.split()) :] == keys.split()
    # No line break separates a key from its meaning.
    assert "tab archived" in lines[-2] + lines[-1]


@needs_tmux
@pytest.mark.slow
def test_no_color_disables_colours(pick: Pick) -> None:
    terminal = pick(NO_COLOR="1")
    terminal.wait_for("It rains into the attic.")
    assert not COLOUR.search(terminal.painted)
    assert "\x1b[7m  ses_roof" in terminal.painted


@needs_tmux
@pytest.mark.slow
def test_background_is_that_of_the_terminal(pick: Pick) -> None:
    """A light terminal must not get dark parts, nor the other way round."""
    terminal = pick()
    terminal.wait_for("It rains into the attic.")
    terminal.press("C-x")
    terminal.wait_for("y delete")
    assert not BACKGROUND.search(terminal.painted)


@needs_tmux
def test_colours_are_used_by_default(pick: Pick) -> None:
    terminal = pick()
    terminal.wait_for("It rains into the attic.")
    assert COLOUR.search(terminal.painted)


@needs_tmux
def test_preview_shows_the_end_of_a_long_session(tmp_path: Path, store: Path, pick: Pick) -> None:
    prompts = [f"prompt {number}" for number in range(4000)]
    write(store, "ses_many", tmp_path / "many", "Many", *prompts)
    screen = pick().wait_for("prompt 3999")
    assert "Many" in screen


def test_without_textual_a_menu_is_shown(tmp_path: Path, store: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    record(store, folder, "My name is Ada.")
    blocker = tmp_path / "blocker" / "textual"
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise ImportError('none here')\n", encoding="utf-8")
    with Terminal("pick", "--store", store, PYTHONPATH=str(blocker.parent)) as terminal:
        shown = terminal.wait_for("Which one, 1 to 4? [1]")
        assert "pip install 'rekindle-acp[tui]'" in shown
        terminal.enter("10")
        terminal.wait_for("'10' is not a number from 1 to 4\nWhich one, 1 to 4? [1]")
        terminal.enter("1")
        terminal.wait_for(READY)
        terminal.type("\x04")
        assert terminal.end() == 0


def test_leaving_the_menu_is_reported_plainly(tmp_path: Path, store: Path) -> None:
    blocker = tmp_path / "blocker" / "textual"
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise ImportError('none here')\n", encoding="utf-8")
    with Terminal("pick", "--store", store, PYTHONPATH=str(blocker.parent)) as terminal:
        terminal.wait_for("Which one, 1 to 3? [1]")
        terminal.type("\x04")
        assert terminal.end() == 1
        assert terminal.shown.endswith("\nrekindle: error: no session was chosen\n")


def test_without_terminal_alternatives_are_named(store: Path) -> None:
    done = cli("pick", "--store", store)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "rekindle: error: rekindle pick needs a terminal; without one, use `rekindle list`"
    )


def test_textual_is_imported_only_by_the_picker() -> None:
    loaded = "import sys, rekindle.cli.commands.pick; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0


# -- `rekindle resume` without a session ----------------------------------------------------


@needs_tmux
def test_bare_resume_opens_the_picker(tmp_path: Path, store: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    record(store, folder, "My name is Ada.", "I mend bikes.")
    with Tmux(tmp_path, "resume", "--store", store, "--history", "1") as terminal:
        terminal.wait_for("tab archived")
        terminal.press("A", "d", "a", "Enter")
        # The options of the command apply to the picked session.
        screen = terminal.wait_for(READY)
        assert "(1 earlier turn" in screen
        terminal.press("C-d")
        assert terminal.end() == 0


@pytest.mark.parametrize("command", ["pick", "resume"])
def test_picker_of_an_empty_store_names_the_next_step(tmp_path: Path, command: str) -> None:
    with SqliteStore(tmp_path / "s.db"):
        pass
    with Terminal(command, "--store", tmp_path / "s.db") as terminal:
        assert terminal.end() == 1
        assert "recorded yet" in terminal.shown


def test_picker_of_a_project_without_sessions_names_the_other_option(
    tmp_path: Path, store: Path
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    with Terminal("pick", "--store", store, "--here", cwd=folder) as terminal:
        assert terminal.end() == 1
        assert "this project has no session yet: leave out --here" in terminal.shown


def test_dumb_terminal_has_a_menu_instead_of_the_picker(store: Path) -> None:
    with Terminal("resume", "--store", store, TERM="dumb") as terminal:
        terminal.wait_for("Which one, 1 to 3? [1]")
        terminal.type("\x04")
        assert terminal.end() == 1
