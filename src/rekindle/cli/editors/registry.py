"""The editors that can be set up: the paths of their configuration, and its form."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from rekindle.cli.editors.agents import EditorAgent
from rekindle.cli.editors.blocks import BlockAgents
from rekindle.cli.editors.json_agents import JsonAgents
from rekindle.cli.editors.paths import config_home
from rekindle.cli.editors.zed_registry import registry_command

_MAX_FILES = 300
_LUA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VSCODE_FOLDERS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


class Editor(Struct, frozen=True, kw_only=True):
    """An editor, the paths of its files, and the form of its agents."""

    title: str
    plugin: str = ""
    """The extension that starts agents, if the editor does not."""
    candidates: Callable[[], Sequence[Path]]
    """Return possible paths of the file to write, the likeliest first."""
    files: Callable[[], Sequence[Path]]
    """Return the files in which the user may have configured agents."""
    agents: JsonAgents | BlockAgents
    hint: str = ""
    """Advice about agents that are not in the file."""

    @property
    def path(self) -> Path:
        """The file to write."""
        return _first_existing(self.candidates())


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


# -- paths ----------------------------------------------------------------------------------


def _zed_paths() -> list[Path]:
    """Return possible paths of Zed's settings, the likeliest first."""
    base = Path.home() / ".config" if sys.platform == "darwin" else config_home()
    flatpak = Path.home() / ".var/app/dev.zed.Zed/config"
    return [folder / "zed/settings.json" for folder in (base, flatpak)]


def _jetbrains_paths() -> list[Path]:
    """Return the path of the agents of the JetBrains IDEs."""
    return [Path.home() / ".jetbrains/acp.json"]


def _vscode_paths() -> list[Path]:
    """Return possible paths of the user's settings of VS Code and editors made from it."""
    base = config_home()
    if sys.platform == "darwin":
        base = Path.home() / "Library/Application Support"
    flatpak = Path.home() / ".var/app/com.visualstudio.code/config"
    folders = [*(base / name for name in _VSCODE_FOLDERS), flatpak / "Code"]
    return [folder / "User/settings.json" for folder in folders]


def _neovim_paths() -> list[Path]:
    """Return a path that Neovim loads by itself, after the user's files and the plugins."""
    return [_neovim_folder() / "after/plugin/rekindle.lua"]


def _emacs_paths() -> list[Path]:
    """Return the init file that Emacs loads. The order is that of Emacs."""
    home = Path.home()
    files = [file for file in (home / ".emacs.el", home / ".emacs") if file.exists()]
    candidates = (home / ".emacs.d", config_home() / "emacs")
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


def _neovim_folder() -> Path:
    return config_home() / (os.environ.get("NVIM_APPNAME") or "nvim")


EDITORS = {
    "zed": Editor(
        title="Zed",
        candidates=_zed_paths,
        files=_zed_paths,
        agents=JsonAgents(key="agent_servers", type="custom", registry=registry_command),
    ),
    "jetbrains": Editor(
        title="JetBrains",
        candidates=_jetbrains_paths,
        files=_jetbrains_paths,
        agents=JsonAgents(key="agent_servers"),
        hint="agents that the IDE installs from the ACP registry are not in this file; add the"
        " agent's own command",
    ),
    "vscode": Editor(
        title="VS Code",
        plugin="ACP Client",
        candidates=_vscode_paths,
        files=_vscode_paths,
        agents=JsonAgents(key="acp.agents"),
        hint="agents that the extension ACP Client knows by itself are not in this file; add the"
        " agent's own command with --name and the name that the extension shows",
    ),
    "neovim": Editor(
        title="Neovim",
        plugin="CodeCompanion",
        candidates=_neovim_paths,
        files=_neovim_files,
        agents=BlockAgents(comment="--", snippet=_neovim_snippet),
    ),
    "emacs": Editor(
        title="Emacs",
        plugin="agent-shell",
        candidates=_emacs_paths,
        files=_emacs_paths,
        agents=BlockAgents(comment=";;", snippet=_emacs_snippet),
    ),
}
