"""Find out whether the program of a command can be started."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath

from rekindle.cli.editors.agents import PREFIX_PROGRAMS, next_program


def missing_program(command: Sequence[str]) -> str:
    """Return why a command cannot be started, empty if it can."""
    index: int | None = 0
    while index is not None:
        problem = _problem(command[index])
        is_prefix = PurePath(command[index]).name in PREFIX_PROGRAMS
        if problem or not is_prefix:
            return problem
        index = next_program(command, index + 1)
    return ""


def _problem(program: str) -> str:
    if shutil.which(program) is not None:
        return ""
    if os.sep not in program:
        return f"{program} is not installed, or not on the PATH"
    return f"{program} is not executable" if Path(program).exists() else f"{program} does not exist"
