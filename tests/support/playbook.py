"""Play a conversation through the engine, and write down the steps of the engine.

A script has the messages of both peers, and the effects of each:

    -- a comment
    c> LINE         the client sends a line        a> LINE     the agent sends a line
    c+ LINE         … in the same read as the line before      a+ LINE
    c2> LINE        another client sends a line    <c2 LINE    a line to that client
    wait SECONDS    time passes
    silent          the agent closes its output
    ended CODE|SIGNAL STDERR TAIL    the agent exits

    meets NUMBERS   the requirements that the script tests
    with FLAGS      the options of the user: strict, no-handover, takeover, agents, lasting,
                    hooks, which shows the events of turns
    speaks CLIENT AGENT      the protocol versions of client and agent
    agent NAME METHODS       the agent has answered `initialize`, and offers these methods
    open ID [MODE]           a session was created in /p
    said ID PROMPT | ANSWER  the session has had this turn, and the agent has saved it
    unsaved ID PROMPT | ANSWER           … and the agent may have lost it
    saved ID                 the agent has saved all turns of the session
    imported ID TOOL PROMPT | ANSWER …   a session of another tool was imported
    helper ID TOOL PROMPT | ANSWER       … a session of a sub-agent of c1
    homeless ID TOOL PROMPT | ANSWER     … a session whose folder is unknown
    titled ID TITLE          the user has named the session
    held ID                  another process holds the lease
    hosted ID [PID]          … and other processes can connect to it
    unhosted ID PID          … and has ended
    recorded ID KIND LINE    another process has recorded this entry
    freed ID                 … and has released it
    taken ID                 another process has taken the session over: effects are shown
    deleted ID               the session was deleted by another process
    archived ID              … was archived               unarchived ID   … was unarchived
    erased ID                its record is gone
    broken REASON            the agent cannot be started again, for this reason
    lost                     the store fails              found    it works again
    killed          all processes are killed, and Rekindle is started again
    h> LINE         the host of a session sends a line         <h LINE     a line to the host
    hangs [HOST]    the connection to a host ends
    unreachable     no host can be connected to any more
    left [CLIENT]   a client closes its connection: effects are shown
    comes CLIENT VERSION [CAPABILITIES]    another client connects and sends `initialize`
    joins CLIENT VERSION [positions]       … which is another process of the user
    attaches CLIENT                        … and has not sent `initialize` yet
    works           show whether the engine has work that no client waits for
    expires         no client has come for too long: effects are shown

    #  …            a recorded change, and `# sync` where it must reach the disk
    *  …            another effect
    <a LINE         a line to the agent            <c LINE     a line to the client
    !  …            a report to the user

Times are 1, 2, 3 … in the order of reads. A recorded line is shown only if it differs from the
received line. The effects of the commands from `with` to `killed` are not shown.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rekindle.errors import LeaseLost, StoreUnavailable
from rekindle.importers.base import EntryCounts
from rekindle.importers.entry_builder import EntryBuilder
from rekindle.model import (
    AgentArchived,
    AgentIdentity,
    AgentObserved,
    AgentSaved,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Imported,
    Kind,
    LeaseHolder,
    Opened,
    Origin,
    Side,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.proxy.connection_state import AgentChoice, EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.proxy.flow import ConnectToHost, ExtendSession, QueryFailed, StartAgent, WriteChanges
from rekindle.proxy.peers import AGENT, NO_CLIENT, Peer
from rekindle.proxy.step import AgentExit, Step, TurnEvent
from rekindle.runtime.query_handler import QueryHandler
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.transfer.batch_writer import entry_batches

T = TypeVar("T")

CLIENT = Peer(1)
PEERS = {"c": CLIENT, "a": AGENT}
AGENTS = tuple(
    AgentChoice(name=name, title=name.title(), command=(name, "acp"), recorded_command=(name,))
    for name in ("first", "second")
)
OTHER = LeaseHolder(token="other", pid=7, machine="elsewhere")  # noqa: S106 - no password


class Record:
    """A stand-in for the recorder: a store that can fail."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.is_lost = False

    def ask(self, question: Callable[[Store], T]) -> T:
        """Run a query on the store."""
        if self.is_lost:
            raise StoreUnavailable("the store is gone")
        return question(self.store)


