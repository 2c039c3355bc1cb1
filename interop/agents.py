"""The agents, as data: which releases, how they are pointed at the fake model, what starts them.

In texts, `$URL` is the fake model's address, `$MODEL` its name, `$HOME` the temporary home and
`$PROJECT` the folder that is worked in.
"""

from collections.abc import Mapping
from string import Template
from typing import Literal

from msgspec import Struct, structs


class Package(Struct, frozen=True, kw_only=True):
    """What is installed together: pinned releases, from one registry."""

    name: str
    registry: Literal["npm", "PyPI"]
    releases: tuple[str, ...]
    """As the registry's installer takes them."""
    python: tuple[int, int] = (3, 11)
    """The oldest Python that will do."""


class AgentSpec(Struct, frozen=True, kw_only=True):
    """An agent."""

    name: str
    package: Package
    command: tuple[str, ...]
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Configuration, by path below the temporary home."""
    pause: float = 0
    """How many seconds to wait between the first kill and the new start."""
    remark: str = ""
    """What is to be known of how it was run."""
    tool: str = ""
    """As which `rekindle import` knows the sessions that it writes itself."""
    successor: str = ""
    """The agent that goes on with what was imported."""


def substitute(words: str, values: Mapping[str, str]) -> str:
    """Return a text with its `$NAMES` replaced."""
    return Template(words).safe_substitute(values)


# Agents run on the Node that the strictest of them needs, whatever there is on the machine.
NODE = Package(name="node", registry="npm", releases=("node@22.23.3",))
ACPX = Package(name="acpx", registry="npm", releases=("acpx@0.19.1",))

_BY_CHANCE = (
    "killed in the middle of a turn, it was seen to know the prompt afterwards in some runs and "
    "not in others: what is true of it bare may differ from run to run"
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
    remark=_BY_CHANCE,
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
    remark=_BY_CHANCE,
    tool="claude",
    successor="opencode",
)

_GEMINI = AgentSpec(
    name="gemini-cli",
    package=Package(name="gemini-cli", registry="npm", releases=("@google/gemini-cli@0.61.0",)),
    # With a model of its choice, it would ask another one first, which that is to be.
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
    remark="started again and asked to load at once, it had lost the session in most runs; a "
    "minute later, in none: so it is run a second time, with a pause",
)

_GEMINI_LATER = structs.replace(
    _GEMINI,
    name="gemini-cli, a minute later",
    pause=61,
    remark="in some runs, it told a part of the session only after it had answered the load",
    # Here alone, because at once it would not find its own session.
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

AGENTS: tuple[AgentSpec, ...] = (
    _OPENCODE,
    _CODEX,
    _CLAUDE,
    _GEMINI,
    _GEMINI_LATER,
    _PI,
    _FAST_AGENT,
)


def agent_named(name: str) -> AgentSpec:
    """Return the agent of that name."""
    return next(spec for spec in AGENTS if spec.name == name)
