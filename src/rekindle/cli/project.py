"""Which project the user is in."""

import os
from pathlib import Path


def folders_of_project() -> tuple[str, ...]:
    """Return the folder of the project that we are in: as it is spelled here, and without links.

    It is the nearest one upwards that holds a git repository, but for the home folder; without
    one, it is the current folder.
    """
    start = here()
    root = next((it for it in (start, *start.parents) if (it / ".git").exists()), start)
    if root == Path.home():
        root = start
    return tuple(dict.fromkeys((str(root), os.path.realpath(root))))


def spellings(folder: str) -> tuple[str, ...]:
    """Return how a folder may be spelled: as here, or without links; with a slash, or without."""
    spelled = absolute(folder)
    names = (spelled, os.path.realpath(spelled))
    return tuple(dict.fromkeys(it for name in names for it in (name, f"{name.rstrip('/')}/")))


def absolute(path: str) -> str:
    """Return a path as editors spell it: absolute, but with its links."""
    # Not by `resolve`, which follows links.
    return os.path.abspath(path if os.path.isabs(path) else here() / path)  # noqa: PTH100, PTH117


def here() -> Path:
    """Return the current folder, by the way that the user came there if the shell tells."""
    real = Path.cwd()
    told = Path(os.environ.get("PWD", ""))
    is_same = told.is_absolute() and told.exists() and told.samefile(real)
    return told if is_same else real
