"""Which project the user is in."""

import os
from pathlib import Path


def folders_of_project() -> tuple[str, ...]:
    """Return the folder of the project that we are in: as it is spelled here, and without links.

    It is the nearest one upwards that holds a git repository, but for the home folder; without
    one, it is the current folder.
    """
    here = _here()
    root = next((it for it in (here, *here.parents) if (it / ".git").exists()), here)
    if root == Path.home():
        root = here
    return tuple(dict.fromkeys((str(root), os.path.realpath(root))))


def _here() -> Path:
    """Return the current folder, by the way that the user came there if the shell tells."""
    real = Path.cwd()
    told = Path(os.environ.get("PWD", ""))
    is_same = told.is_absolute() and told.exists() and told.samefile(real)
    return told if is_same else real
