"""The cheap test for secrets: it has no false negatives."""

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from text.redact import test_detect, test_service_keys

from rekindle.text.redact.detect import find_secrets
from rekindle.text.redact.prefilter import mask_short, may_have_secret


def known_texts() -> list[str]:
    """Return all texts in the parameters of the other tests."""
    marks = [
        mark
        for module in (test_detect, test_service_keys)
        for name, it in vars(module).items()
        if name.startswith("test_")
        for mark in getattr(it, "pytestmark", [])
        if mark.name == "parametrize"
    ]
    cases = [case for mark in marks for case in mark.args[1]]
    values = [value for case in cases for value in (case if isinstance(case, tuple) else (case,))]
    return [value for value in values if isinstance(value, str)]


def test_no_known_secret_is_missed() -> None:
    secrets = [text for text in known_texts() if find_secrets(text)]
    assert len(secrets) > 100
    assert [text for text in secrets if not may_have_secret(text)] == []


_WORDS = st.sampled_from(
    ["password", "is", "=", ": ", "hunter2x", '"', "Bearer ", "://", "u:p4ss@h", "curl -u ", "a\n",
     "pa\u200bss", "wd", "\x1b[1m", "API_KEY", "AKIA", "sk-", "-----BEGIN PRIVATE KEY-----"]
)  # fmt: skip


@given(st.lists(_WORDS | st.text(max_size=20), max_size=8).map("".join))
def test_text_without_signs_has_no_secret(text: str) -> None:
    assert may_have_secret(text) or find_secrets(text) == []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Fix the parser", "Fix the parser"),
        ("Rotate the token of the server", "Rotate the token of the server"),
        (f"Log in with password: {test_detect.BODY}", "Log in with password: ***"),
        (f"Push with ghp_{test_detect.BODY}", "Push with ghp_***"),
    ],
)
def test_short_text_is_masked(text: str, masked: str) -> None:
    assert mask_short(text) == masked


def test_ordinary_title_needs_no_patterns() -> None:
    code = (
        "import sys; from rekindle.text.redact.prefilter import mask_short;"
        "mask_short('Fix the parser and its tests');"
        "sys.exit('rekindle.text.redact.detect' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
