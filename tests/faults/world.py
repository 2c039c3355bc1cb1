"""The environment of an episode: a folder with a store, its editors, and the expected record."""

import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .checks import (
    Recorded,
    branches_of,
    check_integrity,
    check_leases,
    check_no_internal_errors,
    check_record,
    check_replay,
    recorded,
)
from .editor import AGENT, Editor
from .fork_server import ForkServer
from .ledger import Ledger
from .processes import Process, kill_processes_with_mark
from .resource_usage import ResourceUsage, check_resource_usage
from .violation import Violation

_COLD = 0.05
_RESUMES = 0.3
_SPEAKS_2 = 0.3
"""The share of clients, and of agents, that speak version 2: about half of the pairs differ."""
_LARGEST_SESSION = 4000
NEW = {"cwd": "/home/user/project", "mcpServers": []}


class World:
    """The environment of one episode. All random decisions use `chance`."""

    def __init__(self, folder: Path, fork_server: ForkServer, chance: random.Random) -> None:
        self.folder = folder
        self.fork_server = fork_server
        self.chance = chance
        self.store = folder / "store" / "s.db"
        self.ledger = Ledger()
        self.faults: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.connections = 0
        """The number of editors that may be attached to the sessions of another."""
        self.gone = 0
        """The number of updates that were checked in removed sessions."""
        self.editors: list[Editor] = []
        self._all: list[Editor] = []
        self.hosts: list[Process] = []
        """The hosts that may continue without an editor."""
        self._watched: list[Process] = []
        self._stores = 0
        folder.mkdir(parents=True)

    # -- editors and sessions -----------------------------------------------------------

    def start_editor(self, **options: Any) -> Editor:  # noqa: ANN401 - as Editor takes them
        """Start an editor without `initialize`."""
        agent = (*AGENT, "--resumes") if self.chance.random() < _RESUMES else AGENT
        agent = (*agent, "--v2") if self.chance.random() < _SPEAKS_2 else agent
        version = 2 if self.chance.random() < _SPEAKS_2 else 1
        way = "cold" if self.chance.random() < _COLD and "clock" not in options else "warm"
        name = f"editor-{len(self._all)}"
        given = {"agent": agent, "way": way, "version": version, **options}
        editor = Editor(self.fork_server, self.folder, name, self.store, self.ledger, **given)
        does = " ".join(agent[len(AGENT) :])
        self.note(f"{name} starts {way}, version {version}, its agent {does or 'as usual'}")
        self.editors.append(editor)
        self._all.append(editor)
        return editor

    def editor(self, **options: Any) -> Editor:  # noqa: ANN401 - as above
        """Start and initialize an editor."""
        editor = self.start_editor(**options)
        editor.result("initialize", editor.initialize_params)
        editor.usage_at_start = ResourceUsage.by(editor.rekindle.pid)
        return editor

    def new_session(self, editor: Editor) -> str:
        session_id = editor.result("session/new", NEW)["sessionId"]
        _ = self.ledger[session_id]
        return session_id

    def load(self, editor: Editor, session_id: str) -> str:
        """Load a session, and check that the replay equals the record."""
        before = recorded(self.store, session_id)
        request, answer = editor.insist(lambda: self.begin_to_load(editor, session_id))
        if "result" not in answer:
            raise Violation("a session cannot be loaded", str(answer["error"]))
        check_replay(editor.replayed(request), before)
        return session_id

    def begin_to_load(self, editor: Editor, session_id: str) -> int:
        params = {"sessionId": session_id, **NEW}
        if editor.version == 1:
            return editor.request("session/load", params)
        return editor.request("session/resume", params | {"replayFrom": {"type": "start"}})

    def open_session(self, editor: Editor) -> str:
        """Open an existing session or a new one; return its id."""
        if editor.opened and self.chance.random() < 0.5:
            return self.chance.choice(sorted(editor.opened))
        before = [one for one in self.free_sessions() if self.record(one).seqs]
        if before and self.chance.random() < 0.8:
            return self.load(editor, self.chance.choice(before))
        return self.new_session(editor)

    def free_sessions(self) -> list[str]:
        """Return the sessions that no editor has open and that are not too large."""
        opened = {session_id for editor in self.editors for session_id in editor.opened}
        small = [one for one, told in self.ledger.items() if told.received < _LARGEST_SESSION]
        return [session_id for session_id in small if session_id not in opened]

    def forget(self, *session_ids: str) -> None:
        """Stop checking sessions that were removed."""
        for session_id in session_ids:
            self.gone += self.ledger.pop(session_id).received

    def forget_all_but(self, session_id: str) -> None:
        self.forget(*(one for one in list(self.ledger) if one != session_id))

    def use_new_store(self) -> None:
        """Continue with another store."""
        self._stores += 1
        self.store = self.folder / f"store-{self._stores}" / "s.db"

    def watch(self, process: Process) -> Process:
        """Kill a process at the end of the episode, if it still runs."""
        self._watched.append(process)
        return process

    def record(self, session_id: str) -> Recorded:
        return recorded(self.store, session_id)

    # -- checking, and the end ----------------------------------------------------------

    def count(self, fault: str) -> None:
        """Count an injected fault."""
        self.faults[fault] += 1
        self.note(fault)

    def skip(self, fault: str, why: str) -> None:
        """Note that a fault cannot be injected on this machine."""
        self.skipped[fault] = why

    def note(self, text: str) -> None:
        """Add a line to the log that a failed episode keeps."""
        with (self.folder / "story").open("a") as story:
            story.write(f"{time.monotonic():.3f} {text}\n")

    def expect(self, promise: str, is_kept: bool, how: str) -> None:  # noqa: FBT001 - a fact
        if not is_kept:
            raise Violation(f"not so: {promise}", how)

    def check_after_exit(self, editor: Editor) -> None:
        """Wait for the exit of an editor's processes, and check its sessions."""
        editor.wait_for_exit()
        self.editors.remove(editor)
        check_no_internal_errors(editor.stderr.read_text(errors="replace"))
        self.check(*editor.opened)

    def leave(self, editor: Editor) -> None:
        """Let an editor leave normally."""
        if editor.usage_at_start is not None:
            check_resource_usage(editor.rekindle.pid, editor.usage_at_start, self.connections)
        editor.hang_up()
        self.check_after_exit(editor)

    def check(self, *session_ids: str) -> None:
        """Check the records of sessions, and the leases if no editor runs."""
        for session_id in session_ids:
            conversation = self.ledger[session_id]
            branches = branches_of(self.store, session_id) if conversation.is_shared else []
            check_record(conversation, self.record(session_id), branches)
        if not self.editors and all(host.has_ended() for host in self.hosts):
            check_leases(self.store)

    def finish(self) -> None:
        """Let all editors leave, and check everything."""
        for editor in list(self.editors):
            self.leave(editor)
        self.check(*self.ledger)
        check_integrity(self.store)

    @property
    def updates(self) -> int:
        return self.gone + sum(told.received for told in self.ledger.values())

    def close(self, *, keep: bool) -> None:
        """End all processes, and remove the folder unless it is to be kept."""
        for editor in self._all:
            editor.close()
            kill_processes_with_mark(editor.mark)
        for process in self._watched:
            process.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
