"""The sessions that a connection uses. Each consists of small state machines.

| machine     | question that it answers                                              |
|-------------|-----------------------------------------------------------------------|
| AgentMemory | Does the agent know the session, or must the engine restore it first? |
| UpdateGate  | What happens to the agent's updates of the session?                   |
| Handover    | Does the next prompt carry the history, or a reminder?                |
| TurnTracker | Is a turn running, and which prompts has the agent acknowledged?      |
| TitleSync   | Which title does the client know, and who may change it?              |

Everything that changes such state is in this module. No machine sends or records anything.
"""

from collections.abc import Iterator
from enum import Enum, StrEnum, auto

from msgspec import Struct, field

from rekindle.acp.update_kinds import is_user_message
from rekindle.model import UNKNOWN_TO_AGENT
from rekindle.proxy.peers import NO_CLIENT, Peer
from rekindle.proxy.session_clients import (
    Attachment,
    HeldPrompt,
    SessionSetup,
    SuffixedIds,
    Translators,
)
from rekindle.transcript.model import HandoverReason
from rekindle.transcript.replay_match import ReplayReader, ReplayStats


class InvalidTransition(RuntimeError):
    """A state machine was asked for a transition that its table does not have."""

    def __init__(self, state: Enum, event: str) -> None:
        super().__init__(f"{type(state).__name__}: no transition {event} from {state.name}")


# -- the agent's memory ---------------------------------------------------------------------


class MemoryState(Enum):
    """The states of an agent's memory of a session."""

    READY = auto()
    """The agent knows the session."""
    LOST = auto()
    """The agent that knew it has exited, or a restore has failed."""
    OUTDATED = auto()
    """The session was rewound, or another process has used it: the agent's memory is wrong."""
    ADOPTING = auto()
    """The engine reads a session that only the agent has."""
    RESTORING = auto()
    """A flow restores it, by the agent's own means if they work."""
    RESTORING_OUTDATED = auto()
    """A flow restores it, by handover only."""


_M = MemoryState
_MEMORY_TRANSITIONS: dict[str, dict[MemoryState, MemoryState]] = {
    "adopt": {_M.READY: _M.ADOPTING, _M.LOST: _M.ADOPTING, _M.OUTDATED: _M.ADOPTING},
    "adopted": {_M.ADOPTING: _M.READY, _M.LOST: _M.LOST},
    "restore": {
        _M.READY: _M.RESTORING,
        _M.LOST: _M.RESTORING,
        _M.OUTDATED: _M.RESTORING_OUTDATED,
    },
    "restored": {_M.RESTORING: _M.READY, _M.RESTORING_OUTDATED: _M.READY},
    "restore_failed": {
        _M.RESTORING: _M.LOST,
        _M.RESTORING_OUTDATED: _M.OUTDATED,
        _M.LOST: _M.LOST,
        _M.OUTDATED: _M.OUTDATED,
    },
    "used_elsewhere": {
        _M.READY: _M.OUTDATED,
        _M.LOST: _M.OUTDATED,
        _M.OUTDATED: _M.OUTDATED,
    },
    "rewound": {_M.READY: _M.OUTDATED, _M.LOST: _M.OUTDATED, _M.OUTDATED: _M.OUTDATED},
    "agent_exited": {
        _M.READY: _M.LOST,
        _M.LOST: _M.LOST,
        _M.OUTDATED: _M.OUTDATED,
        _M.ADOPTING: _M.LOST,
        _M.RESTORING: _M.LOST,
        _M.RESTORING_OUTDATED: _M.OUTDATED,
    },
}


