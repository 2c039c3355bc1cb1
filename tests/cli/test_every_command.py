"""Rules for every command, also for new ones: it is documented, and prints no traceback."""

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

import apsw
import pytest

import warm_start
from rekindle.cli.main import ALIASES, COMMANDS, HELP, INTERNAL_ERROR, load_command, main
from rekindle.model import EntryBatch, Kind, Opened, Side
from rekindle.store.sqlite.schema import MIGRATIONS
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT
from store_states import kept_by_another

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if path.name != "commands.md"  # it is made from the help
]
EXIT_CODES = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
CODES = {
    int(code)
    for row in re.findall(r"^\| (\d+(?:, \d+)*) \|", EXIT_CODES, re.MULTILINE)
    for code in row.split(", ")
}
NOW = 1_700_000_000_000_000
every_command = pytest.mark.parametrize("command", COMMANDS)


def arguments_for(command: str, session: str) -> list[str]:
    """Return valid arguments for a command, derived from its parser."""
    _, parser = load_command(command)
    places = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
    words = [word for place in places for word in _values_for(place, session)]
    return [*words, "--", "true"] if parser.get_default("command") is not None else words


def _values_for(place: argparse.Action, session: str) -> list[str]:
    name = str(place.metavar or place.dest).upper()
    if place.nargs == argparse.REMAINDER:
        return ["--", "true"]
    if place.choices:
        return [str(next(iter(place.choices)))]
    if name.startswith("SESSION"):
        return [session]
    return [] if place.nargs in {"?", "*"} else ["/" if name == "DIR" else "x"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return a minimal environment with a home and a store with one session."""
    home = tmp_path / "home"
    home.mkdir()
    path = tmp_path / "s.db"
    said = EntryBatch(
        session_id="ses_1", side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=b'{"params": {}}'
    )
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=NOW, cwd="/"), said])
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "REKINDLE_STORE": str(path)}


def run(
    environ: dict[str, str],
    *arguments: str,
    stdout: int = subprocess.PIPE,
    before: Callable[[], None] | None = None,
    program: tuple[str, ...] = REKINDLE,
) -> tuple[int, str]:
    """Run a command without a traceback; return its documented exit code and its stderr."""
    done = warm_start.run(
        [*program, *arguments],
        env=environ,
        cwd=environ["HOME"],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=TIMEOUT,
        check=False,
        preexec_fn=before,
    )
    for sign in ("Traceback", "Exception ignored", "Error:"):
        assert sign not in done.stderr, done.stderr
    assert done.returncode in CODES - {INTERNAL_ERROR}, done.stderr
    return done.returncode, done.stderr


@every_command
def test_help_is_short_and_has_an_example(command: str) -> None:
    lines = help_text(command).splitlines()
    assert len(lines) <= 50
    examples = help_text(command).partition("\nexample:\n")[2]
    assert re.match(rf"  rekindle ([^\n]* )?{command}\b", examples)


@cache
def help_text(*command: str) -> str:
    """Return the help of a command, or of `rekindle` itself, for a usual terminal."""
    done = warm_start.run(
        [*REKINDLE, *command, "--help"],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


HARD_TO_READ = re.compile(
    r"(?:^|[.:;]\s+)(?:What|Who|Whoever|Whatever|Of (?:what|all|the)|Those (?:who|that)|Such)\b"
    r"|\b(?:nobody|somebody|whoever|anew|lest|besides|amiss|wherever|tells?|told|telling)\b"
    r"|\b(?:all that|one (?:that|who)|those (?:that|who|of)|such an? |what (?:is|was|it|they|you) )"
    r"|\b(?:or )?else\b|\bis no(?:ne)?\b|\b(?:go(?:es)?|went) on\b|\bcomes? to\b|\btaken for\b"
    r"|\bbr(?:ing|ought)s? [^.]*back\b|\bgiven? back\b|\blooks? at\b|\btakes? (?:in|out)\b"
    r"|\bstands? (?:before|in|for)\b|\ball is well\b|\bwas said\b|\bputs? away\b|\bdrives?\b"
)
"""Old, indirect or foreign English, which took new users more than one reading."""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_plain_and_fits_a_usual_terminal(command: str) -> None:
    text = help_text(*command.split())
    assert [line for line in text.splitlines() if len(line) > 80] == []
    found = HARD_TO_READ.search(" ".join(text.split()))
    assert found is None, found


@every_command
def test_every_command_is_documented(command: str) -> None:
    assert any(re.search(rf"\brekindle {command}\b", text) for text in DOCUMENTS)


def test_documents_name_only_existing_commands() -> None:
    line = re.compile(r"^rekindle ([a-z][a-z-]+)", re.MULTILINE)
    shown = {name for text in DOCUMENTS for name in line.findall(text)}
    assert shown - {*COMMANDS, *ALIASES, HELP} == set()


@pytest.fixture
def remove_folder(tmp_path: Path) -> Callable[[], None]:
    """Return a function that enters a folder and removes it."""
    gone = tmp_path / "gone"

    def remove() -> None:
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    return remove


@pytest.mark.one_of(6)
@every_command
def test_removed_current_folder_causes_no_traceback(
    environ: dict[str, str], command: str, remove_folder: Callable[[], None]
) -> None:
    _, error_output = run(environ, command, *arguments_for(command, "ses_1"), before=remove_folder)
    assert "[Errno" not in error_output


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--last"],
        ["prompt", "--last", "x"],
        ["list", "--here"],
        ["list", "--cwd", "."],
        ["search", "--cwd", ".", "x"],
        ["setup", "zed", "--write", "--file", "x", "--", "sh"],
    ],
)
def test_removed_current_folder_is_reported(
    environ: dict[str, str], arguments: list[str], remove_folder: Callable[[], None]
) -> None:
    code, error_output = run(environ, *arguments, before=remove_folder)
    assert code == 1
    assert (
        error_output
        == "rekindle: error: the current folder was removed; change to a folder that exists\n"
    )


def test_menu_reports_a_removed_current_folder(
    environ: dict[str, str],
    remove_folder: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(environ["HOME"])
    monkeypatch.setattr("rekindle.cli.commands.resume._check_terminal", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr("rekindle.cli.commands.resume.can_pick", lambda: False)
    remove_folder()
    assert main(["resume", "--store", environ["REKINDLE_STORE"]]) == 1
    assert "the current folder was removed" in capsys.readouterr().err


@contextmanager
def _of_a_newer_version(path: Path) -> Iterator[None]:
    db = apsw.Connection(str(path))
    db.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
    db.close()
    yield


@contextmanager
def _replaced(path: Path, text: bytes | None) -> Iterator[None]:
    path.unlink()
    if text is None:
        path.mkdir()
    elif text:
        path.write_bytes(text)
    yield


STORES: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "fine": lambda _: nullcontext(),
    "missing": lambda path: _replaced(path, b""),
    "a folder": lambda path: _replaced(path, None),
    "a letter": lambda path: _replaced(path, b"Dear friend, this is no database. " * 99),
    "cut off": lambda path: _replaced(path, path.read_bytes()[:5000]),
    "newer": _of_a_newer_version,
    "held by another": kept_by_another,
}


@pytest.mark.one_of(8)
@every_command
@pytest.mark.parametrize("state", STORES)
def test_any_state_of_the_store_causes_no_traceback(
    environ: dict[str, str], command: str, state: str
) -> None:
    with STORES[state](Path(environ["REKINDLE_STORE"])):
        code, output = run(environ, command, *arguments_for(command, "ses_1"))
    assert code == 0 or output.startswith(("rekindle: error: ", "usage: ")) or command == "doctor"


@pytest.mark.one_of(4)
@every_command
def test_missing_store_causes_no_traceback(environ: dict[str, str], command: str) -> None:
    environ["REKINDLE_STORE"] = ""
    run(environ, command, *arguments_for(command, "ses_1"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
@every_command
def test_unreadable_store_causes_no_traceback(environ: dict[str, str], command: str) -> None:
    Path(environ["REKINDLE_STORE"]).chmod(0)
    run(environ, command, *arguments_for(command, "ses_1"))


def test_arguments_are_escaped_in_errors() -> None:
    for words in (["list", "--x\x1b[31m"], ["x\x1b[31m"], ["list", "--store", "/x\x1b[31m"]):
        done = warm_start.run(
            [*REKINDLE, *words], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        assert done.returncode
        assert "\x1b" not in done.stderr
        assert "\\x1b[31m" in done.stderr


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "command", [item for item in COMMANDS if "ses_1" in arguments_for(item, "ses_1")]
)
@pytest.mark.parametrize("session", ["nobody", "", "\udcff", "x" * 5000, "a\x1b[31mb\nc"])
def test_invalid_id_causes_no_traceback(
    environ: dict[str, str], command: str, session: str
) -> None:
    code, output = run(environ, command, *arguments_for(command, session))
    assert code in {1, 2}
    assert "\x1b" not in output


@pytest.mark.one_of(6)
@every_command
def test_closed_streams_cause_no_traceback(environ: dict[str, str], command: str) -> None:
    def close() -> None:
        os.closerange(0, 2)

    run(environ, command, *arguments_for(command, "ses_1"), before=close)


@pytest.mark.one_of(6)
@every_command
def test_closed_pipe_causes_no_traceback(environ: dict[str, str], command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run(environ, command, *arguments_for(command, "ses_1"), stdout=writing)
        run(environ, command, "--help", stdout=writing)
    finally:
        os.close(writing)


@pytest.mark.one_of(6)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@every_command
def test_full_disk_causes_no_traceback(environ: dict[str, str], command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        run(environ, command, *arguments_for(command, "ses_1"), stdout=full.fileno())


# Interrupts itself at the n-th audit event: an import, an opened file, a started process. So the
# moment is the same in every run.
INTERRUPTED = """
import os, signal, sys
from rekindle.cli.main import main
left = int(sys.argv[1])
def notice(event, _):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(notice)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.one_of(6)
@every_command
@pytest.mark.parametrize("moment", [1, 30, 200])
def test_interrupt_at_any_moment_is_silent(
    environ: dict[str, str], command: str, moment: int
) -> None:
    program = (sys.executable, "-c", INTERRUPTED, str(moment))
    code, _ = run(environ, command, *arguments_for(command, "ses_1"), program=program)
    assert code == 130 or moment > 1


def test_interrupt_with_a_blocked_stdout_is_silent(environ: dict[str, str]) -> None:
    lines = [b'{"params": {"prompt": [{"type": "text", "text": "%s"}]}}' % (b"x" * 9999)] * 50
    with SqliteStore(Path(environ["REKINDLE_STORE"])) as store:
        for line in lines:
            said = EntryBatch(
                session_id="ses_1", side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, data=line
            )
            store.write([said])
    pipe = subprocess.PIPE
    with warm_start.Popen(
        [*REKINDLE, "show", "ses_1"], env=environ, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        assert process.stderr.read() == b""


def test_internal_error_is_reported_in_one_line(environ: dict[str, str]) -> None:
    broken = (
        "import sys, rekindle.cli.commands.list as it; it.main = lambda _: 1 / 0;"
        "from rekindle.cli.main import main; sys.exit(main(['list']))"
    )
    for variables, code, first in (
        ({}, 70, "rekindle: error: a bug"),
        ({"REKINDLE_DEBUG": "1"}, 1, "Tra"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", broken],
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == code
        assert done.stderr.startswith(first)
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [(["list", "--no-color"], {}), (["--no-color", "list"], {}), (["list"], {"NO_COLOR": "1"})],
)
def test_colours_can_be_disabled(
    environ: dict[str, str], arguments: list[str], variables: dict[str, str]
) -> None:
    assert re.search(_COLOUR, _on_a_terminal(environ, ["doctor"]))
    arguments = ["doctor" if word == "list" else word for word in arguments]
    assert not re.search(_COLOUR, _on_a_terminal(environ | variables, arguments))


_COLOUR = r"\x1b\[[0-9;]*\b(3[0-7]|9[0-7]|38;)[0-9;]*m"


def _on_a_terminal(environ: dict[str, str], arguments: list[str]) -> str:
    """Return the output of a command on a terminal."""
    outer, inner = os.openpty()
    with warm_start.Popen(
        [*REKINDLE, *arguments],
        env=environ | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
    ):
        os.close(inner)
        shown = b""
        try:
            while piece := os.read(outer, 65536):
                shown += piece
        except OSError:
            # Linux raises this once the other end is closed.
            pass
    os.close(outer)
    return shown.decode()
