"""The agent's command: record it so that it runs the same code from any folder, and check that.

A session may come from a bundle, whose author chooses the session's folder. So neither that folder
nor the current one may decide which program a recorded command runs. A command can name a file of
the current folder as its program, as an argument that looks like a path, as the script or module
of an interpreter, and in the code that it gives to a shell or an interpreter.
"""

import os
import re
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path

_SHELL = re.compile(r"(?:ba|da|fi|k|z)?sh")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
# The first word after one of these may be a file although it does not look like a path.
_OTHER = re.compile(r"node(?:js)?|bun|deno|tsx|ts-node|(?:perl|ruby|php|lua)[\d.]*|cd|pushd|source")
_CODE = re.compile(r"-\w*c")
_OTHER_CODE = re.compile(r"-\w*[epr]|--eval|--print|--require|--import")
_MODULE = re.compile(r"-[bBdEiOqRsSuvx]*m(?P<name>.*)")
_CURRENT_FOLDER = re.compile(r"\$PWD\b|\$\{PWD\}|\$\(pwd\)|`pwd`")
_CODE_WORD = re.compile(r"[^\s\"'`;&|()<>=,]+")
_IMPORTED = re.compile(r"\b(?:import|from)\s+(\w+)")


def independent_of_folder(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command whose program and files are absolute paths.

    A relative argument counts as a file if it is one now and looks like a path, or is the script of
    an interpreter. Any other word such as `acp` stays, even if a file has that name.
    """
    program, *arguments = command
    first = str(Path(program).absolute()) if os.sep in program else program
    words = [first, *map(_with_absolute_file, arguments)]
    for place, name in list(_named_for_interpreters(words)):
        if words[place] == name and _exists(Path(name)):
            words[place] = str(Path(name).absolute())
    return tuple(words)


def folder_dependence(command: tuple[str, ...]) -> str | None:
    """Return why the current folder would decide what a recorded command runs, if it would."""
    program, *arguments = command
    if os.sep in program and not Path(program).is_absolute():
        return f"its program {program} is a relative path"
    if os.sep not in program and (entry := _relative_entry_with(program)) is not None:
        return f"its program {program} is found through the entry {entry!r} of PATH"
    found = next((it for it in arguments if _with_absolute_file(it) != it), None)
    if found is None:
        found = next((name for _, name in _named_for_interpreters(command)), None)
    return None if found is None else f"the current folder has the file of its argument {found}"


# -- arguments that look like paths -----------------------------------------------------------


def _with_absolute_file(argument: str) -> str:
    name, sign, value = argument.rpartition("=") if argument.startswith("-") else ("", "", argument)
    if not _is_like_path(value) or Path(value).is_absolute() or not _exists(Path(value)):
        return argument
    return f"{name}{sign}{Path(value).absolute()}"


def _is_like_path(word: str) -> bool:
    return os.sep in word or "." in word


# -- interpreters -----------------------------------------------------------------------------


def _named_for_interpreters(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the code in the current folder that interpreters get by an argument.

    Each is the place of the argument, and the name in it.
    """
    for at, word in enumerate(words):
        if program := _interpreter(word):
            found = _named_for(program, words[at + 1 :])
            if found is not None:
                yield at + 1 + found[0], found[1]


def _interpreter(word: str) -> str:
    """Return the name of the interpreter that a word calls; "" if it calls none."""
    name = word.rpartition(os.sep)[2]
    return name if any(it.fullmatch(name) for it in (_SHELL, _PYTHON, _OTHER)) else ""


def _named_for(program: str, arguments: Sequence[str]) -> tuple[int, str] | None:
    is_python = _PYTHON.fullmatch(program) is not None
    is_other = _OTHER.fullmatch(program) is not None
    code = _OTHER_CODE if is_other else _CODE
    rest = enumerate(arguments)
    for place, word in rest:
        if is_python and (option := _MODULE.fullmatch(word)):
            module = option["name"] or next(rest, (0, ""))[1]
            return (place, module) if _is_in_folder(module.partition(".")[0]) else None
        if code.fullmatch(word):
            found = _named_in_code(next(rest, (0, ""))[1])
            if found is not None or not is_other:
                return None if found is None else (place, found)
        elif _interpreter(word) or Path(word).is_absolute():
            # The caller checks each interpreter.
            return None
        elif not word.startswith("-") and _is_in_folder(word):
            return place, word
    return None


def _named_in_code(code: str) -> str | None:
    """Return the first name in a program or in a shell's command line that is in the folder."""
    words = _CODE_WORD.findall(_CURRENT_FOLDER.sub(".", code))
    # The folder itself is no code, and a point is the shell's command `source`.
    paths = (it for it in words if _is_like_path(it) and it.strip("./") and _is_in_folder(it))
    modules = filter(_is_in_folder, _IMPORTED.findall(code))
    found = next(paths, None) or next(modules, None)
    return found or next((name for _, name in _named_for_interpreters(words)), None)


def _is_in_folder(name: str) -> bool:
    """Return whether the current folder has a file or folder of that name, with any ending."""
    path = Path(name)
    if not path.name or path.is_absolute():
        return False
    try:
        return path.exists() or any(path.parent.glob(f"{escape(path.name)}.*"))
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # Too long for a name, for example.
        return False


# -- programs ---------------------------------------------------------------------------------


def _relative_entry_with(program: str) -> str | None:
    """Return the relative entry of PATH in which a program is found first, if any."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = Path(entry, program)
        if os.access(found, os.X_OK) and found.is_file():
            return None if Path(entry).is_absolute() else entry or os.curdir
    return None
