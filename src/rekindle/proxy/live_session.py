"""The sessions in use on one connection, and under which id the agent knows each."""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2
from rekindle.model import UNKNOWN_TO_AGENT

# More than any agent has to say of a session before it says what that is called.
MOST_HELD = 16 * 1024 * 1024


class UpdatePolicy(StrEnum):
    """What becomes of what the agent says of a session."""

    FORWARD = "live"
    """It is recorded and passed on."""
    DISCARD = "swallow"
    """It is history that we have: neither."""
    RECORD_ONLY = "learn"
    """It is history that we do not have and the client did not ask for: only recorded."""


class ReplayStats(Struct):
    """What the agent has told of a session's history, since it was asked to."""

    lines: int = 0
    user_messages: int = 0
    has_answers: bool = False
    last_kind: str = ""

    def add(self, kind: str, *, is_user: bool) -> None:
        """Take one more update into account."""
        self.lines += 1
        self.user_messages += is_user and self.last_kind != kind
        self.has_answers = self.has_answers or not is_user
        self.last_kind = kind


class LiveSession(Struct):
    """What has to be remembered of a session while it is in use."""

    id: str
    """The client's name for it, which never changes."""
    agent_id: str
    hearing: UpdatePolicy = UpdatePolicy.FORWARD
    told: ReplayStats = field(default_factory=ReplayStats)
    is_restoring: bool = False
    held: list[bytes] = []
    """What the agent said before the client could know the session, or of its state meanwhile."""
    needs_restore: bool = False
    """Whether the agent that knew it has ended."""
    needs_handover: bool = False
    """Whether the next prompt has to carry the record."""
    reminder: str = ""
    """What it has to tell an agent that remembers: the end of it, which was cut off."""
    is_reminding: bool = False
    """Whether the prompt that tells it is being answered."""
    is_handing_over: bool = False
    """Whether the prompt that carries it is being answered."""
    notice: bytes | None = None
    """What tells the client so, while the prompt itself is yet to be told by the agent."""
    is_outdated: bool = False
    """Whether another process has driven it since: the agent here does not know all of it."""
    is_closed: bool = False
    """Whether the client has closed it, and the agent cannot be told."""
    is_working: bool = False
    """Whether a version 2 agent is at work on it."""
    awaiting: int = 0
    """How many prompts it was sent that it has neither taken nor dealt with."""
    is_ahead: bool = False
    """Whether it works on one of them, and has not said that it has taken it."""
    open_prompt: bytes | None = None
    """The id of a version 1 client's prompt that a version 2 agent has taken and not done with."""
    prompted: list[Any] = []
    """The blocks of the last prompt, as the user gave them."""
    queued: list[bytes] = []
    """Prompts of a version 2 client that wait for the turn's end."""
    to_v2: LiveToV2 | None = None
    to_v1: LiveToV1 | None = None
    taken_ids: frozenset[str] = frozenset()
    """The ids that messages and tool calls had when the agent was last told the record."""
    suffix: str = ""
    """What an id gets that the agent has given to another since."""
    setup: dict[str, Any] = {}
    """What it was last opened with: secrets and all, so never recorded."""
    title: str | None = None
    """As the client knows it."""
    new_title: str | None = None
    """One that the client is told when the turn has ended, unless the agent gives one first."""
    keeps_title: bool = False
    """Whether the agent may not rename it: the user has named it, or it is not the agent's own."""

    def end_telling(self) -> None:
        """Take it that the agent knows what it was told with its last prompt."""
        if self.is_reminding:
            self.reminder = ""
        self.is_handing_over = self.is_reminding = False


