"""Fixtures of all tests of editors."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty home folder."""
    home = tmp_path / "home"
    home.mkdir()
    return home
