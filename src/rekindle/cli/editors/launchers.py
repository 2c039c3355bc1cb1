"""What a command really starts, where its first word only starts something else. Pure."""

import re
from collections.abc import Sequence
from pathlib import PurePath

_LAUNCHER = re.compile(
    r"npx|npm|bunx|bun|pnpx|pnpm|yarn|node|nodejs|deno|tsx|uvx|uv|pipx|python[\d.]*|pypy[\d.]*"
    r"|env|nice|nohup"
)
_MANNERS = frozenset({"run", "exec", "dlx", "x", "tool"})
"""Words by which a launcher is told that it is to be one."""
_WITH_VALUE = frozenset(
    {"-p", "--package", "--from", "--with", "--python", "-r", "--require", "--import", "--loader"}
    | {"--env-file", "--directory", "--project", "-C", "--chdir", "--unset", "-W", "-X", "-n"}
)
_CODE = frozenset({"-c", "-e", "--eval", "--call"})
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_VERSION = re.compile(r"(?<=.)(@|\[|[=<>~!]=).*")
_SCRIPT = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".pyz"})
_SAY_NOTHING = frozenset(
    {"index", "main", "__main__", "cli", "app", "server", "start", "acp", "agent"}
    | {"bin", "dist", "build", "out", "src", "lib", "..", ".", "/"}
)


def place_of_program(command: Sequence[str]) -> int:
    """Return the place of the word that says what is started; 0 if no other one does."""
    place = 0
    while _LAUNCHER.fullmatch(PurePath(command[place]).name):
        following = _next_program(command, place + 1)
        if following is None:
            break
        place = following
    return place


def name_of_program(command: Sequence[str]) -> str:
    """Return by what name people know that which a command starts."""
    place = place_of_program(command)
    path = PurePath(command[place])
    if path.suffix in _SCRIPT:
        # `agent-one/dist/index.js` is agent-one's.
        parts = (*path.parts[:-1], path.stem)
        return next((it for it in reversed(parts) if it not in _SAY_NOTHING), path.stem)
    return _VERSION.sub("", path.name) or command[place]


def _next_program(command: Sequence[str], place: int) -> int | None:
    while place < len(command):
        word = command[place]
        if word in _CODE:
            return None
        if word in _WITH_VALUE:
            place += 1
        elif not (word.startswith("-") or word in _MANNERS or _SETTING.fullmatch(word)):
            return place
        place += 1
    return None
