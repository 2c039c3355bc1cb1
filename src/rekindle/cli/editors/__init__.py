"""The editors that can be set up: where their configuration lies, and what goes into it."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from rekindle.cli.editors import locations
from rekindle.cli.editors.agents import Agent
from rekindle.cli.editors.jsonc import find, update
from rekindle.cli.editors.marked_block import get_block, put_block
from rekindle.jsonvalue import as_array, as_object

SERVERS = "agent_servers"
"""Under what Zed and the JetBrains IDEs name their agents."""

# As they are written below.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_LUA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Editor(Struct, frozen=True, kw_only=True):
    """One of them."""

    title: str
    places: Callable[[], Sequence[Path]]
    """Where its configuration may lie, the likeliest first."""
    files: Callable[[], Sequence[Path]]
    """Where a person may have told it about agents."""
    snippet: Callable[[Agent], str]
    """What tells it of an agent."""
    insert: Callable[[str, Agent], str]
    """Put that into the text of its file."""
    command: Callable[[str, str], tuple[str, ...]]
    """Return what the text of its file has it start for the agent of that name, if anything."""

    @property
    def path(self) -> Path:
        """Where to write."""
        return locations.first_there(self.places())


def _in_zed(text: str, agent: Agent) -> str:
    fields: dict[str, Any] = {"type": "custom", **_command_and_arguments(agent)}
    return update(text, (SERVERS, agent.name), fields)


def _in_jetbrains(text: str, agent: Agent) -> str:
    return update(text, (SERVERS, agent.name), _command_and_arguments(agent))


def _command_and_arguments(agent: Agent) -> dict[str, Any]:
    return {"command": agent.command[0], "args": list(agent.command[1:])}


def _command_in_json(text: str, name: str) -> tuple[str, ...]:
    found = find(text, (SERVERS, name))
    server = as_object(found.data) if found else {}
    command = server.get("command")
    return (str(command), *map(str, as_array(server.get("args")))) if command else ()


def _for_neovim(agent: Agent) -> str:
    adapter = agent.adapter or _identifier(agent.name, "_")
    fields = [f"commands = {{ default = {{ {', '.join(map(_lua_string, agent.command))} }} }},"]
    if not agent.adapter:
        # One that CodeCompanion does not know is like one that has no ways of its own.
        names = {"name": adapter, "formatted_name": agent.name}
        fields = [*(f"{it} = {_lua_string(name)}," for it, name in names.items()), *fields]
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


def _in_neovim(text: str, agent: Agent) -> str:
    return put_block(text, agent.name, _for_neovim(agent), "--")


def _command_in_block(text: str, name: str, comment: str) -> tuple[str, ...]:
    """Return the command that a block of ours has as its last strings."""
    strings = [_ESCAPED.sub(r"\1", it) for it in _STRING.findall(get_block(text, name, comment))]
    starts = [
        at
        for at, (program, argument) in enumerate(pairwise(strings))
        if PurePath(program).name == "rekindle" and argument == "run"
    ]
    return tuple(strings[starts[0] :]) if starts else ()


def _for_emacs(agent: Agent) -> str:
    words = " ".join(map(_lisp_string, agent.command))
    if agent.variable:
        return f"(setq {agent.variable} '({words}))\n"
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


def _in_emacs(text: str, agent: Agent) -> str:
    return put_block(text, agent.name, _for_emacs(agent), ";;")


def _identifier(name: str, joint: str) -> str:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return joint.join(words) or "agent"


def _lua_index(name: str) -> str:
    return f".{name}" if _LUA_NAME.fullmatch(name) else f"[{_lua_string(name)}]"


def _lua_string(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda it: f"\\{ord(it[0]):03}", escaped) + '"'


def _lisp_string(words: str) -> str:
    # A newline may stand in a string of Lisp, but nobody expects it in a command.
    escaped = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


EDITORS = {
    "zed": Editor(
        title="Zed",
        places=locations.zed,
        files=locations.zed,
        snippet=lambda agent: _in_zed("", agent),
        insert=_in_zed,
        command=_command_in_json,
    ),
    "jetbrains": Editor(
        title="JetBrains",
        places=locations.jetbrains,
        files=locations.jetbrains,
        snippet=lambda agent: _in_jetbrains("", agent),
        insert=_in_jetbrains,
        command=_command_in_json,
    ),
    "neovim": Editor(
        title="Neovim",
        places=locations.neovim,
        files=locations.neovim_files,
        snippet=_for_neovim,
        insert=_in_neovim,
        command=partial(_command_in_block, comment="--"),
    ),
    "emacs": Editor(
        title="Emacs",
        places=locations.emacs,
        files=locations.emacs,
        snippet=_for_emacs,
        insert=_in_emacs,
        command=partial(_command_in_block, comment=";;"),
    ),
}
