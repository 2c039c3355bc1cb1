"""Plays a conversation through the relay, and writes down what the relay makes of it.

A script is what both sides say, and what came of it:

    -- a remark
    c> LINE         the client sends a line        a> LINE     the agent does
    c+ LINE         … in the same read as the line before      a+ LINE
    wait SECONDS    time passes
    silent          the agent closes its output
    ended CODE|SIGNAL LAST WORDS     the agent ends

    meets NUMBERS   the requirements that the script is about
    with FLAGS      strict, no-handover, takeover: what the user asked for
    speaks CLIENT AGENT      the versions of the protocol that the two speak
    agent NAME METHODS       the agent has answered `initialize`, and offers these
    open ID [MODE]           a session was made in /p
    said ID PROMPT | ANSWER  a turn was had in it
    imported ID TOOL PROMPT | ANSWER     a session of another tool's was imported
    helper ID TOOL PROMPT | ANSWER       … one of a sub-agent of c1
    homeless ID TOOL PROMPT | ANSWER     … one whose folder nobody knows
    titled ID TITLE          the user has named it
    held ID                  another process drives it
    freed ID                 … and has let it go
    deleted ID               it was deleted elsewhere
    erased ID                its record is gone
    broken WORDS             the agent will not start again, for that reason
    lost                     the store does not work      found    it works again
    killed          everything is killed, and Rekindle is started again

    #  …            what is recorded, and `# sync` where it must reach the disk
    *  …            what is done besides
    <a LINE         what the agent gets            <c LINE     what the client gets
    !  …            what the user is told

Times are 1, 2, 3 … in the order of reads. A recorded line is written out only where it
is not the line that was received. What is under `with` to `killed` is not written down.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rekindle.errors import StoreUnavailable
from rekindle.importers.base import EntryCounts
from rekindle.importers.entry_builder import EntryBuilder
from rekindle.model import (
    AgentIdentity,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forked,
    Imported,
    LeaseHolder,
    Opened,
    Origin,
    Titled,
    TitleSource,
)
from rekindle.proxy.connection_state import EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.proxy.flow import StartAgent
from rekindle.proxy.step import AGENT, AgentExit, Peer, Step
from rekindle.runtime.query_handler import QueryHandler
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.transfer.batch_writer import entry_batches

T = TypeVar("T")

CLIENT = Peer(1)
PEERS = {"c": CLIENT, "a": AGENT}
OTHER = LeaseHolder(token="other", pid=7, host="elsewhere")  # noqa: S106 - no password


class Record:
    """The recorder's part: a store that can be lost."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.is_lost = False

    def ask(self, question: Callable[[Store], T]) -> T:
        """Ask the store something."""
        if self.is_lost:
            raise StoreUnavailable("the store is gone")
        return question(self.store)


