"""Words of a command line become the command of an agent."""

from pathlib import Path

import pytest

from prepared_sessions import install
from rekindle.cli.agent_lookup import (
    BUILT_IN,
    CONFIGURED,
    ChosenAgent,
    check_installed,
    explain_missing,
    installed_agent,
    named_agents,
    names_without_command,
    offer_installed,
    resolve_agent,
    variables_for,
)
from rekindle.errors import AgentNotStarted

CONFIGURATION = """
[agents.claude]
command = ["npx", "-y", "claude"]
[agents.mine]
command = "my-agent --fast"
env = {KEY = "1"}
[agents.gemini]
env = {KEY = "2"}
[agents.bare]
env = {KEY = "3"}
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of PATH. It has the programs `opencode`, `claude` and `goose`."""
    folder = install(tmp_path / "bin", "opencode", "claude", "goose")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text(CONFIGURATION)
    monkeypatch.setenv("REKINDLE_CONFIG", str(tmp_path / "config.toml"))


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("claude", "claude-agent-acp"),
        ("claude --model x", "claude-agent-acp --model x"),
        ("opencode", "opencode acp"),
        ("opencode --port 1", "opencode acp --port 1"),
        ("opencode acp", "opencode acp"),
        ("opencode --print-logs acp", "opencode --print-logs acp"),
        ("goose --experimental-acp", "goose --experimental-acp"),
        ("claude acp", "claude-agent-acp acp"),
        ("gemini", "gemini --acp"),
        ("gemini --acp --model x", "gemini --acp --model x"),
        ("gemini --include-directories /acp-spec", "gemini --acp --include-directories /acp-spec"),
        ("gemini --prompt acp", "gemini --acp --prompt acp"),
        ("my-agent acp", "my-agent acp"),
        ("./claude", "./claude"),
        ("/bin/claude", "/bin/claude"),
    ],
)
def test_a_name_becomes_its_command(words: str, command: str) -> None:
    assert resolve_agent(words.split()).command == tuple(command.split())


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("claude", "claude"),
        ("opencode --port 1", "opencode --port 1"),
        ("gemini", "gemini --acp"),
        ("gemini --model x", "gemini --acp --model x"),
        ("no-such-agent", "no-such-agent"),
    ],
)
def test_a_command_stays_unless_its_program_is_missing(words: str, command: str) -> None:
    assert resolve_agent(words.split(), is_command=True).command == tuple(command.split())


def test_an_argument_of_the_agent_does_not_replace_its_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("[agents.opencode]\ncommand = 'opencode acp --model x'")
    monkeypatch.setenv("REKINDLE_CONFIG", str(tmp_path / "config.toml"))
    own = ("opencode", "acp", "--model")
    assert resolve_agent(["opencode", "--model", "y"]).command == (*own, "x", "--model", "y")
    assert resolve_agent([*own, "y"]).command == (*own, "y")


@pytest.mark.usefixtures("configured")
def test_the_configuration_file_wins_over_the_table() -> None:
    assert resolve_agent(["claude", "x"]).command == ("npx", "-y", "claude", "x")
    assert resolve_agent(["mine"]) == (("my-agent", "--fast"), "mine")
    agents = named_agents()
    assert (agents["claude"].source, agents["opencode"].source) == (CONFIGURED, BUILT_IN)
    assert agents["gemini"].command == ("gemini", "--acp")
    assert "`npm install -g @google/gemini-cli`" in agents["gemini"].remedy
    assert agents["mine"].remedy == "install it, or correct the configuration file"
    assert names_without_command() == ["bare"]


def variables(words: str, *, is_command: bool = True) -> tuple[dict[str, str], list[str]]:
    """Return the variables for an agent, and the warnings."""
    warnings: list[str] = []
    found = variables_for(resolve_agent(words.split(), is_command=is_command), warnings.append)
    return dict(found), warnings


@pytest.mark.usefixtures("configured")
def test_variables_belong_to_the_name_and_to_its_command() -> None:
    for words in ("my-agent --fast --more", "mine --more"):
        assert variables(words) == ({"KEY": "1"}, [])
    assert variables("gemini --acp") == ({"KEY": "2"}, [])
    assert variables("gemini --acp", is_command=False) == ({"KEY": "2"}, [])
    for words in ("my-agent", "opencode acp"):
        assert variables(words) == ({}, [])
    # The file may have changed since another command passed the name.
    assert variables_for(ChosenAgent(("my-agent", "--fast"), "gone"), [].append) == {}


def test_agents_with_the_same_command_keep_their_own_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    command = "command = 'claude-agent-acp'"
    path.write_text(
        f"[agents.work]\n{command}\nenv = {{KEY = 'work'}}\n"
        f"[agents.home]\n{command}\nenv = {{KEY = 'home'}}"
    )
    for name in ("work", "home"):
        assert variables(name, is_command=False) == ({"KEY": name}, [])
    # The known agent has the same program, but nothing is configured for it.
    install(tmp_path / "bin", "claude-agent-acp")
    assert variables("claude", is_command=False) == ({}, [])
    found, (warning,) = variables("claude-agent-acp --x")
    assert found == {}
    assert warning.startswith("these agents have the same command: claude, home, work;")
    # A longer command is more exact.
    path.write_text(
        "[agents.small]\ncommand = 'opencode acp --model small'\nenv = {KEY = '1'}\n"
        "[agents.other]\ncommand = 'opencode acp'"
    )
    assert variables("opencode acp --model small") == ({"KEY": "1"}, [])
    # Agents without variables are not worth a warning.
    assert variables("opencode acp --x") == ({}, [])


def test_a_missing_program_is_explained(programs: Path) -> None:
    install = "`npm install -g @agentclientprotocol/codex-acp` installs it"
    for program in ("codex", "codex-acp"):
        assert explain_missing(program) == f"command not found: {program}: {install}"
    hint = "`rekindle agents` lists the known agents"
    assert (
        explain_missing("opencod") == f"command not found: opencod: did you mean opencode? {hint}"
    )
    assert explain_missing("zzzzz") == f"command not found: zzzzz: {hint}"
    assert explain_missing("cursor").endswith(": see https://cursor.com/cli")
    with pytest.raises(AgentNotStarted, match="command not found: codex-acp: ") as raised:
        installed_agent(["codex"])
    assert raised.value.exit_code == 127
    assert installed_agent(["opencode"]) == (("opencode", "acp"), "opencode")
    # The start of a path reports the reason, such as a missing permission.
    check_installed([str(programs / "missing")])


def test_installed_agents_are_offered(programs: Path) -> None:
    # The program `claude` is not the agent.
    assert offer_installed("gemini") == "`-- opencode`, `-- goose`"
    assert offer_installed("opencode") == "`-- goose`"
    install(programs, "claude-agent-acp", "codex-acp")
    assert offer_installed("gemini") == "`-- claude`, `-- codex`, `-- opencode`"
