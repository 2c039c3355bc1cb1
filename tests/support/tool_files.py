"""The same short session in the files of each tool, which tests can extend."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

import claude_files
import codex_files
import gemini_files
import opencode_files
import warm_start
from stdio_client import REKINDLE, TIMEOUT

CWD = "/home/user/project"
PROMPT, ANSWER = "My name is Ada.", "Hello, Ada."


class ToolSessionFile(ABC):
    """A session in the files of a tool."""

    tool: str
    agent: str
    """The name that the agent of the tool reports."""
    session_id: str

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home
        self.add(PROMPT, ANSWER)

    @abstractmethod
    def add(self, prompt: str, answer: str) -> None:
        """Add a turn, in the format of the tool."""

    @property
    def opened(self) -> dict[str, object]:
        """The params with which a client opens it."""
        return {"sessionId": self.session_id, "cwd": CWD, "mcpServers": []}

    def imports(self, store: Path, *words: str | Path) -> str:
        """Import the sessions of the tool; return the report on stderr."""
        nowhere = {
            "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": "", "OPENCODE_DB": "",
            "XDG_DATA_HOME": "",
        }  # fmt: skip
        done = warm_start.run(
            [*REKINDLE, "import", "--store", store, *(words or (self.tool,))],
            env={**os.environ, **nowhere, "HOME": str(self.home)},
            capture_output=True,
            timeout=TIMEOUT,
            check=True,
        )
        return done.stderr.decode()


class Claude(ToolSessionFile):
    """A session of Claude Code."""

    tool, agent = "claude", "@agentclientprotocol/claude-agent-acp"
    session_id = claude_files.SESSION

    def __init__(self, home: Path) -> None:
        self._made = claude_files.ClaudeFile()
        super().__init__(home)

    def add(self, prompt: str, answer: str) -> None:
        self._made.user(prompt)
        self._made.agent(f"m{len(self._made.lines)}", claude_files.said(answer), "end_turn")
        self.file = self._made.write(self.home)


class Codex(ToolSessionFile):
    """A session of Codex."""

    tool, agent = "codex", "@agentclientprotocol/codex-acp"
    session_id = codex_files.SESSION

    def __init__(self, home: Path) -> None:
        self._made = codex_files.CodexFile(mode="paginated")
        self._turns = 0
        super().__init__(home)

    def add(self, prompt: str, answer: str) -> None:
        self._turns += 1
        self._made.begin(self._turns)
        self._made.ask(prompt)
        self._made.answer(answer, f"msg_{self._turns}")
        self._made.end(self._turns)
        self.file = self._made.write(self.home)


class OpenCode(ToolSessionFile):
    """A session of OpenCode."""

    tool, agent = "opencode", "OpenCode"
    session_id = opencode_files.SESSION

    def __init__(self, home: Path) -> None:
        self._made = opencode_files.OpenCode(title=PROMPT)
        super().__init__(home)

    def add(self, prompt: str, answer: str) -> None:
        self._made.user(opencode_files.said(prompt))
        self._made.agent(opencode_files.said(answer))
        path = self.home / ".local" / "share" / "opencode" / "opencode.db"
        path.unlink(missing_ok=True)
        self.file = self._made.to_database(path)


class Gemini(ToolSessionFile):
    """A session of Gemini CLI."""

    tool, agent = "gemini", "gemini-cli"
    session_id = gemini_files.SESSION

    def __init__(self, home: Path) -> None:
        self._made = gemini_files.GeminiFile()
        super().__init__(home)

    def add(self, prompt: str, answer: str) -> None:
        self._made.user(prompt)
        self._made.agent(answer)
        self.file = self._made.write(self.home)


TOOLS = (Claude, Codex, OpenCode, Gemini)
