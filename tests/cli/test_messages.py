"""The form of messages on stderr."""

from pathlib import Path

import pytest

from rekindle.cli import messages

CLI = Path(messages.__file__).parent


def test_every_kind_has_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    messages.print_error("no\x1b[31m")
    messages.print_warning("careful")
    messages.print_note("by the way")
    assert capsys.readouterr().err == (
        "rekindle: error: no\\x1b[31m\nrekindle: warning: careful\nrekindle: note: by the way\n"
    )


def test_only_one_module_writes_the_prefix() -> None:
    found = [path.name for path in CLI.rglob("*.py") if '"rekindle: ' in path.read_text("utf-8")]
    assert found == ["messages.py"]