class LiveSessions:
    """Finds a session by either side's id."""

    def __init__(self) -> None:
        self._by_id: dict[str, LiveSession] = {}
        self._by_agent_id: dict[str, LiveSession] = {}
        self._early: dict[str, list[bytes]] = {}
        self._early_size = 0
        self._abandoned: set[str] = set()

    @property
    def are_there(self) -> bool:
        """Whether any session is in use."""
        return bool(self._by_id)

    def get(self, session_id: str | None) -> LiveSession | None:
        """Return the session that the client calls so."""
        return self._by_id.get(session_id) if session_id is not None else None

    def open(self, session_id: str | None) -> LiveSession | None:
        """Return it only if the client may use it."""
        live = self.get(session_id)
        return None if live is None or live.is_closed else live

    def of_agent(self, agent_id: str | None) -> LiveSession | None:
        """Return the session that the agent calls so."""
        return self._by_agent_id.get(agent_id) if agent_id is not None else None

    def bind(self, session_id: str, agent_id: str) -> LiveSession:
        """Make the two ids mean one session."""
        live = self._by_id.get(session_id)
        if live is None:
            live = self._by_id[session_id] = LiveSession(id=session_id, agent_id=agent_id)
        if self._by_agent_id.get(live.agent_id) is live:
            del self._by_agent_id[live.agent_id]
        live.agent_id = agent_id
        if agent_id != UNKNOWN_TO_AGENT:
            self._by_agent_id[agent_id] = live
            self._abandoned.discard(agent_id)
        early = self._early.pop(agent_id, [])
        self._early_size -= sum(map(len, early))
        live.held += early
        return live

    def is_free(self, agent_id: str, session_id: str) -> bool:
        """Tell whether the agent means no other session by this id."""
        other = self._by_agent_id.get(agent_id)
        return other is None or other.id == session_id

    def abandon(self, agent_id: str) -> None:
        """Listen no more to what the agent tells under this id."""
        self._abandoned.add(agent_id)

    def is_abandoned(self, agent_id: str) -> bool:
        """Tell whether nobody listens, because another id has come in its place."""
        return agent_id in self._abandoned

    def is_gone(self, session_id: str | None) -> bool:
        """Tell whether a session that the agent names is one that the client has closed."""
        live = self.get(session_id)
        return live.is_closed if live is not None else session_id in self._abandoned

    def drop(self, session_id: str) -> None:
        """Forget a session."""
        live = self._by_id.pop(session_id, None)
        if live is not None and self._by_agent_id.get(live.agent_id) is live:
            del self._by_agent_id[live.agent_id]

    def hold_early(self, agent_id: str, line: bytes) -> bool:
        """Keep what is said of a session that has no name yet; tell whether there was room."""
        if self._early_size + len(line) > MOST_HELD:
            return False
        self._early_size += len(line)
        self._early.setdefault(agent_id, []).append(line)
        return True

    def at_work(self) -> list[LiveSession]:
        """Return the sessions on which a version 2 agent is at work."""
        return [live for live in self._by_id.values() if live.is_working]

    def take_held_of(self, session_id: str) -> list[bytes]:
        """Return, and drop, what was held back of one session."""
        live = self._by_id[session_id]
        held, live.held = live.held, []
        return held

    def with_queued(self) -> list[LiveSession]:
        """Return the sessions in which prompts wait."""
        return [live for live in self._by_id.values() if live.queued and not live.is_closed]

    def with_open_prompt(self, request_id: bytes) -> LiveSession | None:
        """Return the session in which a version 1 client's prompt of this id is being answered."""
        found = (live for live in self._by_id.values() if live.open_prompt == request_id)
        return next(found, None)

    def take_held(self, *, are_all_named: bool) -> list[bytes]:
        """Return, and drop, what was held back and may now be said."""
        lines: list[bytes] = []
        for live in self._by_id.values():
            if not live.is_restoring:
                lines += live.held
                live.held.clear()
        if are_all_named:
            lines += [line for held in self._early.values() for line in held]
            self._forget_early()
        return lines

    def agent_ended(self) -> None:
        """Remember that nobody at the other end knows these sessions any more."""
        for live in list(self._by_id.values()):
            if live.is_closed:
                self.drop(live.id)
            live.needs_restore, live.awaiting = True, 0
            live.held.clear()
        self._by_agent_id.clear()
        self._forget_early()
        self._abandoned.clear()

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_size = 0