class Playbook:
    """Plays scripts over one store."""

    def __init__(self) -> None:
        self.record = Record()
        self.flags: set[str] = set()
        self.now = 0
        self.starts = 0
        self.asked = 1000
        self.client_version = self.agent_version = 1
        self.client_capabilities: dict[str, Any] = {}
        self.wake_us: int | None = None
        self.out: list[str] = []
        self.clients: dict[str, Peer] = {}
        self.hosts: dict[str, Peer] = {}
        """The hosts that the engine has connected to: h, h2, h3, …"""
        self.is_unreachable = False
        self.reports: list[str] = []
        self.start()

    def start(self) -> None:
        """Start with a new engine."""
        self.starts += 1
        settings = EngineSettings(
            command=("agent", "acp"),
            version="9",
            is_strict="strict" in self.flags,
            may_hand_over="no-handover" not in self.flags,
            may_take_over="takeover" in self.flags,
            agents=AGENTS if "agents" in self.flags else (),
            agent_name="first" if "agents" in self.flags else "",
            outlives_clients="lasting" in self.flags,
            has_hooks="hooks" in self.flags,
        )
        self.engine = Engine(settings)
        self.clients = {"c": self.engine.add_client()}
        self.holder = LeaseHolder(token=f"t{self.starts}", pid=self.starts, machine="here")
        self.query_handler = QueryHandler(
            self.record,  # type: ignore[arg-type]
            self.holder,
            self.start_agent,
            self.switch_agent,
            connect_to_host=self.connect_to_host,
            describe=lambda: {"pid": self.holder.pid},
        )
        self.hosts = {}
        self.start_error: str | None = None

    def start_agent(self) -> str | None:
        """Answer the engine's request to start the agent again; return the error, if any."""
        return self.start_error

    def switch_agent(self, command: tuple[str, ...]) -> str | None:
        """Answer the engine's request to switch the agent; return the error, if any."""
        if self.start_error is None:
            self.out.append(f"*  ends the agent; the next one is {' '.join(command)}")
        return self.start_error

    def connect_to_host(self, query: ConnectToHost) -> str | None:
        """Answer the engine's request to connect to a host; return the error, if any."""
        if self.is_unreachable:
            return "nothing listens there"
        self.hosts["h" if not self.hosts else f"h{len(self.hosts) + 1}"] = query.peer
        self.out.append(f"*  connects to process {query.holder.pid}")
        return None

    # -- the script ---------------------------------------------------------------------

    def play(self, script: str) -> str:
        """Return the script with the effects that the engine has now."""
        read: tuple[str, list[str]] | None = None
        for line in [*script.splitlines(), ""]:
            mark, _, rest = line.partition(" ")
            if read and mark == f"{read[0]}+":
                read[1].append(rest)
                self.out.append(line)
                continue
            if read:
                self.receive(self.peer(read[0]), read[1])
                read = None
            if mark.endswith(">") and mark[:-1] in {"a", *self.clients, *self.hosts}:
                read = (mark[:-1], [rest])
                self.out.append(line)
            elif mark in {"#", "*", "!"} or mark.startswith("<"):
                continue
            else:
                self.out.append(line)
                if line and mark != "--":
                    getattr(self, f"do_{mark}")(rest)
        return "\n".join(self.out[:-1]) + "\n"

    def peer(self, name: str) -> Peer:
        """Return the peer with a name of the script."""
        return AGENT if name == "a" else {**self.clients, **self.hosts}[name]

    def do_comes(self, words: str) -> None:
        name, version, *capabilities = words.split()
        self.clients[name] = self.engine.add_client()
        params: Any = {"protocolVersion": int(version)}
        if capabilities:
            params["clientCapabilities"] = json.loads("".join(capabilities))
        kept = len(self.out)
        request = {"id": 0, "method": "initialize", "params": params}
        self.receive(self.clients[name], [json.dumps(request)])
        del self.out[kept:]

    def do_joins(self, words: str) -> None:
        name, version, *wishes = words.split()
        self.clients[name] = self.engine.add_client(is_local_process=True)
        meta = {"rekindle": dict.fromkeys(wishes, True)}
        params = {"protocolVersion": int(version), "clientInfo": {"name": name}, "_meta": meta}
        kept = len(self.out)
        request = {"id": 0, "method": "initialize", "params": params}
        self.receive(self.clients[name], [json.dumps(request)])
        del self.out[kept:]

    def do_attaches(self, name: str) -> None:
        self.clients[name] = self.engine.add_client(is_local_process=True)

    def do_with(self, flags: str) -> None:
        self.flags |= set(flags.split())
        self.start()

    def do_meets(self, _: str) -> None:
        """Ignore the numbers of requirements: `tests/test_requirements.py` reads them."""

    def do_speaks(self, versions: str) -> None:
        self.client_version, self.agent_version = map(int, versions.split())

    def initialize(self, words: str) -> tuple[Any, Any]:
        """Return the params and the result of `initialize`."""
        name, *offered = words.split()
        info = {"name": name, "version": "1"}
        if self.client_version == 1:
            params: Any = {"protocolVersion": 1}
            if self.client_capabilities:
                params["clientCapabilities"] = self.client_capabilities
        else:
            params = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
        if self.agent_version == 1:
            return params, self.initialize_result_v1(words)
        session: Any = {it: {} for it in offered}
        return params, {"protocolVersion": 2, "info": info, "capabilities": {"session": session}}

    def do_agent(self, words: str) -> None:
        self.exchange("initialize", *self.initialize(words))

    def initialize_result_v1(self, words: str) -> Any:  # noqa: ANN401 - JSON
        """Return the result of `initialize` of a version 1 agent."""
        name, *offered = words.split()
        session = {it: {} for it in offered if it not in {"load", "embedded"}}
        capabilities = {
            "loadSession": "load" in offered,
            "sessionCapabilities": session,
            "promptCapabilities": {"embeddedContext": "embedded" in offered},
        }
        result: Any = {"protocolVersion": 1, "agentCapabilities": capabilities}
        if name != "-":
            result["agentInfo"] = {"name": name, "version": "1"}
        return result

    def do_open(self, words: str) -> None:
        session_id, *mode = words.split()
        modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]}
        result = {"sessionId": session_id} | ({"modes": modes} if mode else {})
        self.exchange("session/new", {"cwd": "/p", "mcpServers": []}, result)

    def do_said(self, words: str) -> None:
        self.do_unsaved(words)
        self.do_saved(words.split(" ", 1)[0])

    def do_saved(self, session_id: str) -> None:
        self.record.store.write([AgentSaved(session_id=session_id, at_us=self.now)])

    def do_unsaved(self, words: str) -> None:
        session_id, turn = words.split(" ", 1)
        prompt, answer = turn.split(" | ")
        content = {"type": "text", "text": answer}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        said = {"method": "session/update", "params": {"sessionId": session_id, "update": update}}
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": prompt}]}
        self.exchange("session/prompt", params, {"stopReason": "end_turn"}, said)

    def do_imported(self, words: str, cwd: str | None = "/p", parent_id: str | None = None) -> None:
        session_id, tool, turns = words.split(" ", 2)
        texts = turns.split(" | ")
        builder = EntryBuilder(session_id, counts := EntryCounts(), self.now)
        for number, (prompt, answer) in enumerate(zip(texts[::2], texts[1::2], strict=True), 1):
            builder.add_prompt(f"p{number}", [{"type": "text", "text": prompt}])
            builder.add_agent_text(answer, f"m{number}")
            builder.end_turn()
        agent = AgentIdentity(name=tool, version="1")
        origin = Origin(tool=tool, path="/f", entries=counts.entries)
        self.record.store.write([
            Opened(
                session_id=session_id, at_us=self.now, agent=agent, cwd=cwd, parent_id=parent_id
            ),
            *entry_batches(session_id, builder.take_entries()),
            Counted(session_id=session_id, at_us=self.now, turns=1, messages=2),
            Imported(session_id=session_id, at_us=self.now, origin=origin),
        ])  # fmt: skip

    def do_helper(self, words: str) -> None:
        self.do_imported(words, None, "c1")

    def do_homeless(self, words: str) -> None:
        self.do_imported(words, None)

    def do_titled(self, words: str) -> None:
        session_id, title = words.split(" ", 1)
        titled = Titled(session_id=session_id, at_us=0, source=TitleSource.USER, title=title)
        self.record.store.write([titled])

    def do_held(self, session_id: str) -> None:
        self.record.store.acquire_lease(session_id, OTHER, takeover=True)

    def do_hosted(self, words: str) -> None:
        session_id, *pid = words.split()
        number = int(pid[0]) if pid else 7
        holder = LeaseHolder(token=f"p{number}", pid=number, machine="here", socket=f"/{number}")
        self.record.store.acquire_lease(session_id, holder, takeover=True)

    def do_unhosted(self, words: str) -> None:
        session_id, pid = words.split()
        holder = LeaseHolder(token=f"p{pid}", pid=int(pid), machine="here", socket=f"/{pid}")
        self.record.store.release_leases(holder, session_id)

    def do_recorded(self, words: str) -> None:
        session_id, kind, line = words.split(" ", 2)
        batch = EntryBatch(
            session_id=session_id,
            side=Side.CLIENT if kind == Kind.PROMPT else Side.AGENT,
            kind=Kind(kind),
            at_us=self.now,
            data=line.encode(),
            protocol=self.agent_version,
        )
        self.record.store.write([batch])

    def do_hangs(self, name: str) -> None:
        self.now += 1
        self.run_step(self.engine.host_closed(self.hosts[name or "h"], self.now), [])

    def do_unreachable(self, _: str) -> None:
        self.is_unreachable = True

    def do_taken(self, session_id: str) -> None:
        self.now += 1
        self.record.store.second().acquire_lease(session_id, OTHER, takeover=True)
        self.run_step(self.engine.lease_lost(session_id, OTHER, self.now), [])

    def do_freed(self, session_id: str) -> None:
        self.record.store.release_leases(OTHER, session_id)

    def do_deleted(self, session_id: str) -> None:
        self.record.store.write([Deleted(session_id=session_id, at_us=self.now)])

    def do_archived(self, session_id: str) -> None:
        self.record.store.write([Archived(session_id=session_id, at_us=self.now)])

    def do_unarchived(self, session_id: str) -> None:
        change = Archived(session_id=session_id, at_us=self.now, is_archived=False)
        self.record.store.write([change])

    def do_erased(self, session_id: str) -> None:
        self.record.store.erase(session_id)

    def do_lost(self, _: str) -> None:
        self.record.is_lost = True

    def do_found(self, _: str) -> None:
        self.record.is_lost = False

    def do_broken(self, why: str) -> None:
        self.start_error = why

    def do_killed(self, _: str) -> None:
        self.record.store.release_leases(self.holder)
        self.start()

    def do_works(self, _: str) -> None:
        does = "has work" if self.engine.has_work_without(NO_CLIENT) else "has no work"
        self.out.append(f"*  {does}")

    def do_expires(self, _: str) -> None:
        self.now += 1
        self.apply_step(self.engine.abandon_turns(self.now), [])

    def do_left(self, name: str) -> None:
        self.now += 1
        name = name or "c"
        self.run_step(self.engine.remove_client(self.clients.pop(name), self.now), [])
        if name == "c":
            self.clients["c"] = self.engine.add_client()

    def do_wait(self, seconds: str) -> None:
        self.now += int(float(seconds) * 1e6)
        self.run_step(self.engine.tick(self.now), [])

    def do_silent(self, _: str) -> None:
        self.engine.agent_closed_output()

    def do_ended(self, words: str) -> None:
        how, _, last_words = words.partition(" ")
        self.now += 1
        is_signal = how.startswith("SIG")
        ended = AgentExit(
            exit_code=None if is_signal else int(how),
            signal=how if is_signal else None,
            stderr_tail=tuple(last_words.split("|")) if last_words else (),
        )
        self.run_step(self.engine.agent_exited(ended, self.now), [])

    # -- effects ---------------------------------------------------------------

    def exchange(self, method: str, params: object, result: object, *meanwhile: object) -> None:
        """Let the client send a request and the agent respond, without writing it down."""
        self.asked += 1
        kept = len(self.out)
        request = {"id": self.asked, "method": method, "params": params}
        self.receive(CLIENT, [json.dumps(request)])
        for message in (*meanwhile, {"id": self.asked, "result": result}):
            self.receive(AGENT, [json.dumps(message)])
        del self.out[kept:]

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Let the engine receive the lines of one read."""
        self.now += 1
        received = [line.encode() for line in lines]
        peer = self.clients["c"] if peer == CLIENT else peer
        receive = self.engine.receive
        if peer in self.hosts.values():
            receive = self.engine.receive_from_host
        self.run_step(receive(peer, b"\n".join(received), self.now), received)

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Do nothing. A subclass can look at each line that the engine sends."""

    def run_step(self, step: Step, received: list[bytes]) -> None:
        """Apply a step, and write down its effects."""
        self.apply_step(step, received)
        if self.wake_us is not None:
            self.out.append(f"*  waits {(self.wake_us - self.now) / 1e6:g} s at most")

    def apply_step(self, step: Step, received: list[bytes]) -> None:
        """Write down the effects of a step, then of the steps that its queries lead to."""
        if not self.record.is_lost:
            check_recognisable(step.changes)
            self.write(step.changes)
        lines = [line for change in step.changes for line in describe_change(change, received)]
        self.out += [f"#  {line}" for line in lines]
        if step.sync:
            self.out.append("#  sync")
        assert set(step.to_clients) <= set(self.clients.values())
        to_clients = [(it, step.to_clients.get(peer, [])) for it, peer in self.clients.items()]
        for name, peer in self.clients.items():
            if step.positions.get(peer):
                self.out.append(f"*  {name} gets the position in {' '.join(step.positions[peer])}")
        for name, sent in (("a", step.to_agent), *to_clients):
            for line in (line for lines in sent for line in lines.split(b"\n")):
                self.out.append(f"<{name} {line.decode()}")
                self.on_sent(self.peer(name), line)
        names = {peer: name for name, peer in self.hosts.items()}
        for peer, lines in step.to_hosts.items():
            self.out += [f"<{names[peer]} {line.decode()}" for line in lines]
        self.out += [f"*  disconnects from {names[peer]}" for peer in step.left_hosts]
        self.out += [f"!  {it.text}" + f": {it.quote}" * bool(it.quote) for it in step.reports]
        self.reports += [it.text for it in step.reports]
        self.out += [f"*  {describe_event(event)}" for event in step.events]
        self.wake_us = step.wake_us
        for posed in step.queries:
            if isinstance(posed.query, StartAgent):
                self.out.append("*  the agent is started again")
            answer = self.query_handler.answer(posed.query)
            self.describe_written(posed.query, answer, received)
            self.apply_step(self.engine.answer(posed.flow, answer, self.now), received)

    def write(self, changes: Sequence[Change]) -> None:
        """Write changes as the recorder does."""
        store = self.record.store
        try:
            store.write(changes)
        except LeaseLost as lost:
            store.write(store.branch_changes(lost, changes))

    def describe_written(self, query: object, answer: object, received: list[bytes]) -> None:
        """Write down the changes that a query has written."""
        changes: list[Change] = []
        if isinstance(query, ExtendSession) and answer:
            changes = query.changes
        if isinstance(query, WriteChanges) and not isinstance(answer, QueryFailed):
            changes = query.changes
        lines = [it for change in changes for it in describe_change(change, received)]
        self.out += [f"#  {line}" for line in lines]


