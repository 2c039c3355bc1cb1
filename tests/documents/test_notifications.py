"""The examples of the page about notifications, run with stand-ins for the programs."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rekindle.configuration.file import read_configuration
from stdio_client import TIMEOUT

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "notifications.md"
TEXT = PAGE.read_text(encoding="utf-8")
TITLE = "--help \"; touch pwned; $(touch pwned) '@/etc/passwd"

# Writes its words, ended by NUL.
STAND_IN = '#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" > "$HEARD"\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def hooks(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    configuration = read_configuration(str(path))
    assert configuration.problems == ()
    return configuration.section("hooks")


def heard(tmp_path: Path, command: tuple[str, ...], **variables: str) -> list[str]:
    """Run a hook; return the words of the program that it has run, if any."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("notify-send", "osascript", "curl"):
        (programs / name).write_text(STAND_IN, encoding="utf-8")
        (programs / name).chmod(0o700)
    found = tmp_path / "heard"
    found.unlink(missing_ok=True)
    environ = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HEARD": str(found),
        "REKINDLE_TITLE": TITLE,
        "REKINDLE_REASON": "end_turn",
        "REKINDLE_TEXT": TITLE,
        "REKINDLE_CLIENTS": "0",
        "REKINDLE_EVENT": "end",
        **variables,
    }
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, timeout=TIMEOUT)
    assert not (tmp_path / "pwned").exists()
    return found.read_text(encoding="utf-8").split("\0")[:-1] if found.exists() else []


@pytest.mark.parametrize("text", blocks("toml"))
def test_the_commands_pass_the_title_as_one_word(tmp_path: Path, text: str) -> None:
    section = hooks(tmp_path, text)
    commands = [section[name] for name in section if name.startswith("on_")]
    assert commands or "[run]" in text
    for command in commands:
        if command[0] == "sh":
            words = heard(tmp_path, command)
            assert any(word.endswith(TITLE) for word in words)
            # No program reads it as an option.
            before = words[: next(i for i, it in enumerate(words) if it.endswith(TITLE))]
            assert "--" in before or before[-1] in {"--data-raw", "end run"}, json.dumps(words)


def test_the_script_is_silent_while_an_editor_is_open(tmp_path: Path) -> None:
    (script,) = (it for it in blocks("sh") if it.startswith("#!"))
    path = tmp_path / "notify"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o700)
    silent = heard(tmp_path, (str(path),), REKINDLE_CLIENTS="1")
    assert silent == []
    for event in ("waiting", "end", "death"):
        words = heard(tmp_path, (str(path),), REKINDLE_EVENT=event)
        assert words[:2] == ["notify-send", "--"]
        assert words[2]
        assert words[3] == TITLE
