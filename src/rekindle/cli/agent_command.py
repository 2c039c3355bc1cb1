"""The agent's command: record it so that it runs the same code from any folder, and check that.

A session may come from a bundle, whose author chooses the session's folder. So neither that folder
nor the current one may decide which program a recorded command runs.
"""

import os
from pathlib import Path


def independent_of_folder(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command whose program and files are absolute paths.

    A relative argument counts as a file if it is one now and looks like a path. A plain word such
    as `acp` stays, even if a file has that name.
    """
    program, *arguments = command
    first = str(Path(program).absolute()) if os.sep in program else program
    return (first, *map(_with_absolute_file, arguments))


def folder_dependence(command: tuple[str, ...]) -> str | None:
    """Return why the current folder would decide what a recorded command runs, if it would."""
    program, *arguments = command
    if os.sep in program and not Path(program).is_absolute():
        return f"its program {program} is a relative path"
    if os.sep not in program and (entry := _relative_entry_with(program)) is not None:
        return f"its program {program} is found through the entry {entry!r} of PATH"
    found = next((it for it in arguments if _with_absolute_file(it) != it), None)
    return None if found is None else f"the current folder has the file of its argument {found}"


def _with_absolute_file(argument: str) -> str:
    name, sign, value = argument.rpartition("=") if argument.startswith("-") else ("", "", argument)
    is_path = value.startswith(".") or os.sep in value or "." in value
    if not is_path or Path(value).is_absolute() or not _exists(Path(value)):
        return argument
    return f"{name}{sign}{Path(value).absolute()}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # Too long for a name, for example.
        return False


def _relative_entry_with(program: str) -> str | None:
    """Return the relative entry of PATH in which a program is found first, if any."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = Path(entry, program)
        if os.access(found, os.X_OK) and found.is_file():
            return None if Path(entry).is_absolute() else entry or os.curdir
    return None
