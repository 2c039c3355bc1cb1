"""Where editors keep what they are told. Reads the environment, and looks which files there are."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_MOST_FILES = 300


def zed() -> list[Path]:
    """Return where Zed's settings may be, the likeliest first."""
    base = Path.home() / ".config" if sys.platform == "darwin" else _config_home()
    flatpak = Path.home() / ".var/app/dev.zed.Zed/config"
    return [folder / "zed/settings.json" for folder in (base, flatpak)]


def jetbrains() -> list[Path]:
    """Return where the JetBrains IDEs look for agents."""
    return [Path.home() / ".jetbrains/acp.json"]


def neovim() -> list[Path]:
    """Return the file of ours that Neovim loads by itself, after the user's and the plugins'."""
    return [_neovim_folder() / "after/plugin/rekindle.lua"]


def emacs() -> list[Path]:
    """Return the init file that Emacs loads: it looks in this order, and for folders first."""
    home = Path.home()
    files = [file for file in (home / ".emacs.el", home / ".emacs") if file.exists()]
    folders = [it for it in (home / ".emacs.d", _config_home() / "emacs") if it.is_dir()]
    return [*files, *(folder / "init.el" for folder in folders), home / ".emacs.d/init.el"][:1]


def neovim_files() -> list[Path]:
    """Return the files that a person may have told Neovim about agents in."""
    folder = _neovim_folder()
    files = [*neovim(), folder / "init.lua", *sorted((folder / "lua").rglob("*.lua"))]
    return files[:_MOST_FILES]


def first_there(places: Sequence[Path]) -> Path:
    """Return the first that exists, else the first whose folder does, else the first."""
    there = [place for place in places if place.exists()]
    near = [place for place in places if place.parent.exists()]
    return [*there, *near, *places][0]


def _config_home() -> Path:
    told = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(told) if Path(told).is_absolute() else Path.home() / ".config"


def _neovim_folder() -> Path:
    return _config_home() / (os.environ.get("NVIM_APPNAME") or "nvim")
