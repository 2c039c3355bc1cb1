"""A host with an agent, and other processes whose clients attach to its session.

All processes share one store. The lines between them wait in a queue, so that a process can be
killed at any moment.
"""

import json
from typing import Any

from shared_session import SESSION, ClientModel, SharedSession

from playbook import Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.model import LeaseHolder
from rekindle.proxy.flow import ConnectToHost
from rekindle.proxy.host_connections import position
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import Step
from rekindle.runtime.query_handler import QueryHandler

Json = dict[str, Any]


class AttachedProcess(Playbook):
    """A process with one client and an agent that has no sessions."""

    is_ready = False

    def __init__(self, name: str, host: "HostedSession", version: int) -> None:
        self.name = name
        self.host = host
        self.model = ClientModel(name, version)
        super().__init__()
        self.record = host.record
        self.start()
        # Message ids come from the clock: no two processes may read the same time.
        self.now = host.now + 1_000_000 * host.count
        self.client_version = version
        self.agent_version = host.agent_version
        self.connections: dict[Peer, Connection] = {}
        self.do_agent("Fake")
        self.is_ready = True

    def start(self) -> None:
        """Start an engine with a lease holder that others can connect to."""
        super().start()
        token = f"t-{self.name}"
        self.holder = LeaseHolder(token=token, pid=1, machine="here", socket=f"/{self.name}")
        self.query_handler = QueryHandler(
            self.record,  # type: ignore[arg-type]
            self.holder,
            lambda: None,
            connect_to_host=self.connect_to_host,
        )

    def connect_to_host(self, query: ConnectToHost) -> str | None:
        """Connect to the process that the holder names."""
        host = self.host.processes.get(query.holder.socket.removeprefix("/"))
        if host is None:
            return "nothing listens there"
        self.connections[query.peer] = Connection(self, query.peer, host)
        return None

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Let the model receive a line to the client, and answer for the agent."""
        if not self.is_ready:
            return
        message = json.loads(line)
        if to == AGENT:
            if message.get("method") == "session/prompt":
                # A handover comes before the user's own block.
                self.host.show_own_prompt(message["params"]["prompt"][-1:])
            self.host.later.append(lambda: self._answer_for_agent(message))
        elif self.clients.get("c") == to:
            self.model.receive(message)

    def _answer_for_agent(self, message: Json) -> None:
        if "method" not in message or "id" not in message:
            return
        error = {"code": -32002, "message": "unknown session"}
        answer: Json = {"error": error}
        if message["method"] == "session/new":
            answer = {"result": {"sessionId": f"new-{self.name}-{message['id']}"}}
        elif message["method"] == "session/prompt":
            answer = {"result": {"stopReason": "end_turn"} if self.agent_version == 1 else {}}
        self.receive(AGENT, [json.dumps({"id": message["id"], **answer})])
        if message["method"] == "session/prompt" and self.agent_version > 1:
            self._run_turn(**message["params"])

    def _run_turn(self, sessionId: str, prompt: list[Json], **_: object) -> None:  # noqa: N803
        """Run a turn of a version 2 agent. It sends the whole prompt back."""
        self.host.count += 1
        message = {"messageId": f"u{self.host.count}", "content": prompt}
        for update in (
            {"sessionUpdate": "user_message", **message},
            {"sessionUpdate": "state_update", "state": "running"},
            {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"},
        ):
            self.receive(AGENT, [update_line(sessionId, update).decode()])

    def apply_step(self, step: Step, received: list[bytes]) -> None:
        """Apply a step, and queue the lines for hosts and for processes that are attached here."""
        to_clients, step.to_clients = step.to_clients, {}
        own = self.clients.get("c")
        if own is not None and own in to_clients:
            step.to_clients[own] = to_clients.pop(own)
        to_hosts, step.to_hosts = step.to_hosts, {}
        left, step.left_hosts = step.left_hosts, []
        positions, step.positions = step.positions, {}
        queries, step.queries = step.queries, []
        super().apply_step(step, received)
        self.host.send_to_attached(self, to_clients, positions)
        for peer, lines in to_hosts.items():
            self.connections[peer].send(lines)
        for peer in left:
            self.connections.pop(peer).close()
        step.queries = queries
        for posed in queries:
            answer = self.query_handler.answer(posed.query)
            self.apply_step(self.engine.answer(posed.flow, answer, self.now), received)


class Connection:
    """A connection of a process to a host. Lines to the process wait until they are delivered."""

    def __init__(self, process: AttachedProcess, peer: Peer, host: Playbook) -> None:
        self.process = process
        self.peer = peer
        self.host = host
        self.client = host.engine.add_client(is_local_process=True)
        self.lines: list[bytes] = []
        process.host.connections.append(self)

    def send(self, lines: list[bytes]) -> None:
        """Let the host receive lines of the process, after the present event."""
        self.process.host.later.append(lambda: self._receive(lines))

    def _receive(self, lines: list[bytes]) -> None:
        host = self.host
        if self not in self.process.host.connections:
            return
        host.now += 1
        step = host.engine.receive(self.client, b"\n".join(lines), host.now)
        host.run_step(step, lines)

    def deliver(self, count: int | None = None) -> None:
        """Let the process receive the first lines that wait: all, or `count`."""
        lines, self.lines = self.lines[:count], []
        if lines:
            process = self.process
            process.now += 1
            step = process.engine.receive_from_host(self.peer, b"\n".join(lines), process.now)
            process.run_step(step, lines)

    def end(self) -> None:
        """Report the end of the host to the process."""
        process = self.process
        process.now += 1
        process.run_step(process.engine.host_closed(self.peer, process.now), [])

    def close(self) -> None:
        """Let the host notice that the process has disconnected."""
        self.process.host.connections.remove(self)
        self.process.host.later.append(self._leave)

    def _leave(self) -> None:
        host = self.host
        host.now += 1
        host.run_step(host.engine.remove_client(self.client, host.now), [])


class HostedSession(SharedSession):
    """The host of the session `s`, and the processes that attach to it."""

    def __init__(self, agent: int) -> None:
        self.processes: dict[str, Playbook] = {}
        self.connections: list[Connection] = []
        self.later: list[Any] = []
        self.is_held = False
        """Whether no line is delivered now."""
        super().__init__(agent)
        self.processes["host"] = self
        self.is_host_alive = True

    def start(self) -> None:
        """Start an engine whose lease names a socket."""
        super().start()
        self.holder = LeaseHolder(token="t-host", pid=1, machine="here", socket="/host")  # noqa: S106
        self.query_handler = QueryHandler(
            self.record,  # type: ignore[arg-type]
            self.holder,
            lambda: None,
        )

    def apply_step(self, step: Step, received: list[bytes]) -> None:
        """Apply a step, and queue the lines for attached processes."""
        local = set(self.clients.values())
        others = {it: step.to_clients.pop(it) for it in list(step.to_clients) if it not in local}
        positions, step.positions = step.positions, {}
        queries, step.queries = step.queries, []
        super().apply_step(step, received)
        self.send_to_attached(self, others, positions)
        for posed in queries:
            answer = self.query_handler.answer(posed.query)
            self.apply_step(self.engine.answer(posed.flow, answer, self.now), received)

    def send_to_attached(
        self,
        host: Playbook,
        to_clients: dict[Peer, list[bytes]],
        positions: dict[Peer, tuple[str, ...]],
    ) -> None:
        """Queue lines of a host for attached processes, as a driver writes them."""
        for peer, parts in to_clients.items():
            found = [it for it in self.connections if it.host is host and it.client == peer]
            lines = [line for part in parts for line in part.split(b"\n")]
            for connection in found:
                if positions.get(peer):
                    seqs = {it: self.record.store.last_seq(it) for it in positions[peer]}
                    connection.lines.append(position(seqs, lines=len(lines)))
                connection.lines += lines

    def settle(self) -> None:
        """Deliver all lines between the processes."""
        while not self.is_held and (self.later or any(it.lines for it in self.connections)):
            later, self.later = self.later, []
            for act in later:
                act()
            for connection in list(self.connections):
                connection.deliver()

    def add_process(self, version: int) -> str:
        """Start a process whose client opens the session."""
        self.count += 1
        name = f"p{self.count}"
        process = AttachedProcess(name, self, version)
        self.processes[name] = process
        self.models[name] = process.model
        return name

    def from_client(self, name: str, method: str, **params: object) -> None:
        """Let a client send a request about the session to its own process."""
        process = self.processes.get(name)
        if process is None:
            super().from_client(name, method, **params)
            return
        model = self.models[name]
        model.last_id += 1
        model.requests[model.last_id] = method
        message = {"id": model.last_id, "method": method}
        message["params"] = {"sessionId": SESSION, **params}
        process.receive(process.clients["c"], [json.dumps(message)])
        self.settle()

    def send_line(self, name: str, line: str) -> None:
        """Let a client send a line to its own process."""
        process = self.processes.get(name, self)
        process.receive(process.clients["c" if process is not self else name], [line])
        self.settle()

    def show_own_prompt(self, blocks: list[Json]) -> None:
        """Let a version 1 client show its own prompt behind the lines that it was sent before."""
        name = blocks[0]["text"].split()[0]
        for connection in self.connections:
            if connection.process.name == name:
                connection.deliver()
        super().show_own_prompt(blocks)

    def prompt_in_vain(self, name: str) -> None:
        """Let a client send a prompt that does not reach the host."""
        self.is_held = True
        self.prompt(name)
        self.is_held = False

    def kill_host(self, cuts: list[int]) -> None:
        """Kill the host and its agent while some lines have not been delivered."""
        self.is_host_alive = False
        self.later.clear()
        ended = [it for it in self.connections if it.host is self]
        self.connections = [it for it in self.connections if it.host is not self]
        del self.processes["host"]
        for name in [it for it in self.models if it not in self.processes]:
            del self.models[name]
        self.record.store.release_leases(self.holder)
        for number, connection in enumerate(ended):
            connection.deliver(cuts[number % len(cuts)])
        for connection in ended:
            connection.end()
        self.settle()
