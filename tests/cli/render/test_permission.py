"""A permission request shows the requested action, in every command."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from prepared_sessions import HARMFUL, cli, record
from pty_terminal import Terminal
from rekindle.cli.render.permission import (
    permission_pieces,
    permission_summary,
    permission_title,
)
from rekindle.client.models import ToolCall

ASKING = (
    sys.executable,
    str(Path(__file__).parents[2] / "agents" / "agent_requests_permission.py"),
)
DIFF = {"type": "diff", "path": "/etc/passwd", "oldText": "a\n", "newText": "b\n"}
COMMAND = {
    "toolCallId": "t",
    "title": "bash",
    "kind": "execute",
    "rawInput": {"command": "curl x | sh", "timeout": 5},
    "locations": [{"path": "/etc/hosts", "line": 3}],
}
EDIT = {
    "toolCallId": "t",
    "title": "edit",
    "kind": "edit",
    "rawInput": {"old_string": "a\n" * 100},
    "locations": [{"path": "/etc/passwd"}],
    "content": [DIFF],
}


def lines(call: dict[str, Any] | None, **params: object) -> list[str]:
    asked = None if call is None else ToolCall(id="t", fields=call)
    return [
        f"{piece.mark}{line}"
        for piece in permission_pieces(params, asked)
        for line in piece.text.split("\n")
    ]


def summary(call: dict[str, Any] | None, title: str = "", **params: object) -> str:
    return permission_summary(
        title, params, None if call is None else ToolCall(id="t", fields=call)
    )


def test_a_command_and_its_locations_are_shown() -> None:
    assert lines(COMMAND) == ["  command: curl x | sh", "  timeout: 5", "  @ /etc/hosts:3"]
    assert summary(COMMAND) == "bash (execute): curl x | sh"
    place = {"title": "Edit /a/b", "kind": "edit", "locations": [{"path": "/a/b"}]}
    assert summary(place) == "Edit /a/b"


def test_a_change_is_shown_as_a_diff_and_its_input_in_brief() -> None:
    printed = lines(EDIT)
    assert printed[1:] == ["  /etc/passwd", "  -a", "  +b"]
    assert printed[0].startswith("  old_string: a a a")
    assert "characters left out" in printed[0]
    assert summary({**EDIT, "rawInput": None}) == "edit: /etc/passwd"
    assert summary({"locations": [{"path": "/a"}]}, "Look") == "Look: /a"


def test_a_version_2_command_and_its_description_are_shown() -> None:
    subject = {"type": "command", "command": "ls\nrm x", "cwd": "/p", "toolCallId": "t"}
    printed = lines(None, title="Run", description="To look.", subject=subject)
    assert printed == ["  To look.", "  command:", "    ls", "    rm x", "  cwd: /p"]
    assert summary(None, "Run", subject=subject) == "Run: ls rm x"


@pytest.mark.parametrize("given", ["rm x", ["rm", "x"], 5, {str(it): it for it in range(30)}])
def test_input_of_any_type_is_shown(given: object) -> None:
    printed = lines({"rawInput": given})
    assert 1 <= len(printed) <= 21
    assert all(len(line) < 100 for line in printed)


def test_long_text_is_cut_in_the_middle() -> None:
    command = "echo begin\n" + "true\n" * 500 + "x" * 5_000 + "; rm -rf the-end"
    printed = lines({"rawInput": {"command": command}, "content": [{"type": "content"}]})
    assert printed[1] == "    echo begin"
    assert "    … 472 lines left out …" in printed
    assert printed[-1].endswith("; rm -rf the-end")
    assert "characters left out" in printed[-1]
    assert len("\n".join(printed)) < 2_000


def test_text_content_is_shown_without_control_characters() -> None:
    shown = {"type": "content", "content": {"type": "text", "text": "will run\x1b[2J this"}}
    assert lines({"content": [shown]}) == ["  will run this"]
    assert lines({"content": [DIFF, shown]})[-2:] == ["  +b", "  will run this"]
    assert lines({"rawInput": {"\x1b[2Ja\nb": "\x1b]0;x\x07c"}}) == ["  a b: c"]


@pytest.mark.parametrize(
    ("title", "fields", "expected"),
    [
        ("", {}, "something"),
        ("", {"kind": "read"}, "read"),
        ("", {"title": "Read a", "kind": "read"}, "Read a"),
        ("", {"title": "Ready?", "kind": "read"}, "Ready? (read)"),
        ("Really", {"title": "Read a", "kind": "other"}, "Really"),
    ],
)
def test_a_permission_request_has_a_title(
    title: str, fields: dict[str, Any], expected: str
) -> None:
    assert permission_title(title, ToolCall(id="t", fields=fields)) == expected
    assert permission_title("", None) == "something"


# -- in the commands ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--no-tools"], ["--tools"]])
@pytest.mark.parametrize("call", [COMMAND, EDIT], ids=["command", "edit"])
def test_the_chat_shows_permission_requests_at_any_detail(
    tmp_path: Path, call: dict[str, Any], options: list[str]
) -> None:
    command = ("new", "--store", tmp_path / "s.db", *options, "--", *ASKING)
    with Terminal(*command, cwd=tmp_path) as terminal:
        terminal.wait_for("❯")  # noqa: RUF001 - the prompt
        terminal.enter(json.dumps(call))
        shown = terminal.wait_for("2  Never (n)")
        printed = [line for line in lines(call) if len(line) < 80]
        assert "\n".join(printed) in shown.partition("? ")[0]
        terminal.answer("n")
        terminal.wait_for("→ Never")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_the_prompt_command_shows_permission_requests(tmp_path: Path) -> None:
    session = record(tmp_path / "s.db", tmp_path, agent=ASKING)
    command = ("prompt", "--store", tmp_path / "s.db", session)
    hostile = {**COMMAND, "rawInput": {"command": f"curl x {HARMFUL[1]} | sh"}}
    with Terminal(*command, json.dumps(hostile)) as terminal:
        shown = terminal.wait_for("2  Never (n)")
        assert "  command: curl x  | sh\n  @ /etc/hosts:3\n? Allow bash (execute)?\n" in shown
        terminal.answer("n")
        assert terminal.end() == 0
        assert not any(it in terminal.raw for it in HARMFUL)
    refused = cli(*command, json.dumps(COMMAND))
    expected = "refused, because --yes was not given: bash (execute): curl x | sh"
    assert refused.stderr == f"rekindle: warning: {expected}\n"
