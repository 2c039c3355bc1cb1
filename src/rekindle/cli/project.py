"""The current project, and the spellings of its folder."""

import os
from pathlib import Path

from msgspec.structs import replace

from rekindle.model import Page


def project_folders() -> tuple[str, ...]:
    """Return the folder of the current project, as the user spells it and with links resolved.

    It is the nearest folder upwards with a git repository, other than the home folder.
    Without one, it is the current folder.
    """
    root = _repository() or current_folder()
    return tuple(dict.fromkeys((str(root), os.path.realpath(root))))


def of_project(page: Page) -> Page:
    """Return a page of only the current project's sessions.

    Without a git repository, these are the sessions of exactly the current folder: the folders in
    it may be projects of their own.
    """
    if _repository() is None:
        return replace(page, folders=folder_spellings("."))
    return replace(page, under=project_folders())


def _repository() -> Path | None:
    """Return the nearest folder upwards with a git repository, except for the home folder."""
    start = current_folder()
    found = next((it for it in (start, *start.parents) if (it / ".git").exists()), None)
    return None if found == Path.home() else found


def folder_spellings(folder: str) -> tuple[str, ...]:
    """Return the spellings of a folder: with links or resolved, with a final slash or without."""
    given = absolute_path(folder)
    names = (given, os.path.realpath(given))
    return tuple(
        dict.fromkeys(spelling for name in names for spelling in (name, f"{name.rstrip('/')}/"))
    )


def absolute_path(path: str) -> str:
    """Return a path as editors spell it: absolute, with its links kept."""
    # Path.resolve would follow links.
    return os.path.abspath(path if os.path.isabs(path) else current_folder() / path)  # noqa: PTH100, PTH117


def current_folder() -> Path:
    """Return the current folder, with the links by which the user came there if PWD has them."""
    resolved = Path.cwd()
    logical = Path(os.environ.get("PWD", ""))
    is_same = logical.is_absolute() and logical.exists() and logical.samefile(resolved)
    return logical if is_same else resolved
