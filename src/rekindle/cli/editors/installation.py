"""Find the command that starts this Rekindle, depending on how it was installed.

Editors have a short PATH and start agents in any folder. So the command has full paths, and paths
that an upgrade keeps: the link of `uv tool` or pipx rather than its target.

* uv tool, pipx, Homebrew: the link to the program, in `~/.local/bin` for example
* a virtual environment, `pip install --user`: the program itself
* uvx, `pipx run`: their environments are removed some day, so the command is `uvx rekindle-acp`
* a source tree that is not installed: Python with the path of the source
"""

import os
import re
import shutil
import site
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import rekindle
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object

DISTRIBUTION = "rekindle-acp"
"""The name of the package, which has a program of the same name for `uvx`."""
PROGRAMS = ("rekindle", DISTRIBUTION)
"""The programs of the package, which do the same."""

_UV_CACHE = re.compile(r"(?:archive|builds|environments)-v\d+")


def rekindle_command() -> tuple[str, ...]:
    """Return the command that starts this Rekindle from any folder, with any PATH."""
    environment = Path(sys.prefix)
    if _UV_CACHE.fullmatch(environment.parent.name):
        return _uvx()
    if (environment / "pipx_metadata.json").exists() and environment.parent.name != "venvs":
        return (_program("pipx"), "run", *_package_arguments("--spec"))
    scripts = _scripts_folder()
    if not (scripts / PROGRAMS[0]).exists():
        return _module_command()
    return (str(_link_to(scripts, environment) or scripts / PROGRAMS[0]),)


# -- temporary environments -------------------------------------------------------------------


def _uvx() -> tuple[str, ...]:
    # uv sets this variable for the programs that it starts.
    beside = Path(os.environ.get("UV", "")).with_name("uvx") if os.environ.get("UV") else None
    uvx = shutil.which("uvx") or (str(beside) if beside and beside.exists() else None)
    words = (uvx,) if uvx else (_program("uv"), "tool", "run")
    return (*words, *_package_arguments("--from"))


def _package_arguments(option: str) -> tuple[str, ...]:
    """Return the arguments that make uvx or `pipx run` start this package."""
    source = _package_source()
    return (option, source, DISTRIBUTION) if source else (DISTRIBUTION,)


def _package_source() -> str | None:
    """Return the URL or path that Rekindle was installed from, None for a package index."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or ""
    except metadata.PackageNotFoundError:
        return None
    origin = decode_object(text.encode()) or {}
    url = as_str(origin.get("url")) or ""
    vcs = as_object(origin.get("vcs_info"))
    if vcs:
        revision = as_str(vcs.get("requested_revision"))
        return f"{vcs.get('vcs')}+{url}{f'@{revision}' if revision else ''}"
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url or None


# -- programs in a folder ---------------------------------------------------------------------


def _scripts_folder() -> Path:
    """Return the folder with the programs of the scheme that this package is installed in."""
    is_of_user = Path(site.getusersitepackages()) in Path(rekindle.__file__).parents
    scheme = sysconfig.get_preferred_scheme("user") if is_of_user else None
    found = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
    return Path(found)


def _link_to(scripts: Path, environment: Path) -> Path | None:
    """Return a link to one of the programs, if any: an upgrade may move its target."""
    for folder in _link_folders(scripts, environment):
        for name in PROGRAMS:
            # Another package has a program `rekindle` too.
            if folder != scripts and _is_same_file(folder / name, scripts / name):
                return folder / name
    return None


def _is_same_file(link: Path, program: Path) -> bool:
    try:
        return link.samefile(program)
    except OSError:
        return False


def _link_folders(scripts: Path, environment: Path) -> Iterator[Path]:
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if Path(entry).is_absolute():
            yield Path(entry)
    yield from (Path(path).parent for path in _paths_in_uv_receipt(environment))
    for variable in ("PIPX_BIN_DIR", "XDG_BIN_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path.home() / ".local/bin"
    yield from (folder.parent / "bin" for folder in scripts.parents if folder.name == "Cellar")


def _paths_in_uv_receipt(environment: Path) -> list[str]:
    """Return the links that `uv tool install` has made."""
    try:
        receipt: dict[str, Any] = tomllib.loads((environment / "uv-receipt.toml").read_text())
    except (OSError, ValueError):
        return []
    entries = map(as_object, as_array(as_object(receipt.get("tool")).get("entrypoints")))
    return [path for entry in entries if (path := as_str(entry.get("install-path")))]


def _module_command() -> tuple[str, ...]:
    """Return the command for a package without a program."""
    folder = Path(rekindle.__file__).parents[1]
    python = (sys.executable, "-m", "rekindle")
    is_found = folder in map(Path, [*site.getsitepackages(), site.getusersitepackages()])
    return python if is_found else (_program("env"), f"PYTHONPATH={folder}", *python)


def _program(name: str) -> str:
    return shutil.which(name) or name
