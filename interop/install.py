"""Install pinned releases into the cache. A failure is a result, too."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from interop.agents import NODE, Package

CACHE = Path(__file__).parents[1] / ".interop"

_TIMEOUT = 900


class NotInstalled(Exception):
    """A package could not be installed; the message is the installer's error."""


def install(package: Package, print_line: Callable[[str], None]) -> None:
    """Install a package into the cache, unless it is there. Raises NotInstalled."""
    if is_installed(package):
        return
    print_line(f"installing {', '.join(package.releases)}")
    folder = _folder(package)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commands = {"npm": _npm, "PyPI": _pip, "git": _git}[package.registry]
    for command in commands(package):
        _run(command)
    _stamp(package).write_text(json.dumps(package.releases), encoding="utf-8")


def is_installed(package: Package) -> bool:
    """Return whether the cache has a package in its pinned releases."""
    stamp, releases = _stamp(package), json.dumps(package.releases)
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == releases


def search_path(*packages: Package) -> str:
    """Return a PATH with the programs of packages, Node, and the system."""
    own = [folder for package in packages for folder in _programs(package)]
    return os.pathsep.join([*own, *_programs(NODE), os.defpath])


def plugin_folders(package: Package) -> list[Path]:
    """Return the folders of the repositories of a package from git."""
    return [_folder(package) / _repository(release) for release in package.releases]


def _folder(package: Package) -> Path:
    return CACHE / package.registry.lower() / package.name


def _stamp(package: Package) -> Path:
    return _folder(package) / ".installed"


def _programs(package: Package) -> tuple[str, ...]:
    folder = _folder(package)
    below = folder / ("node_modules/.bin" if package.registry == "npm" else "venv/bin")
    return (str(below),)


def _npm(package: Package) -> Iterator[list[str]]:
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    yield ["npm", "install", "--prefix", str(_folder(package)), *quiet, *package.releases]


def _pip(package: Package) -> Iterator[list[str]]:
    venv = _folder(package) / "venv"
    yield [_python(package.python), "-m", "venv", str(venv)]
    pip = (str(venv / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check")
    yield [*pip, "--quiet", *package.releases]


def _git(package: Package) -> Iterator[list[str]]:
    for release in package.releases:
        url, _, revision = release.rpartition("@")
        folder = str(_folder(package) / _repository(release))
        yield ["git", "clone", "--quiet", "--no-checkout", url, folder]
        yield ["git", "-C", folder, "checkout", "--quiet", "--detach", revision]


def _repository(release: str) -> str:
    return release.rpartition("@")[0].rpartition("/")[2]


def _python(oldest: tuple[int, int]) -> str:
    """Return a Python that is new enough: this one, one on PATH, or one of pyenv."""
    if sys.version_info >= oldest:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    newest_first = [f"3.{minor}" for minor in range(14, oldest[1] - 1, -1)]
    for version in newest_first:
        for candidate in (f"python{version}", *map(str, pyenv.glob(f"{version}.*/bin/python"))):
            # A name on PATH may be a shim for a version that is not installed.
            if shutil.which(candidate) and _runs(candidate):
                return candidate
    raise NotInstalled(f"no Python from {oldest[0]}.{oldest[1]} on was found")


def _runs(program: str) -> bool:
    return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except FileNotFoundError:
        raise NotInstalled(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{command[0]} did not end within {_TIMEOUT} s") from None
    if done.returncode != 0:
        raise NotInstalled(_reason(done.stderr) or f"{command[0]} ended with {done.returncode}")


def _reason(stderr: str) -> str:
    """Return the most specific error line of an installer."""
    words = ("error", "fatal")
    lines = [line for line in stderr.splitlines() if any(word in line.lower() for word in words)]
    specific = [line for line in lines if "No matching" in line or "network" in line.lower()]
    return (specific or lines or [""])[-1][:200]