class Playbook:
    """Conversations over one store."""

    def __init__(self) -> None:
        self.record = Record()
        self.flags: set[str] = set()
        self.now = 0
        self.starts = 0
        self.asked = 1000
        self.client_version = self.agent_version = 1
        self.wake_us: int | None = None
        self.out: list[str] = []
        self.told_user: list[str] = []
        self.start()

    def start(self) -> None:
        """Begin with a relay that knows nothing."""
        self.starts += 1
        settings = EngineSettings(
            command=("agent", "acp"),
            version="9",
            is_strict="strict" in self.flags,
            may_hand_over="no-handover" not in self.flags,
            may_take_over="takeover" in self.flags,
        )
        self.relay = Engine(settings)
        self.holder = LeaseHolder(token=f"t{self.starts}", pid=self.starts, host="here")
        self.answers = QueryHandler(self.record, self.holder, self.start_agent)  # type: ignore[arg-type]
        self.wont_start: str | None = None

    def start_agent(self) -> str | None:
        """Let the agent be started again."""
        return self.wont_start

    # -- the script ---------------------------------------------------------------------

    def play(self, script: str) -> str:
        """Return the script with the relay's part as it is now."""
        read: tuple[Peer, list[str]] | None = None
        for line in [*script.splitlines(), ""]:
            mark, _, rest = line.partition(" ")
            if read and mark == ("c+" if read[0] == CLIENT else "a+"):
                read[1].append(rest)
                self.out.append(line)
                continue
            if read:
                self.receive(*read)
                read = None
            if mark in {"c>", "a>"}:
                read = (PEERS[mark[0]], [rest])
                self.out.append(line)
            elif mark in {"#", "*", "<a", "<c", "!"}:
                continue
            else:
                self.out.append(line)
                if line and mark != "--":
                    getattr(self, f"do_{mark}")(rest)
        return "\n".join(self.out[:-1]) + "\n"

    def do_with(self, flags: str) -> None:
        self.flags |= set(flags.split())
        self.start()

    def do_meets(self, _: str) -> None:
        """Name the requirements that this script is about."""

    def do_speaks(self, versions: str) -> None:
        self.client_version, self.agent_version = map(int, versions.split())

    def greet(self, words: str) -> tuple[Any, Any]:
        """Return how a client and an agent greet each other."""
        name, *offered = words.split()
        info = {"name": name, "version": "1"}
        if self.client_version == 1:
            params: Any = {"protocolVersion": 1}
        else:
            params = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
        if self.agent_version == 1:
            return params, self.greeting_of_v1(words)
        session: Any = {it: {} for it in offered}
        return params, {"protocolVersion": 2, "info": info, "capabilities": {"session": session}}

    def do_agent(self, words: str) -> None:
        self.exchange("initialize", *self.greet(words))

    def greeting_of_v1(self, words: str) -> Any:  # noqa: ANN401 - JSON
        """Return a version 1 agent's answer to `initialize`."""
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
        session_id, turn = words.split(" ", 1)
        prompt, answer = turn.split(" | ")
        content = {"type": "text", "text": answer}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        said = {"method": "session/update", "params": {"sessionId": session_id, "update": update}}
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": prompt}]}
        self.exchange("session/prompt", params, {"stopReason": "end_turn"}, said)

    def do_imported(self, words: str, cwd: str | None = "/p", parent_id: str | None = None) -> None:
        session_id, tool, turn = words.split(" ", 2)
        prompt, answer = turn.split(" | ")
        builder = EntryBuilder(session_id, counts := EntryCounts(), self.now)
        builder.add_prompt("p1", [{"type": "text", "text": prompt}])
        builder.add_agent_text(answer, "m1")
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
        self.record.store.claim(session_id, OTHER, takeover=True)

    def do_freed(self, session_id: str) -> None:
        self.record.store.release(OTHER, session_id)

    def do_deleted(self, session_id: str) -> None:
        self.record.store.write([Deleted(session_id=session_id, at_us=self.now)])

    def do_erased(self, session_id: str) -> None:
        self.record.store.erase(session_id)

    def do_lost(self, _: str) -> None:
        self.record.is_lost = True

    def do_found(self, _: str) -> None:
        self.record.is_lost = False

    def do_broken(self, why: str) -> None:
        self.wont_start = why

    def do_killed(self, _: str) -> None:
        self.record.store.release(self.holder)
        self.start()

    def do_wait(self, seconds: str) -> None:
        self.now += int(float(seconds) * 1e6)
        self.write_down(self.relay.tick(self.now), [])

    def do_silent(self, _: str) -> None:
        self.relay.agent_closed_output()

    def do_ended(self, words: str) -> None:
        how, _, last_words = words.partition(" ")
        self.now += 1
        is_signal = how.startswith("SIG")
        ended = AgentExit(
            exit_code=None if is_signal else int(how),
            signal=how if is_signal else None,
            stderr_tail=tuple(last_words.split("|")) if last_words else (),
        )
        self.write_down(self.relay.agent_exited(ended, self.now), [])

    # -- what comes of it ---------------------------------------------------------------

    def exchange(self, method: str, params: object, result: object, *meanwhile: object) -> None:
        """Let the client ask and the agent answer, without writing it down."""
        self.asked += 1
        kept = len(self.out)
        request = {"id": self.asked, "method": method, "params": params}
        self.receive(CLIENT, [json.dumps(request)])
        for message in (*meanwhile, {"id": self.asked, "result": result}):
            self.receive(AGENT, [json.dumps(message)])
        del self.out[kept:]

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Let the relay receive what one read brings."""
        self.now += 1
        received = [line.encode() for line in lines]
        step = self.relay.receive(peer, b"\n".join(received), self.now)
        self.write_down(step, received)

    def sent(self, to: Peer, line: bytes) -> None:
        """Take note of a line that was sent."""

    def write_down(self, step: Step, received: list[bytes]) -> None:
        """Write a step down, and carry it out."""
        self.carry_out(step, received)
        if self.wake_us is not None:
            self.out.append(f"*  waits {(self.wake_us - self.now) / 1e6:g} s at most")

    def carry_out(self, step: Step, received: list[bytes]) -> None:
        """Write down what a step says, and what its questions lead to, one after the other."""
        if not self.record.is_lost:
            self.record.store.write(step.changes)
        said = [words for change in step.changes for words in say(change, received)]
        self.out += [f"#  {words}" for words in said]
        if step.sync:
            self.out.append("#  sync")
        for mark, sent in (("<a", step.to_agent), ("<c", step.to_clients.get(CLIENT, []))):
            for line in (line for lines in sent for line in lines.split(b"\n")):
                self.out.append(f"{mark} {line.decode()}")
                self.sent(PEERS[mark[1]], line)
        self.out += [f"!  {it.text}" + f": {it.quote}" * bool(it.quote) for it in step.reports]
        self.told_user += [it.text for it in step.reports]
        self.wake_us = step.wake_us
        for posed in step.queries:
            if isinstance(posed.query, StartAgent):
                self.out.append("*  the agent is started again")
            answer = self.answers.answer(posed.query)
            self.carry_out(self.relay.answer(posed.flow, answer, self.now), received)


def say(change: Change, received: list[bytes]) -> list[str]:
    """Put a change into words."""
    match change:
        case EntryBatch():
            head = f"{change.session_id} {change.side} {change.kind}"
            head += f" v{change.protocol}" if change.protocol != 1 else ""
            return [
                head if line in received else f"{head} {line.decode()}" for line in change.lines
            ]
        case Opened():
            told = {
                "cwd": change.cwd,
                "directories": change.directories or None,
                "parent": change.parent_id,
                "agent": change.agent and change.agent.name,
                "version": change.agent and change.agent.version,
                "command": change.agent and " ".join(change.agent.command),
                "as": change.agent_session_id,
            }
            words = [f"{name}={value}" for name, value in told.items() if value is not None]
            return [" ".join([change.session_id, "opened", *words])]
        case Titled():
            return [f"{change.session_id} titled by {change.source}: {change.title}"]
        case Counted():
            return [f"{change.session_id} +{change.turns} turns, +{change.messages} messages"]
        case Forked():
            return [f"{change.session_id} forked from {change.parent_id} at {change.until_seq}"]
        case Deleted():
            return [f"{change.session_id} deleted"]


def play_file(path: Path, *, update: bool) -> tuple[str, str]:
    """Return a script as it is, and as it plays now; with `update`, write it anew."""
    script = path.read_text(encoding="utf-8")
    played = Playbook().play(script)
    if update:
        path.write_text(played, encoding="utf-8")
        script = played
    return script, played
