"""Completion: the candidates, and their use by bash, zsh and fish."""

import os
import pty
import re
import select
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import warm_start
from rekindle.cli.main import COMMANDS, HIDDEN
from rekindle.model import AgentIdentity, Counted, Deleted, Opened, Titled, TitleSource
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

NOW = 1_700_000_000_000_000
HOSTILE = "It's $(touch /tmp/owned) `x` \\ % : \x1b[31m\n[a] {b} *"
SHOWN = r"It's $(touch /tmp/owned) `x` \ % : \x1b[31m [a] {b} * (OpenCode"
TYPED = r"It's $(touch /tmp/owned) `x` \ % :"
"""The part of the hostile title that can be typed."""
SHELLS = {name: shutil.which(name) or "" for name in ("bash", "zsh", "fish")}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with its own store, in which `rekindle` is the tested one."""
    path = tmp_path / "s.db"
    titles = {
        "ses_alpha": "Fix the parser",
        "ses_beta": HOSTILE,
        "abc:def": "With a colon",
        "bad id; $(x)": "Not to be typed",
        "gone": "Deleted",
    }
    with SqliteStore(path) as store:
        for number, (id_, title) in enumerate(titles.items()):
            at_us = NOW + number
            agent = AgentIdentity(name="OpenCode")
            store.write(
                [
                    Opened(session_id=id_, at_us=at_us, cwd="/p", agent=agent),
                    Titled(session_id=id_, at_us=at_us, source=TitleSource.AGENT, title=title),
                    Counted(session_id=id_, at_us=at_us, turns=1),
                ]
            )
        store.write([Deleted(session_id="gone", at_us=NOW)])
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), "/usr/bin", "/bin"]),
        "REKINDLE_STORE": str(path),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "COLUMNS": "200",
    }


def complete(environ: dict[str, str], *arguments: str) -> tuple[str, list[str]]:
    """Return the kind of completion, and the offered words."""
    kind, *lines = candidates(environ, "--", *arguments)
    return kind, [line.partition("\t")[0] for line in lines]


def candidates(environ: dict[str, str], *arguments: str) -> list[str]:
    done = warm_start.run(
        [*REKINDLE, "complete", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split("\n")[:-1]


def test_commands_are_offered_except_hidden_ones(environ: dict[str, str]) -> None:
    assert complete(environ, "") == ("words", list(COMMANDS))
    assert not HIDDEN & COMMANDS.keys()
    assert complete(environ, "sho") == ("words", ["show"])
    assert complete(environ, "--v") == ("words", ["--version"])
    assert complete(environ, "nonsense", "") == ("words", [])
    assert candidates(environ, "--", "sho") == ["words", f"show\t{COMMANDS['show']}"]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_every_command_is_offered(environ: dict[str, str], command: str) -> None:
    kind, offered = complete(environ, command, "--")
    shown = warm_start.run(
        [*REKINDLE, command, "--help"], capture_output=True, text=True, check=True, timeout=TIMEOUT
    ).stdout
    forms = re.findall(r"^  (-.*?)(?:  |$)", shown, re.MULTILINE)
    listed = [name for form in forms for name in re.findall(r"--[a-z][a-z0-9-]*", form)]
    assert (kind, offered) == ("words", listed)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("arguments", "kind", "offered"),
    [
        (["show", ""], "words", ["abc:def", "ses_beta", "ses_alpha"]),
        (["show", "ses_"], "words", ["ses_beta", "ses_alpha"]),
        (["show", "--json", "ses_a"], "words", ["ses_alpha"]),
        (["show", "x", ""], "words", []),
        (["show", "--", "ses_a"], "words", ["ses_alpha"]),
        (["--no-color", "show", "ses_a"], "words", ["ses_alpha"]),
        (["undelete", ""], "words", ["gone"]),
        (["show", "Fix"], "words", ["Fix the parser"]),
        (["delete", "colon"], "words", ["With a colon"]),
        (["archive", "x", "With a"], "words", ["With a colon"]),
        (["undelete", "Del"], "words", ["Deleted"]),
        (["undelete", "@"], "words", ["@1"]),
        (["export", "@"], "words", ["@1", "@2", "@3", "@4"]),
        (["show", "@3"], "words", ["@3"]),
        (["rm", "ses_a"], "words", ["ses_alpha"]),
        (["help", "sho"], "words", ["show"]),
        (["help", "show", ""], "words", []),
        (["--store", ""], "files", []),
        (["--store=x"], "files", []),
        (["--s"], "words", ["--store"]),
        (["prompt", "--last", ""], "words", []),
        (["prompt", "--title", "x", ""], "words", []),
        (["show", "--last", "ses_a"], "words", ["ses_alpha"]),
        (["resume", "--title", "Fix"], "words", ["Fix the parser"]),
        (["prompt", "--title", "Fix the"], "words", ["Fix the parser"]),
        (["show", "--title=Wi"], "words", ["--title=With a colon"]),
        (["show", "--title", "COLON"], "words", ["With a colon"]),
        (["show", "--title", "e"], "words", []),
        (["show", "--title", "Deleted"], "words", []),
        (["list", "--agent", ""], "words", ["OpenCode"]),
        (["search", "--agent=Op"], "words", ["--agent=OpenCode"]),
        (["setup", "--name", ""], "words", []),
        (["show", "--store", ""], "files", []),
        (["show", "--store=", ""], "words", []),
        (["show", "--store=/x"], "files", []),
        (["list", "--cwd", ""], "folders", []),
        (["relocate", "x", ""], "folders", []),
        (["run", ""], "words", None),
        (["run", "cl"], "words", ["claude", "cline"]),
        (["check", "--json", "gem"], "words", ["gemini"]),
        (["new", "./"], "command", []),
        (["run", "--"], "words", None),
        (["run", "--", ""], "command", []),
        (["run", "--", "x", ""], "files", []),
        (["run", "--strict", "x", "--"], "files", []),
        (["completion", "z"], "words", ["zsh"]),
        (["import", ""], "words", ["claude", "codex", "opencode", "gemini", "all"]),
        (["import", "--dry-run", "c"], "words", ["claude", "codex"]),
        (["import", "./c"], "files", []),
        (["import", "--cwd", "c"], "folders", []),
        (["setup", "zed", "--write", "--", ""], "command", []),
        (["example-agent", "--protocol="], "words", ["--protocol=1", "--protocol=2"]),
        (["example-agent", "--protocol", "1"], "words", ["1"]),
    ],
)
def test_candidates_depend_on_the_position(
    environ: dict[str, str], arguments: list[str], kind: str, offered: list[str] | None
) -> None:
    if arguments[1:2] == ["--store="]:
        environ["REKINDLE_STORE"] = ""
    found = complete(environ, *arguments)
    assert found[0] == kind
    assert offered is None or found[1] == offered


def test_candidates_come_from_the_named_store(environ: dict[str, str], tmp_path: Path) -> None:
    store = environ["REKINDLE_STORE"]
    environ["REKINDLE_STORE"] = str(tmp_path / "none.db")
    assert candidates(environ, "--", "show", "") == []
    assert complete(environ, "show", "--store", store, "ses_a")[1] == ["ses_alpha"]
    assert complete(environ, "show", f"--store={store}", "ses_a")[1] == ["ses_alpha"]
    assert complete(environ, "--store", store, "show", "ses_a")[1] == ["ses_alpha"]


def test_session_titles_are_descriptions_on_one_line(environ: dict[str, str]) -> None:
    kind, *lines = candidates(environ, "--", "show", "ses_")
    assert kind == "words"
    assert [line.split("\t")[0] for line in lines] == ["ses_beta", "ses_alpha"]
    assert lines[0].split("\t")[1].startswith(SHOWN)
    assert lines[1].split("\t")[1].startswith("Fix the parser (OpenCode, ")


def test_title_candidates_can_be_typed(environ: dict[str, str]) -> None:
    _, offered = complete(environ, "resume", "--title", "")
    assert offered == ["Not to be typed", "With a colon", TYPED, "Fix the parser"]
    found = warm_start.run(
        [*REKINDLE, "show", "--json", "--title", TYPED],
        env=environ,
        capture_output=True,
        check=True,
    )
    assert b'"id": "ses_beta"' in found.stdout


def test_secrets_are_not_offered(environ: dict[str, str]) -> None:
    token = f"ghp_{'aB3dE5gH7jK9' * 3}"
    with SqliteStore(Path(environ["REKINDLE_STORE"])) as store:
        titled = {"at_us": NOW, "source": TitleSource.USER, "title": f"Push with {token}"}
        store.write([Titled(session_id="ses_alpha", **titled)])
    assert complete(environ, "show", "Push") == ("words", [])
    assert "Push with ghp_*** (" in candidates(environ, "--", "show", "ses_a")[1]
    assert complete(environ, "resume", "--title", "Push") == ("words", [])


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rekindle show ses_a", ["ses_alpha"]),
        ("rekindle show 'ses_a", ["ses_alpha"]),
        ('rekindle show "ses_a', ["ses_alpha"]),
        ("rekindle  show  --json  ses_a", ["ses_alpha"]),
        ("rekindle sho", ["show"]),
        ("rekindle show x ", []),
    ],
)
def test_line_is_split_like_a_shell_does(
    environ: dict[str, str], line: str, offered: list[str]
) -> None:
    _, *lines = candidates(environ, "--line", line)
    assert [item.partition("\t")[0] for item in lines] == offered


def test_options_are_offered_after_two_dashes(environ: dict[str, str]) -> None:
    # bash passes the word to replace as --tail=--.
    kind, *lines = candidates(environ, "--line", "rekindle list --", "--tail=--")
    assert kind == "words"
    assert "--json\tprint JSON" in lines


class Terminal:
    """A shell on a terminal. Every wait is bounded."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.execve(command[0], command, environ)  # noqa: S606 - a shell, as a person starts it
        self.shown = ""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> str:
        """Wait for a text; return the output up to it."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.shown:
            ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} is not in {self.shown!r}"
            self.shown += os.read(self._fd, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def close(self) -> None:
        """Close the terminal."""
        os.close(self._fd)
        os.waitpid(self._pid, 0)


SETUP = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'",
    ),
    "zsh": (
        ["-f", "-i"],
        "unsetopt zle_bracketed_paste beep list_beep; autoload -Uz compinit; compinit -u -D",
    ),
}


@pytest.fixture(params=SETUP)
def terminal(request: pytest.FixtureRequest, environ: dict[str, str]) -> Iterator[Terminal]:
    """Return a shell that has loaded its completion script."""
    if not SHELLS[request.param]:
        pytest.skip(f"{request.param} is not installed")
    options, script = SETUP[request.param]
    terminal = Terminal([SHELLS[request.param], *options], environ)
    try:
        load = f'eval "$(rekindle completion {request.param})"; echo LOA""DED'
        terminal.type(f"PS1='> '; {script}; {load}\n")
        terminal.wait_for("LOADED")
        yield terminal
    finally:
        terminal.close()


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("rekindle sho\tses_al\t", "rekindle show ses_alpha"),
        ("rekindle show --js\tses_be\t", "rekindle show --json ses_beta"),
        ("rekindle show abc\t", "rekindle show abc:def"),
        ("rekindle show abc:\t", "rekindle show abc:def"),
        ("rekindle completion fi\t", "rekindle completion fish"),
        ("rekindle show bad\t", "rekindle show bad"),
    ],
)
def test_shell_completes_words(terminal: Terminal, typed: str, becomes: str) -> None:
    # Echo the completed line instead of running it.
    terminal.type(f"{typed}\x01echo SA''ID \x05 E''ND\n")
    terminal.wait_for("SAID ")
    said = terminal.wait_for("END").replace("\\", "")
    # zsh removes the slash of a folder if another character follows.
    assert re.sub(r"\s+", " ", said).strip().removesuffix("/") == becomes


@pytest.mark.one_of(6)
@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("Fix\t", "Fix the parser"),
        ("'Fix th\t", "Fix the parser"),
        ('"Fix th\t', "Fix the parser"),
        ("Fix\\ th\t", "Fix the parser"),
        ("parser\t", "Fix the parser"),
        ("It\t", TYPED),
        ("'It\t", TYPED),
        ('"It\t', TYPED),
        ("With\t", "With a colon"),
    ],
)
@pytest.mark.parametrize("before", ["resume --title", "delete"])
def test_shell_completes_a_title_with_quotes(
    terminal: Terminal, tmp_path: Path, before: str, typed: str, title: str
) -> None:
    say = tmp_path / "say"
    say.write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo\n', encoding="utf-8")
    say.chmod(0o755)
    # The completed command is echoed, not run.
    terminal.type(f"rekindle {before} {typed}\x01{say} \x05\n")
    terminal.wait_for("".join(f"<{word}>" for word in ["rekindle", *before.split()]))
    assert terminal.wait_for(">\r\n") == f"<{title}"
    assert not Path("/tmp/owned").exists()  # noqa: S108 - where it would be


def test_shell_completes_an_agent(terminal: Terminal) -> None:
    test_shell_completes_words(
        terminal, "rekindle list --agent Op\t", "rekindle list --agent OpenCode"
    )


def test_shell_does_not_execute_titles(terminal: Terminal) -> None:
    terminal.type("rekindle show ses_\t\t")
    shown = terminal.wait_for("Fix the parser")
    assert SHOWN[:30] in shown
    assert "\x1b[31m" not in shown
    assert not Path("/tmp/owned").exists()  # noqa: S108 - where it would be


def fish(environ: dict[str, str], line: str) -> dict[str, str]:
    """Return the candidates of fish, with their descriptions."""
    if not SHELLS["fish"]:
        pytest.skip("fish is not installed")
    script = 'rekindle completion fish | source; complete -C "$argv"'
    done = subprocess.run(
        [SHELLS["fish"], "-N", "-c", script, line],
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert done.stderr == ""
    return {item.partition("\t")[0]: item.partition("\t")[2] for item in done.stdout.splitlines()}


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rekindle sho", {"show": COMMANDS["show"]}),
        ("rekindle show ses_", {"ses_alpha": "Fix the parser (OpenC", "ses_beta": SHOWN}),
        ("rekindle show abc", {"abc:def": "With a colon (OpenCode"}),
        ("rekindle show bad", dict[str, str]()),
        ("rekindle show --js", {"--json": "print JSON"}),
        ("rekindle completion z", {"zsh": ""}),
        ("rekindle resume --title Fix", {"Fix the parser": "OpenCode, "}),
        ("rekindle resume --title 'Fix th", {"Fix the parser": "OpenCode, "}),
        ('rekindle resume --title "Fix th', {"Fix the parser": "OpenCode, "}),
        (r"rekindle resume --title Fix\ th", {"Fix the parser": "OpenCode, "}),
        ("rekindle resume --title parser", {"Fix the parser": "OpenCode, "}),
        ("rekindle resume --title It", {TYPED: "OpenCode, "}),
        ("rekindle delete Fix", {"Fix the parser": "OpenCode, "}),
        ("rekindle export It", {TYPED: "OpenCode, "}),
        ("rekindle list --agent Op", {"OpenCode": "4 sessions"}),
    ],
)
def test_fish_completes_words(environ: dict[str, str], line: str, offered: dict[str, str]) -> None:
    found = fish(environ, line)
    assert found.keys() == offered.keys()
    for word, about in offered.items():
        assert found[word].startswith(about)


def test_fish_completes_files_and_commands(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "some_file").touch()
    assert f"{tmp_path}/some_file" in fish(environ, f"rekindle show --store {tmp_path}/some")
    assert "rekindle" in fish(environ, "rekindle run -- rekin")


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("rekindle show --store {}/some_f\t", "rekindle show --store {}/some_file"),
        ("rekindle show --store={}/some_f\t", "rekindle show --store={}/some_file"),
        ("rekindle list --cwd {}/some_d\t", "rekindle list --cwd {}/some_dir"),
        ("rekindle run -- {}/some_f\t", "rekindle run -- {}/some_file"),
    ],
)
def test_shell_completes_files(
    terminal: Terminal, tmp_path: Path, typed: str, becomes: str
) -> None:
    (tmp_path / "some_file").touch(mode=0o755)
    (tmp_path / "some_dir").mkdir()
    test_shell_completes_words(terminal, typed.format(tmp_path), becomes.format(tmp_path))
