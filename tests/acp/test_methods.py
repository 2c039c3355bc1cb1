import pytest

from rekindle.acp.methods import is_gone_in_v2, is_private


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("session/load", True),
        ("session/set_mode", True),
        ("fs/read_text_file", True),
        ("terminal/create", True),
        ("terminal/cancel", False),
        ("session/resume", False),
        ("_own/method", False),
    ],
)
def test_methods_that_only_version_1_has(method: str, *, expected: bool) -> None:
    assert is_gone_in_v2(method) is expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("authenticate", True),
        ("auth/login", True),
        ("_auth/own", True),
        ("fs/write_text_file", True),
        ("terminal/output", True),
        ("session/prompt", False),
    ],
)
def test_credentials_and_files_are_private(method: str, *, expected: bool) -> None:
    assert is_private(method) is expected
