"""The agent that continues a session, or starts a new one."""

import argparse
import os
from pathlib import Path

import pytest

from prepared_sessions import install
from rekindle.cli.chat.target import chat_target, given_agent, new_target, session_agent
from rekindle.errors import AgentNotStarted, UsageError
from rekindle.model import AgentIdentity, Counted, Imported, Opened, Origin
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore

CLAUDE = "`npm install -g @agentclientprotocol/claude-agent-acp` installs it"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of PATH, which is empty."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path / "bin")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def add(
    store: MemoryStore | SqliteStore,
    name: str,
    agent: AgentIdentity,
    *,
    tool: str = "",
    used: tuple[int, str] = (1, "/"),
) -> None:
    """Add a session, used at a time in a folder, and imported from a tool if one is given."""
    at, cwd = used
    store.write([Opened(session_id=name, at_us=at, agent=agent, cwd=cwd)])
    store.write([Counted(session_id=name, at_us=at, turns=1)])
    if tool:
        origin = Origin(tool=tool, path="/x", entries=1)
        store.write([Imported(session_id=name, at_us=at, origin=origin)])


def command(store: MemoryStore, name: str = "s") -> tuple[str, ...]:
    return session_agent(store, store.find(name)).command


def test_an_imported_session_uses_the_agent_of_its_tool(
    store: MemoryStore, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(store, "s", AgentIdentity(name="claude"), tool="claude")
    install(programs, "claude-agent-acp")
    assert command(store) == ("claude-agent-acp",)
    assert capsys.readouterr().err == "rekindle: note: continuing with claude-agent-acp\n"
    add(store, "nameless", AgentIdentity(), tool="claude")
    assert command(store, "nameless") == ("claude-agent-acp",)


def test_an_agent_that_is_not_installed_is_reported_with_others(
    store: MemoryStore, programs: Path
) -> None:
    add(store, "s", AgentIdentity(name="claude"), tool="claude")
    text = "this session is one of Claude Code, whose agent claude-agent-acp is not installed:"
    other = "or continue with another agent:"
    with pytest.raises(AgentNotStarted) as raised:
        command(store)
    assert (str(raised.value), raised.value.exit_code) == (
        f"{text} {CLAUDE}; {other} `-- COMMAND`",
        127,
    )
    install(programs, "opencode", "claude")
    with pytest.raises(AgentNotStarted) as raised:
        command(store)
    assert str(raised.value) == f"{text} {CLAUDE}; {other} `-- opencode`"


def test_a_command_of_the_same_agent_in_this_store_comes_first(
    store: MemoryStore, programs: Path
) -> None:
    add(store, "s", AgentIdentity(name="claude"), tool="claude")
    install(programs, "claude-agent-acp", "npx")
    used = AgentIdentity(name="@zed-industries/claude-code-acp", command=("npx", "claude"))
    add(store, "other", used)
    assert command(store) == ("npx", "claude")
    (programs / "npx").unlink()
    assert command(store) == ("claude-agent-acp",)


def test_a_session_without_command_is_recognised_by_the_name_of_its_agent(
    store: MemoryStore, programs: Path
) -> None:
    install(programs, "gemini")
    add(store, "s", AgentIdentity(name="gemini-cli"))
    assert command(store) == ("gemini", "--acp")
    add(store, "t", AgentIdentity(name="unheard-of"))
    with pytest.raises(UsageError, match="name an agent, as in `-- claude`; `rekindle agents`"):
        command(store, "t")


def test_the_configuration_file_decides_on_the_agent_of_a_tool(
    store: MemoryStore, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("[agents.claude]\ncommand = 'npx claude'")
    monkeypatch.setenv("REKINDLE_CONFIG", str(tmp_path / "config.toml"))
    add(store, "s", AgentIdentity(name="claude"), tool="claude")
    install(programs, "claude-agent-acp", "npx")
    assert command(store) == ("npx", "claude")


def test_the_current_folder_does_not_provide_the_agent_of_a_tool(
    store: MemoryStore, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "claude-agent-acp")
    monkeypatch.setenv("PATH", f".{os.pathsep}{programs}")
    add(store, "s", AgentIdentity(name="claude"), tool="claude")
    with pytest.raises(UsageError, match=r"found through the entry '\.' of PATH"):
        command(store)


def arguments(**given: object) -> argparse.Namespace:
    defaults = {"store": None, "takeover": False, "cwd": ".", "command": []}
    return argparse.Namespace(**(defaults | given))


def test_a_single_word_of_the_user_is_a_name_first(store: MemoryStore, programs: Path) -> None:
    install(programs, "claude", "claude-agent-acp", "opencode")
    assert given_agent(["claude"]) == (("claude-agent-acp",), "claude")
    assert given_agent(["claude"], is_command=True) == (("claude",), None)
    assert given_agent(["claude", "--x"]) == (("claude", "--x"), None)
    assert given_agent([]) is None
    add(store, "s", AgentIdentity(command=("old",)))
    for words, expected in ((["opencode"], ("opencode", "acp")), ([], ("old",))):
        target = chat_target(arguments(command=words), store, store.find("s"))
        assert target.agent.command == expected
    with pytest.raises(AgentNotStarted, match="command not found: gemini: `npm install"):
        given_agent(["gemini"])


def test_a_new_session_uses_the_agent_used_last(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_STORE", str(tmp_path / "s.db"))
    example = "rekindle new claude"
    with SqliteStore(tmp_path / "s.db") as store:
        with pytest.raises(UsageError, match=r"name one, as in `rekindle new claude`; `rekindle a"):
            new_target(arguments(), [], example=example)
        add(store, "masked", AgentIdentity(command=("agent", "--token", "***")), used=(9, "/"))
        with pytest.raises(UsageError, match=r"lists them \(this session's command had secrets"):
            new_target(arguments(), [], example=example)
        add(store, "elsewhere", AgentIdentity(command=("elsewhere",)), used=(8, "/"))
        # The last one cannot be started again.
        assert new_target(arguments(), [], example=example).agent.command == ("elsewhere",)
        add(store, "here", AgentIdentity(command=("here",)), used=(7, str(tmp_path)))
        target = new_target(arguments(), [], example=example)
        assert (target.agent, target.session) == ((("here",), None), None)
        assert target.cwd == str(tmp_path)
    install(programs, "goose")
    assert new_target(arguments(), ["goose"], example=example).agent.command == ("goose", "acp")
    with pytest.raises(UsageError, match="there is no folder /no/such: name an existing one"):
        new_target(arguments(cwd="/no/such"), ["goose"], example=example)