class AgentMemory(Struct):
    """Whether the agent knows a session.

    | event          | from                          | to                 |
    |----------------|-------------------------------|--------------------|
    | adopt          | ready, lost, outdated         | adopting           |
    | adopted        | adopting                      | ready              |
    | adopted        | lost                          | lost               |
    | restore        | ready, lost                   | restoring          |
    | restore        | outdated                      | restoring_outdated |
    | restored       | restoring, restoring_outdated | ready              |
    | restore_failed | restoring                     | lost               |
    | restore_failed | restoring_outdated            | outdated           |
    | restore_failed | lost, outdated                | unchanged          |
    | used_elsewhere | ready, lost, outdated         | outdated           |
    | rewound        | ready, lost, outdated         | outdated           |
    | agent_exited   | ready, adopting, restoring    | lost               |
    | agent_exited   | restoring_outdated            | outdated           |
    | agent_exited   | lost, outdated                | unchanged          |

    A session starts as ready: the agent has just created it, or a flow restores it at once.
    """

    state: MemoryState = MemoryState.READY
    exit_us: int | None = None
    """The time at which the agent that knew the session exited."""

    def advance(self, event: str) -> None:
        """Make the transition of an event. Raises InvalidTransition."""
        states = _MEMORY_TRANSITIONS[event]
        if self.state not in states:
            raise InvalidTransition(self.state, event)
        self.state = states[self.state]

    @property
    def is_missing(self) -> bool:
        """Whether the session must be restored before the agent can use it."""
        return self.state is not _M.READY and self.state is not _M.ADOPTING

    @property
    def is_in_transition(self) -> bool:
        """Whether a flow is restoring or adopting the session."""
        return self.state in {_M.ADOPTING, _M.RESTORING, _M.RESTORING_OUTDATED}

    @property
    def is_outdated(self) -> bool:
        """Whether the agent's memory of the session must not be used."""
        return self.state in {_M.OUTDATED, _M.RESTORING_OUTDATED}


# -- updates --------------------------------------------------------------------------------


class UpdatePolicy(StrEnum):
    """The treatment of the updates that an agent sends for a session."""

    FORWARD = "forward"
    """They are recorded and forwarded."""
    DISCARD = "discard"
    """They are history that the record has: neither."""
    RECORD_ONLY = "record_only"
    """They are history that the record lacks and the client did not ask for: only recorded."""
    RECORD_REST = "record_rest"
    """Another process has the session. They are only recorded, although it is closed."""


class UpdateGate(Struct):
    """The update policy of a session, and the replay by which a restore is judged.

    | event            | from | to          |
    |------------------|------|-------------|
    | expect_replay    | any  | its policy  |
    | discard_history  | any  | discard     |
    | prompt_forwarded | any  | forward     |
    | lease_lost       | any  | record_rest |

    A policy that a restore sets stays after the restore, because agents replay late. It ends when
    the next prompt is forwarded to the agent.
    """

    policy: UpdatePolicy = UpdatePolicy.FORWARD
    stats: ReplayStats = field(default_factory=ReplayStats)
    reader: ReplayReader | None = None
    """Collects the replay that is compared with the record."""
    silent_release: str | None = None
    """The release of an agent whose load has replayed nothing. A later replay corrects that."""

    @property
    def is_forwarding(self) -> bool:
        """Whether updates are not history that the record has."""
        return self.policy is not UpdatePolicy.DISCARD

    def expect_replay(self, policy: UpdatePolicy, reader: ReplayReader | None = None) -> None:
        """Apply a policy to the history that the agent may replay now, and count it from zero."""
        self.policy, self.reader, self.silent_release = policy, reader, None
        self.stats = ReplayStats()

    def add_history(self, kind: str, line: bytes) -> None:
        """Count an update of the history, and collect it if it is compared with the record."""
        self.stats.add(kind, is_user=is_user_message(kind))
        if self.reader is not None:
            self.reader.add(kind, line)

    def discard_history(self) -> None:
        """Discard the history that the agent may replay."""
        self.policy = UpdatePolicy.DISCARD

    def lease_lost(self) -> None:
        """Record the updates that the agent still sends after another process has the session."""
        self.policy, self.reader, self.silent_release = UpdatePolicy.RECORD_REST, None, None

    def prompt_forwarded(self) -> None:
        """Forward updates again: they belong to the turn of the prompt."""
        self.policy, self.reader, self.silent_release = UpdatePolicy.FORWARD, None, None


# -- handover -------------------------------------------------------------------------------


class HandoverState(Enum):
    """The states of a handover."""

    NONE = auto()
    """The agent knows the history."""
    HISTORY_DUE = auto()
    """The next prompt carries the history."""
    REMINDER_DUE = auto()
    """The next prompt carries a reminder of the interrupted turn."""
    SENDING_HISTORY = auto()
    """A prompt that carries the history is open at the agent."""
    SENDING_REMINDER = auto()
    """A prompt that carries the reminder is open at the agent."""


_H = HandoverState