def describe_event(event: TurnEvent) -> str:
    """Return the line that describes an event in a turn."""
    question = f" ({event.question})" if event.question else ""
    return f"{event.session_id} {event.kind}: {event.reason}{question}, clients: {event.clients}"


def describe_change(change: Change, received: list[bytes]) -> list[str]:
    """Return the lines that describe a change."""
    match change:
        case EntryBatch():
            head = f"{change.session_id} {change.side} {change.kind}"
            head += f" v{change.protocol}" if change.protocol != 1 else ""
            return [
                head if line in received else f"{head} {line.decode()}" for line in change.lines
            ]
        case Opened():
            fields = {
                "cwd": change.cwd,
                "directories": change.directories or None,
                "parent": change.parent_id,
                "agent": change.agent and change.agent.name,
                "version": change.agent and change.agent.version,
                "command": change.agent and " ".join(change.agent.command),
                "as": change.agent_session_id,
            }
            words = [f"{name}={value}" for name, value in fields.items() if value is not None]
            return [" ".join([change.session_id, "opened", *words])]
        case Titled():
            return [f"{change.session_id} titled by {change.source}: {change.title}"]
        case Counted():
            return [f"{change.session_id} +{change.turns} turns, +{change.messages} messages"]
        case Forked():
            return [f"{change.session_id} forked from {change.parent_id} at {change.until_seq}"]
        case _:
            return [describe_rare_change(change)]


