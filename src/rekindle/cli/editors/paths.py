"""The folders in which programs keep their configuration and data."""

import os
from pathlib import Path


def config_home() -> Path:
    """Return the folder of the user's configuration, as the XDG specification defines it."""
    return _folder("XDG_CONFIG_HOME", ".config")


def data_home() -> Path:
    """Return the folder of the user's data, as the XDG specification defines it."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, default: str) -> Path:
    configured = os.environ.get(variable, "")
    return Path(configured) if Path(configured).is_absolute() else Path.home() / default