class Handover(Struct):
    """Whether and with which prompt the agent receives the history of a session.

    | event          | from                              | to                           |
    |----------------|-----------------------------------|------------------------------|
    | require        | any                               | history_due, reminder_due or |
    |                |                                   | none, as the restore decided |
    | send           | history_due                       | sending_history              |
    | send           | reminder_due                      | sending_reminder             |
    | prompt_failed  | sending_history, the same prompt  | history_due                  |
    | prompt_failed  | sending_reminder, the same prompt | reminder_due                 |
    | prompt_ended   | sending_…, the same prompt        | none                         |
    | turn_ended     | sending_…                         | none                         |

    The failure or end of another prompt changes nothing. A reminder is not sent with a slash
    command: the caller asks `is_reminder_due` only for other prompts.
    """

    state: HandoverState = HandoverState.NONE
    reason: HandoverReason = HandoverReason.LOST
    """Why the agent receives the history."""
    reminder: str = ""
    prompt_id: bytes | None = None
    """The id, as the agent has it, of the prompt that carries the history or the reminder."""
    notice: bytes | None = None
    """An update that informs the clients, held until the agent has echoed the prompt."""
    notified: Peer = NO_CLIENT
    """The client that has received the notice before."""

    def require(
        self,
        *,
        history: bool = False,
        reminder: str = "",
        reason: HandoverReason = HandoverReason.LOST,
    ) -> None:
        """Start again with what the agent lacks after it was restored or forked."""
        if history:
            self.state, self.reason = _H.HISTORY_DUE, reason
        else:
            self.state = _H.REMINDER_DUE if reminder else _H.NONE
        self.reminder, self.prompt_id, self.notice = reminder, None, None

    @property
    def is_history_due(self) -> bool:
        """Whether the next prompt has to carry the history."""
        return self.state is _H.HISTORY_DUE

    @property
    def lacks_history(self) -> bool:
        """Whether the agent has yet to confirm that it received the history."""
        return self.state in {_H.HISTORY_DUE, _H.SENDING_HISTORY}

    @property
    def is_reminder_due(self) -> bool:
        """Whether the next prompt may carry the reminder."""
        return self.state is _H.REMINDER_DUE

    def send(self, prompt_id: bytes) -> None:
        """Note the prompt that carries the history or the reminder. Raises InvalidTransition."""
        if self.state is _H.HISTORY_DUE:
            self.state = _H.SENDING_HISTORY
        elif self.state is _H.REMINDER_DUE:
            self.state = _H.SENDING_REMINDER
        else:
            raise InvalidTransition(self.state, "send")
        self.prompt_id = prompt_id

    def prompt_failed(self, prompt_id: bytes) -> bool:
        """Note an error response; return whether the history has to be sent again.

        The agent then does not know the session: the caller unbinds the agent's id.
        """
        if prompt_id != self.prompt_id:
            return False
        is_history = self.state is _H.SENDING_HISTORY
        self.state = _H.HISTORY_DUE if is_history else _H.REMINDER_DUE
        self.prompt_id = None
        return is_history

    def prompt_ended(self, prompt_id: bytes) -> None:
        """Note that the turn of a prompt has ended well."""
        if prompt_id == self.prompt_id:
            self.turn_ended()

    def turn_ended(self) -> None:
        """Note the end of a turn whose prompt the agent did not name."""
        if self.prompt_id is not None:
            self.state, self.reminder, self.prompt_id = _H.NONE, "", None


# -- turns ----------------------------------------------------------------------------------


class AgentTurn(Enum):
    """The states that a version 2 agent reports of its work on a session."""

    IDLE = auto()
    WORKING = auto()
    IDLE_AHEAD = auto()
    """It reported a state after a prompt was sent, before it acknowledged that prompt."""
    WORKING_AHEAD = auto()
    """It works on a prompt that it has not acknowledged."""


_T = AgentTurn
_WORKING = frozenset({_T.WORKING, _T.WORKING_AHEAD})
_AHEAD = frozenset({_T.IDLE_AHEAD, _T.WORKING_AHEAD})


