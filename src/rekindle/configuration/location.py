"""The path of the configuration file. Imports little: `run` asks for it before its agent starts."""

import os
import sys

VARIABLE = "REKINDLE_CONFIG"
_NAME = os.path.join("rekindle", "config.toml")  # noqa: PTH118 - pathlib would cost time here


def configuration_path() -> str | None:
    """Return the absolute path of the configuration file, which need not exist.

    `REKINDLE_CONFIG` names another file, or no file if it is empty. Returns None for no file, and
    if the home folder is unknown.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return os.path.abspath(os.path.expanduser(named)) if named else None  # noqa: PTH100, PTH111
    paths = [path for folder in _folders() if os.path.isabs(path := os.path.join(folder, _NAME))]  # noqa: PTH117, PTH118
    existing = [path for path in paths if os.path.exists(path)]  # noqa: PTH110
    return next(iter(existing or paths), None)


def existing_configuration_path() -> str | None:
    """Return the path of the configuration file if it exists."""
    path = configuration_path()
    return path if path is not None and os.path.exists(path) else None  # noqa: PTH110


def _folders() -> list[str]:
    """Return the folders in which the file may be, the preferred one first."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(configured):  # noqa: PTH117
        return [configured]
    folders = ["~/.config"]
    if sys.platform == "darwin":
        folders = ["~/Library/Application Support", *folders]
    return [os.path.expanduser(folder) for folder in folders]  # noqa: PTH111
