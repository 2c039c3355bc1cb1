"""The editors that can be set up: the paths of their configuration, and the text for it."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from rekindle.cli.editors.agents import EditorAgent
from rekindle.cli.editors.jsonc import find, update
from rekindle.errors import FileUnclear
from rekindle.jsonvalue import as_array, as_object

SERVERS = "agent_servers"
"""The key under which Zed and the JetBrains IDEs configure agents."""

_MAX_FILES = 300
# Strings as the functions below write them.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_LUA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Editor(Struct, frozen=True, kw_only=True):
    """An editor, and functions that read and write its configuration."""

    title: str
    candidates: Callable[[], Sequence[Path]]
    """Return possible paths of the file to write, the likeliest first."""
    files: Callable[[], Sequence[Path]]
    """Return the files in which the user may have configured agents."""
    snippet: Callable[[EditorAgent], str]
    """Return the configuration of an agent."""
    insert: Callable[[str, EditorAgent], str]
    """Return the text of the file with the configuration of an agent. Raises FileUnclear."""
    command: Callable[[str, str], tuple[str, ...]]
    """Return the command of a named agent in the text of the file, empty if it has none."""

    @property
    def path(self) -> Path:
        """The file to write."""
        return _first_existing(self.candidates())


def _insert_for_zed(text: str, agent: EditorAgent) -> str:
    fields: dict[str, Any] = {"type": "custom", **_command_and_arguments(agent)}
    return update(text, (SERVERS, agent.name), fields)


def _insert_for_jetbrains(text: str, agent: EditorAgent) -> str:
    return update(text, (SERVERS, agent.name), _command_and_arguments(agent))


def _command_and_arguments(agent: EditorAgent) -> dict[str, Any]:
    return {"command": agent.command[0], "args": list(agent.command[1:])}


def _command_in_json(text: str, name: str) -> tuple[str, ...]:
    value = find(text, (SERVERS, name))
    server = as_object(value.data) if value else {}
    command = server.get("command")
    return (str(command), *map(str, as_array(server.get("args")))) if command else ()


def _neovim_snippet(agent: EditorAgent) -> str:
    adapter = agent.adapter or _identifier(agent.name, "_")
    fields = [f"commands = {{ default = {{ {', '.join(map(_lua_string, agent.command))} }} }},"]
    if not agent.adapter:
        # An agent that CodeCompanion does not know extends an adapter without special handling.
        names = {"name": adapter, "formatted_name": agent.name}
        fields = [*(f"{key} = {_lua_string(name)}," for key, name in names.items()), *fields]
    base = _lua_string(agent.adapter or "opencode")
    lines = [
        'local found, config = pcall(require, "codecompanion.config")',
        "if found and config.adapters then",
        f"  config.adapters.acp{_lua_index(adapter)} = function()",
        f'    return require("codecompanion.adapters").extend({base}, {{',
        *(f"      {field}" for field in fields),
        "    })",
        "  end",
        "end",
    ]
    return "\n".join(lines) + "\n"


def _insert_for_neovim(text: str, agent: EditorAgent) -> str:
    return put_block(text, agent.name, _neovim_snippet(agent), "--")


def _command_in_block(text: str, name: str, comment: str) -> tuple[str, ...]:
    """Return the command in a block of Rekindle: its last strings, from `rekindle run` on."""
    literals = _STRING.findall(get_block(text, name, comment))
    strings = [_ESCAPED.sub(r"\1", literal) for literal in literals]
    starts = [
        at
        for at, (program, argument) in enumerate(pairwise(strings))
        if PurePath(program).name == "rekindle" and argument == "run"
    ]
    return tuple(strings[starts[0] :]) if starts else ()


def _emacs_snippet(agent: EditorAgent) -> str:
    command = " ".join(map(_lisp_string, agent.command))
    if agent.variable:
        return f"(setq {agent.variable} '({command}))\n"
    program, arguments = agent.command[0], " ".join(map(_lisp_string, agent.command[1:]))
    name, prompt = _lisp_string(agent.name), _lisp_string(f"{agent.name}> ")
    return f"""\
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '{_identifier(agent.name, "-")}
    :mode-line-name {name}
    :buffer-name {name}
    :shell-prompt {prompt}
    :shell-prompt-regexp (regexp-quote {prompt})
    :client-maker
    (lambda (buffer)
      (acp-make-client :context-buffer buffer
                       :command {_lisp_string(program)}
                       :command-params '({arguments}))))
   t))