class TurnTracker(Struct):
    """The turns at a version 2 agent, and the prompt that a version 1 client waits for.

    A version 1 agent answers a prompt at the end of its turn, so its turns are the open requests.
    A version 2 agent acknowledges a prompt at once and reports the end as a state.

    | event                  | from                 | to                                       |
    |------------------------|----------------------|------------------------------------------|
    | prompt_sent            | any                  | unchanged, one more unacknowledged       |
    | acknowledged           | any, unacknowledged  | working, one less                        |
    | acknowledged           | any, none open       | not ahead any more                       |
    | prompt_failed          | any                  | not ahead any more, one less             |
    | state_changed, active  | idle, unacknowledged | working_ahead                            |
    | state_changed, active  | any other            | working, still ahead if it was           |
    | state_changed, idle    | see below            | idle; the turn ends if it was working on |
    |                        |                      | an acknowledged prompt, or names a reason |
    | report_state           | any                  | idle or working, still ahead if it was   |
    | finish                 | any                  | idle, none unacknowledged                |
    | agent_exited           | any                  | not ahead any more, none unacknowledged  |

    An idle state without a stop reason may be the end of earlier work that crossed with a new
    prompt. While a prompt is unacknowledged, only a stop reason ends the turn.

    A prompt or an active state begins a turn whose end the user has yet to learn (`awaits_end`).
    """

    state: AgentTurn = AgentTurn.IDLE
    unacknowledged: int = 0
    """The number of prompts that the agent has neither acknowledged nor answered."""
    held_prompt: HeldPrompt | None = None
    """A version 1 client's prompt that a version 2 agent works on."""
    prompter: Peer = NO_CLIENT
    """The client that sent the last prompt."""
    prompt_count: int = 0
    awaits_end: bool = False
    """Whether a turn has begun whose end is not reported to the user yet."""

    @property
    def is_working(self) -> bool:
        """Whether a version 2 agent works on the session."""
        return self.state in _WORKING

    @property
    def is_running(self) -> bool:
        """Whether a turn is running that is not an open request."""
        return self.state in _WORKING or self.held_prompt is not None

    def prompt_sent(self, client: Peer, *, is_acknowledged_later: bool) -> None:
        """Note a prompt that is forwarded to the agent."""
        self.prompter = client
        self.prompt_count += 1
        self.awaits_end = True
        self.unacknowledged += is_acknowledged_later

    def acknowledged(self) -> None:
        """Note a successful response to a prompt."""
        if self.unacknowledged:
            self.unacknowledged -= 1
            self.state = _T.WORKING
        else:
            self._leave_ahead()

    def prompt_failed(self) -> None:
        """Note an error response to a prompt."""
        self.unacknowledged = max(self.unacknowledged - 1, 0)
        self._leave_ahead()

    def state_changed(self, *, is_idle: bool, has_stop_reason: bool) -> bool:
        """Note a `state_update` of the agent; return whether a turn has ended by it."""
        was_working = self.is_working
        is_end = has_stop_reason or (was_working and not self.unacknowledged)
        is_ahead = self.state in _AHEAD or (self.unacknowledged > 0 and not was_working)
        if not is_idle:
            self.state = _T.WORKING_AHEAD if is_ahead else _T.WORKING
            self.awaits_end = True
            return False
        if is_end and (was_working or is_ahead):
            self.unacknowledged = max(self.unacknowledged - is_ahead, 0)
            self.state = _T.IDLE
            return True
        self.state = _T.IDLE_AHEAD if is_ahead else _T.IDLE
        return False

    def report_state(self, *, is_idle: bool) -> None:
        """Adopt the state that a restored agent reports, without the end of a turn."""
        is_ahead = self.state in _AHEAD
        if is_idle:
            self.state = _T.IDLE_AHEAD if is_ahead else _T.IDLE
        else:
            self.state = _T.WORKING_AHEAD if is_ahead else _T.WORKING
            self.awaits_end = True

    def take_end(self) -> bool:
        """Return, once for each turn, whether its end is to be reported to the user.

        A prompt that is not acknowledged yet begins another turn.
        """
        is_due, self.awaits_end = self.awaits_end, self.unacknowledged > 0
        return is_due

    def finish(self) -> None:
        """End the turn for the agent."""
        self.state, self.unacknowledged = _T.IDLE, 0

    def agent_exited(self) -> None:
        """Forget the prompts that the agent will not acknowledge any more."""
        self.unacknowledged = 0
        self._leave_ahead()

    def _leave_ahead(self) -> None:
        self.state = _T.WORKING if self.state in _WORKING else _T.IDLE


# -- titles ---------------------------------------------------------------------------------


