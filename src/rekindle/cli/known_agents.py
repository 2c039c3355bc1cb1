"""The agents that Rekindle knows by name. A new agent is a row in `KNOWN_AGENTS`.

`docs/reference/agents.md` has the same rows; a test compares them. Imports little: `rekindle run`
looks a name up before it starts the agent.
"""

from pathlib import PurePath
from typing import NamedTuple


class KnownAgent(NamedTuple):
    """An agent with the command that makes it speak ACP."""

    name: str
    """The name on the command line."""
    title: str
    command: tuple[str, ...]
    """The program, which must be on PATH, and the arguments that make it speak ACP."""
    install: str
    """The command that installs the program, or the address of a page with instructions."""
    identities: tuple[str, ...] = ()
    """Names by which it introduces itself in `initialize`."""
    tool: str = ""
    """The importer that reads its own sessions, if any."""

    @property
    def program(self) -> str:
        """The program that must be installed."""
        return self.command[0]

    @property
    def remedy(self) -> str:
        """Instructions to install it, as the end of an error message."""
        is_page = self.install.startswith("https://")
        return f"see {self.install}" if is_page else f"`{self.install}` installs it"


KNOWN_AGENTS = (
    KnownAgent(
        name="claude",
        title="Claude Code",
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        identities=(
            "@agentclientprotocol/claude-agent-acp",
            "@zed-industries/claude-agent-acp",
            "@zed-industries/claude-code-acp",
            "claude-agent-acp",
            "claude-code-acp",
        ),
        tool="claude",
    ),
    KnownAgent(
        name="codex",
        title="Codex",
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        identities=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"),
        tool="codex",
    ),
    KnownAgent(
        name="gemini",
        title="Gemini CLI",
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        identities=("gemini-cli", "@google/gemini-cli"),
        tool="gemini",
    ),
    KnownAgent(
        name="opencode",
        title="OpenCode",
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        identities=("opencode",),
        tool="opencode",
    ),
    KnownAgent(
        name="copilot",
        title="GitHub Copilot CLI",
        command=("copilot", "--acp"),
        install="npm install -g @github/copilot",
    ),
    KnownAgent(
        name="qwen",
        title="Qwen Code",
        command=("qwen", "--acp"),
        install="npm install -g @qwen-code/qwen-code",
        identities=("qwen-code",),
    ),
    KnownAgent(
        name="goose",
        title="Goose",
        command=("goose", "acp"),
        install="brew install block-goose-cli",
    ),
    KnownAgent(
        name="kimi",
        title="Kimi Code",
        command=("kimi", "acp"),
        install="npm install -g @moonshot-ai/kimi-code",
        identities=("kimi-code", "kimi-cli"),
    ),
    KnownAgent(
        name="cline",
        title="Cline",
        command=("cline", "--acp"),
        install="npm install -g cline",
    ),
    KnownAgent(
        name="pi",
        title="Pi",
        command=("pi-acp",),
        install="npm install -g pi-acp @earendil-works/pi-coding-agent",
        identities=("pi-acp",),
    ),
    KnownAgent(
        name="vibe",
        title="Mistral Vibe",
        command=("vibe-acp",),
        install="uv tool install mistral-vibe",
        identities=("mistral-vibe",),
    ),
    KnownAgent(
        name="hermes",
        title="Hermes Agent",
        command=("hermes", "acp"),
        install="uv tool install 'hermes-agent[acp]'",
        identities=("hermes-agent",),
    ),
    KnownAgent(
        name="kilo",
        title="Kilo Code",
        command=("kilo", "acp"),
        install="npm install -g @kilocode/cli",
    ),
    KnownAgent(
        name="fast-agent",
        title="fast-agent",
        command=("fast-agent-acp",),
        install="uv tool install fast-agent-mcp",
        identities=("fast-agent-acp",),
    ),
    KnownAgent(
        name="cursor",
        title="Cursor CLI",
        command=("cursor-agent", "acp"),
        install="https://cursor.com/cli",
    ),
    KnownAgent(
        name="auggie",
        title="Auggie CLI",
        command=("auggie", "--acp"),
        install="npm install -g @augmentcode/auggie",
    ),
    KnownAgent(
        name="openhands",
        title="OpenHands",
        command=("openhands", "acp"),
        install="uv tool install openhands",
    ),
)


def known_agent(name: str) -> KnownAgent | None:
    """Return the agent with this name on the command line."""
    return next((agent for agent in KNOWN_AGENTS if agent.name == name), None)


def agent_of_program(program: str) -> KnownAgent | None:
    """Return the agent whose program this is, given by its name or its path."""
    name = PurePath(program).name
    return next((agent for agent in KNOWN_AGENTS if agent.program == name), None)


def agent_of_tool(tool: str) -> KnownAgent | None:
    """Return the agent whose sessions an importer reads."""
    return next((agent for agent in KNOWN_AGENTS if tool and agent.tool == tool), None)


def agent_of_identity(identity: str) -> KnownAgent | None:
    """Return the agent that introduces itself with this name, ignoring case."""
    name = identity.lower()
    return next((agent for agent in KNOWN_AGENTS if name in {agent.name, *agent.identities}), None)