"""


def _insert_for_emacs(text: str, agent: EditorAgent) -> str:
    return put_block(text, agent.name, _emacs_snippet(agent), ";;")


def _identifier(name: str, separator: str) -> str:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return separator.join(words) or "agent"


def _lua_index(name: str) -> str:
    return f".{name}" if _LUA_NAME.fullmatch(name) else f"[{_lua_string(name)}]"


def _lua_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\{ord(match[0]):03}", escaped) + '"'


def _lisp_string(text: str) -> str:
    # Lisp allows a newline in a string, but it would be confusing in a command.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# -- blocks between marks --------------------------------------------------------------------


def put_block(text: str, name: str, body: str, comment: str) -> str:
    """Return the text with a named block: replaced where it is, otherwise at the end.

    `comment` starts a comment in the text's language. Raises FileUnclear.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(name, comment)
    block = [begin, *body.splitlines(), end]
    lines = text.split(newline)
    old = _block_lines(lines, name, comment)
    if old is None:
        before = [*lines[:-1], ""] if text.endswith(newline) else [*lines, ""]
        return newline.join([*(before if text.strip() else []), *block, ""])
    return newline.join([*lines[: old.start], *block, *lines[old.stop :]])


def get_block(text: str, name: str, comment: str) -> str:
    """Return the text of a named block, empty if there is none. Raises FileUnclear."""
    lines = text.splitlines()
    block = _block_lines(lines, name, comment)
    return "\n".join(lines[block.start + 1 : block.stop - 1]) if block else ""


def _marks(name: str, comment: str) -> tuple[str, str]:
    return f"{comment} >>> rekindle: {name} >>>", f"{comment} <<< rekindle: {name} <<<"


def _block_lines(lines: list[str], name: str, comment: str) -> range | None:
    """Return the line numbers of a block, with its marks."""
    begin, end = _marks(name, comment)
    begins = [at for at, line in enumerate(lines) if line.strip() == begin]
    ends = [at for at, line in enumerate(lines) if line.strip() == end]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise FileUnclear(f"the marks around the block {name!r} are not one pair")
    return range(begins[0], ends[0] + 1)


# -- paths ----------------------------------------------------------------------------------


def _zed_paths() -> list[Path]:
    """Return possible paths of Zed's settings, the likeliest first."""
    base = Path.home() / ".config" if sys.platform == "darwin" else _config_home()
    flatpak = Path.home() / ".var/app/dev.zed.Zed/config"
    return [folder / "zed/settings.json" for folder in (base, flatpak)]


def _jetbrains_paths() -> list[Path]:
    """Return the path of the agents of the JetBrains IDEs."""
    return [Path.home() / ".jetbrains/acp.json"]


def _neovim_paths() -> list[Path]:
    """Return a path that Neovim loads by itself, after the user's files and the plugins."""
    return [_neovim_folder() / "after/plugin/rekindle.lua"]


def _emacs_paths() -> list[Path]:
    """Return the init file that Emacs loads. The order is that of Emacs."""
    home = Path.home()
    files = [file for file in (home / ".emacs.el", home / ".emacs") if file.exists()]
    candidates = (home / ".emacs.d", _config_home() / "emacs")
    folders = [folder for folder in candidates if folder.is_dir()]
    return [*files, *(folder / "init.el" for folder in folders), home / ".emacs.d/init.el"][:1]


def _neovim_files() -> list[Path]:
    """Return the Lua files in which the user may have configured agents."""
    folder = _neovim_folder()
    files = [*_neovim_paths(), folder / "init.lua", *sorted((folder / "lua").rglob("*.lua"))]
    return files[:_MAX_FILES]


def _first_existing(paths: Sequence[Path]) -> Path:
    """Return the first path that exists; otherwise the first whose folder does, or the first."""
    existing = [path for path in paths if path.exists()]
    in_existing_folder = [path for path in paths if path.parent.exists()]
    return [*existing, *in_existing_folder, *paths][0]


def _config_home() -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"


def _neovim_folder() -> Path:
    return _config_home() / (os.environ.get("NVIM_APPNAME") or "nvim")


EDITORS = {
    "zed": Editor(
        title="Zed",
        candidates=_zed_paths,
        files=_zed_paths,
        snippet=lambda agent: _insert_for_zed("", agent),
        insert=_insert_for_zed,
        command=_command_in_json,
    ),
    "jetbrains": Editor(
        title="JetBrains",
        candidates=_jetbrains_paths,
        files=_jetbrains_paths,
        snippet=lambda agent: _insert_for_jetbrains("", agent),
        insert=_insert_for_jetbrains,
        command=_command_in_json,
    ),
    "neovim": Editor(
        title="Neovim",
        candidates=_neovim_paths,
        files=_neovim_files,
        snippet=_neovim_snippet,
        insert=_insert_for_neovim,
        command=partial(_command_in_block, comment="--"),
    ),
    "emacs": Editor(
        title="Emacs",
        candidates=_emacs_paths,
        files=_emacs_paths,
        snippet=_emacs_snippet,
        insert=_insert_for_emacs,
        command=partial(_command_in_block, comment=";;"),
    ),
}
