"""The end of an agent, as those learn of it who still wait for an answer."""

from typing import Any

from msgspec import Struct

from rekindle.acp.jsonrpc import INTERNAL_ERROR


class AgentEnded(Struct, frozen=True):
    """How the agent ended, and the last it said on stderr."""

    exit_code: int | None
    signal: str | None
    last_words: tuple[str, ...]

    def __str__(self) -> str:
        how = f"was killed by {self.signal}" if self.signal else f"exited with {self.exit_code}"
        return f"the agent {how}"

    def error(self, method: str) -> dict[str, Any]:
        """Return the error that a request gets which it left open."""
        return {
            "code": INTERNAL_ERROR,
            "message": f"{self} before it answered {method}",
            "data": self.details,
        }

    @property
    def details(self) -> dict[str, Any]:
        """What a program may want to know of it."""
        return {
            "agentEnded": True,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "stderr": list(self.last_words),
        }