class TitleSync(Struct):
    """The title that the client knows, and the title that waits to be sent to it.

    | event        | lock     | effect                                                    |
    |--------------|----------|-----------------------------------------------------------|
    | restored     | any      | the client knows the stored title; the lock is set again  |
    | lock         | any      | the agent may not rename the session any more             |
    | prompted     | any      | a title that the client does not know waits for the turn  |
    | agent_titled | unlocked | the client knows the agent's title; nothing waits         |
    | agent_titled | locked   | nothing: the agent's title is removed from its update     |
    | announce     | any      | the waiting title is returned; the client knows it        |
    | user_titled  | any      | the client knows the user's title; locked; nothing waits  |

    A session is locked when the user has named it, or when its title is not the agent's own: an
    agent that received a handover would name the session after that.
    """

    known: str | None = None
    waiting: str | None = None
    is_locked: bool = False

    def restored(self, title: str | None, *, is_locked: bool) -> None:
        """Start with the title that the store has."""
        self.known, self.is_locked = title, is_locked

    def lock(self) -> None:
        """Forbid the agent to rename the session."""
        self.is_locked = True

    def prompted(self, title: str | None, *, is_users: bool) -> None:
        """Let a title wait for the end of the turn, if the client does not know it."""
        self.is_locked = self.is_locked or is_users
        self.waiting = title if title != self.known else None

    def agent_titled(self, title: str | None) -> bool:
        """Note a title from the agent; return whether the client may see it."""
        if self.is_locked:
            return False
        self.known, self.waiting = title, None
        return True

    def user_titled(self, title: str) -> None:
        """Note the title that the client has set for the user."""
        self.known, self.waiting, self.is_locked = title, None, True

    def announce(self) -> str | None:
        """Return the title to send to the client now, if any."""
        if self.waiting is None:
            return None
        self.known, self.waiting = self.waiting, None
        return self.known


# -- the session ----------------------------------------------------------------------------


class LiveSession(Struct):
    """A session in use on this connection."""

    id: str
    """The client's id, which never changes."""
    agent_id: str
    """The agent's id."""
    is_closed: bool = False
    """Whether its clients have closed it, while the agent, which cannot close, still has it."""
    setup: SessionSetup = SessionSetup()
    """The params it was last opened with."""
    memory: AgentMemory = field(default_factory=AgentMemory)
    updates: UpdateGate = field(default_factory=UpdateGate)
    handover: Handover = field(default_factory=Handover)
    turn: TurnTracker = field(default_factory=TurnTracker)
    title: TitleSync = field(default_factory=TitleSync)
    suffixed: SuffixedIds = SuffixedIds()
    translators: Translators = field(default_factory=Translators)
    clients: dict[Peer, Attachment] = {}
    """The clients that have it open, in the order in which they came."""

    @property
    def observers(self) -> dict[Peer, Attachment]:
        """The clients that only watch."""
        return {peer: it for peer, it in self.clients.items() if it.is_observer}

    def is_open_without(self, client: Peer) -> bool:
        """Return whether other clients keep it open. Observers do not."""
        return any(
            peer != client and not attachment.is_observer
            for peer, attachment in self.clients.items()
        )

    def close(self) -> None:
        """Note that no client has it open any more. The agent, which cannot close, keeps it."""
        self.clients = self.observers
        self.is_closed = True