def describe_rare_change(change: Change) -> str:
    """Return the line that describes a change of a kind that is seldom recorded."""
    match change:
        case Deleted():
            return f"{change.session_id} deleted"
        case Archived() | AgentArchived():
            how = "archived" if change.is_archived else "unarchived"
            by = " at the agent" if isinstance(change, AgentArchived) else ""
            return f"{change.session_id} {how}{by}"
        case AgentSaved():
            return f"{change.session_id} saved by the agent"
        case Forgotten():
            return f"{change.session_id} forgotten" + ", hidden" * change.hides_agents
        case AgentObserved():
            return f"agent {change.release}: {change.trait}"
        case Truncated():
            return f"{change.session_id} truncated after {change.until_seq}"
        case _:
            raise ValueError(change)


def play_file(path: Path, *, update: bool) -> tuple[str, str]:
    """Return the text of a script, and its present result. With `update`, rewrite the file."""
    script = path.read_text(encoding="utf-8")
    played = Playbook().play(script)
    if update:
        path.write_text(played, encoding="utf-8")
        script = played
    return script, played


def check_recognisable(changes: Sequence[Change]) -> None:
    """Check that a write whose result is unknown is recognised, as `Store.write` requires it."""
    if any(isinstance(change, Counted) for change in changes):
        assert any(isinstance(change, EntryBatch | Forked) for change in changes)
