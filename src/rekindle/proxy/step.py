"""What the core tells the runner to do."""

from typing import Any

from msgspec import Struct

from rekindle.acp.jsonrpc import INTERNAL_ERROR
from rekindle.model import Change, Side
from rekindle.proxy.flow import Query


class UserReport(Struct, frozen=True):
    """Something to tell the user, outside the protocol. `quote` was said in the conversation."""

    text: str
    quote: str = ""


class PendingQuery(Struct, frozen=True):
    """A question, and the number of the flow that waits for its answer."""

    flow: int
    query: Query


class Step(Struct):
    """What becomes of what one read brought, in the order of the fields.

    That everything is recorded before anything is sent is not a rule the runner has to
    remember: it is the shape of this value.
    """

    changes: list[Change] = []
    """What to record."""
    sync: bool = False
    """Whether it must be on the disk: a turn begins or ends here."""
    to_agent: list[bytes] = []
    to_client: list[bytes] = []
    reports: list[UserReport] = []
    queries: list[PendingQuery] = []
    """What must be answered at once; each answer leads to another step."""
    wake_us: int | None = None
    """When the relay wants to be called again, if nothing happens until then."""

    def to(self, side: Side) -> list[bytes]:
        """Return the lines that this side will get."""
        return self.to_agent if side is Side.AGENT else self.to_client


class AgentExit(Struct, frozen=True):
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