class LiveSessions:
    """The sessions of one engine, by the client's id and by the agent's."""

    def __init__(self) -> None:
        self._by_id: dict[str, LiveSession] = {}
        self._by_agent_id: dict[str, LiveSession] = {}
        self._abandoned: set[str] = set()
        self._observers: dict[str, dict[Peer, Attachment]] = {}
        """The observers of sessions that were freed. They watch again if those are restored."""

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def __getitem__(self, session_id: str) -> LiveSession:
        return self._by_id[session_id]

    @property
    def are_several(self) -> bool:
        """Whether there is more than one session."""
        return len(self._by_id) > 1

    def besides(self, session_id: str) -> Iterator[str]:
        """Yield the ids of the other sessions."""
        return (it for it in self._by_id if it != session_id)

    def get(self, session_id: str | None) -> LiveSession | None:
        """Return the session with the client's id."""
        return self._by_id.get(session_id) if session_id is not None else None

    def get_open(self, session_id: str | None) -> LiveSession | None:
        """Return the session with the client's id, unless its clients have closed it."""
        live = self.get(session_id)
        return None if live is None or live.is_closed else live

    def opened_by(self, client: Peer) -> list[LiveSession]:
        """Return the sessions that a client has open."""
        return [live for live in self._by_id.values() if client in live.clients]

    def clients_of(self, session_id: str) -> list[Peer]:
        """Return the clients that have a session open."""
        live = self._by_id.get(session_id)
        return [] if live is None else list(live.clients)

    def get_by_agent_id(self, agent_id: str | None) -> LiveSession | None:
        """Return the session with the agent's id."""
        return self._by_agent_id.get(agent_id) if agent_id is not None else None

    def bind(self, session_id: str, agent_id: str) -> LiveSession:
        """Make two ids name one session, and return it. A new one is made if necessary."""
        live = self._by_id.get(session_id)
        if live is None:
            live = self._by_id[session_id] = LiveSession(id=session_id, agent_id=agent_id)
            live.clients.update(self._observers.pop(session_id, {}))
        if self._by_agent_id.get(live.agent_id) is live:
            del self._by_agent_id[live.agent_id]
        live.agent_id = agent_id
        if agent_id != UNKNOWN_TO_AGENT:
            self._by_agent_id[agent_id] = live
            self._abandoned.discard(agent_id)
        return live

    def is_free(self, agent_id: str, session_id: str) -> bool:
        """Return whether the agent uses this id for no other session."""
        other = self._by_agent_id.get(agent_id)
        return other is None or other.id == session_id

    def abandon(self, agent_id: str) -> None:
        """Ignore further updates under this id of the agent."""
        self._abandoned.add(agent_id)

    def is_abandoned(self, agent_id: str) -> bool:
        """Return whether updates under this id of the agent are ignored."""
        return agent_id in self._abandoned

    def is_gone(self, session_id: str | None) -> bool:
        """Return whether the clients have closed the session that the agent names."""
        live = self.get(session_id)
        return live.is_closed if live is not None else session_id in self._abandoned

    def drop(self, session_id: str) -> None:
        """Forget a session, except its observers."""
        live = self._by_id.pop(session_id, None)
        observers = {} if live is None else live.observers
        if observers:
            self._observers[session_id] = observers
        if live is not None and self._by_agent_id.get(live.agent_id) is live:
            del self._by_agent_id[live.agent_id]

    def forget_observers(self, session_id: str) -> None:
        """Forget who observed a session that was freed."""
        self._observers.pop(session_id, None)

    def stop_observing(self, client: Peer, session_id: str | None = None) -> None:
        """Forget that a client observed a session that was freed, or all of them."""
        ids = list(self._observers) if session_id is None else [session_id]
        for it in ids:
            self._observers.get(it, {}).pop(client, None)
        live = self.get(session_id)
        if live is not None and live.is_closed:
            live.clients.pop(client, None)

    def all(self) -> list[LiveSession]:
        """Return all sessions."""
        return list(self._by_id.values())

    def working(self) -> list[LiveSession]:
        """Return the open sessions that a version 2 agent works on."""
        return [live for live in self._by_id.values() if live.turn.is_working]

    def known_to_agent(self) -> list[LiveSession]:
        """Return the sessions that the agent knows with all their turns."""
        return [
            live
            for live in self._by_id.values()
            if live.memory.state is MemoryState.READY and live.handover.state is HandoverState.NONE
        ]

    def holding_prompt(self, prompt: HeldPrompt) -> LiveSession | None:
        """Return the session in which a version 1 client's prompt is held."""
        found = (live for live in self._by_id.values() if live.turn.held_prompt == prompt)
        return next(found, None)

    def is_in_transition(self, session_id: str) -> bool:
        """Return whether a flow is restoring or adopting the session."""
        live = self._by_id.get(session_id)
        return live is not None and live.memory.is_in_transition

    def agent_exited(self, at_us: int) -> None:
        """Note that the agent that knew these sessions has exited. Closed ones are dropped."""
        for live in list(self._by_id.values()):
            if live.is_closed:
                self.drop(live.id)
            live.memory.advance("agent_exited")
            live.memory.exit_us = at_us
            live.turn.agent_exited()
        self._by_agent_id.clear()
        self._abandoned.clear()
