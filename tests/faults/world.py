"""Where an episode happens: a folder with a store, editors, and what is known of all of it."""

import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .checks import (
    Recorded,
    check_leases,
    check_no_faults_of_ours,
    check_record,
    check_replay,
    check_soundness,
    recorded,
)
from .editor import AGENT, Editor
from .held import Held, check_held
from .ledger import Ledger
from .nursery import Nursery
from .processes import Process, end_marked
from .violation import Violation

_COLD = 0.05
_RESUMES = 0.3
_SPEAKS_2 = 0.3
"""How often a client speaks version 2, and how often an agent does: so half of them differ."""
_LARGEST_SESSION = 4000
NEW = {"cwd": "/home/user/project", "mcpServers": []}


class World:
    """One episode's. All that is left to chance is drawn from `chance`."""

    def __init__(self, folder: Path, nursery: Nursery, chance: random.Random) -> None:
        self.folder = folder
        self.nursery = nursery
        self.chance = chance
        self.store = folder / "store" / "s.db"
        self.ledger = Ledger()
        self.faults: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.gone = 0
        """How many updates were checked in sessions that are gone."""
        self.editors: list[Editor] = []
        self._all: list[Editor] = []
        self._watched: list[Process] = []
        self._stores = 0
        folder.mkdir(parents=True)

    # -- editors and sessions -----------------------------------------------------------

    def start_editor(self, **options: Any) -> Editor:  # noqa: ANN401 - as Editor takes them
        """Start an editor that has not said anything yet."""
        agent = (*AGENT, "--resumes") if self.chance.random() < _RESUMES else AGENT
        agent = (*agent, "--v2") if self.chance.random() < _SPEAKS_2 else agent
        version = 2 if self.chance.random() < _SPEAKS_2 else 1
        way = "cold" if self.chance.random() < _COLD and "clock" not in options else "warm"
        name = f"editor-{len(self._all)}"
        given = {"agent": agent, "way": way, "version": version, **options}
        editor = Editor(self.nursery, self.folder, name, self.store, self.ledger, **given)
        does = " ".join(agent[len(AGENT) :])
        self.note(f"{name} starts {way}, version {version}, its agent {does or 'as usual'}")
        self.editors.append(editor)
        self._all.append(editor)
        return editor

    def editor(self, **options: Any) -> Editor:  # noqa: ANN401 - as above
        """Start an editor that has said who it is."""
        editor = self.start_editor(**options)
        editor.result("initialize", editor.greeting)
        editor.held = Held.by(editor.rekindle.pid)
        return editor

    def new_session(self, editor: Editor) -> str:
        session_id = editor.result("session/new", NEW)["sessionId"]
        _ = self.ledger[session_id]
        return session_id

    def load(self, editor: Editor, session_id: str) -> str:
        """Load a session, and see that it is told as it was recorded."""
        before = recorded(self.store, session_id)
        request, answer = editor.insist(lambda: self.begin_to_load(editor, session_id))
        if "result" not in answer:
            raise Violation("a session cannot be loaded", str(answer["error"]))
        check_replay(editor.told(request), before)
        return session_id

    def begin_to_load(self, editor: Editor, session_id: str) -> int:
        params = {"sessionId": session_id, **NEW}
        if editor.version == 1:
            return editor.request("session/load", params)
        return editor.request("session/resume", params | {"replayFrom": {"type": "start"}})

    def open_session(self, editor: Editor) -> str:
        """Open a session of before, or a new one; return its id."""
        if editor.opened and self.chance.random() < 0.5:
            return self.chance.choice(sorted(editor.opened))
        before = [one for one in self.free_sessions() if self.record(one).seqs]
        if before and self.chance.random() < 0.8:
            return self.load(editor, self.chance.choice(before))
        return self.new_session(editor)

    def free_sessions(self) -> list[str]:
        """Return the sessions that no editor has open, and that are not too large."""
        opened = {session_id for editor in self.editors for session_id in editor.opened}
        small = [one for one, told in self.ledger.items() if told.received < _LARGEST_SESSION]
        return [session_id for session_id in small if session_id not in opened]

    def forget(self, *session_ids: str) -> None:
        """Expect nothing more of sessions: somebody has removed them."""
        for session_id in session_ids:
            self.gone += self.ledger.pop(session_id).received

    def forget_all_but(self, session_id: str) -> None:
        self.forget(*(one for one in list(self.ledger) if one != session_id))

    def begin_anew(self) -> None:
        """Go on with another store."""
        self._stores += 1
        self.store = self.folder / f"store-{self._stores}" / "s.db"

    def watch(self, process: Process) -> Process:
        """See to it that a process does not outlive the episode."""
        self._watched.append(process)
        return process

    def record(self, session_id: str) -> Recorded:
        return recorded(self.store, session_id)

    # -- checking, and the end ----------------------------------------------------------

    def count(self, fault: str) -> None:
        """Note that a fault was injected."""
        self.faults[fault] += 1
        self.note(fault)

    def skip(self, fault: str, why: str) -> None:
        """Note that a fault cannot be injected here."""
        self.skipped[fault] = why

    def note(self, text: str) -> None:
        """Tell the story, for whoever looks at a failed episode."""
        with (self.folder / "story").open("a") as story:
            story.write(f"{time.monotonic():.3f} {text}\n")

    def expect(self, promise: str, is_kept: bool, how: str) -> None:  # noqa: FBT001 - a fact
        if not is_kept:
            raise Violation(f"not so: {promise}", how)

    def lay_down(self, editor: Editor) -> None:
        """See an editor's processes end that were struck, and look at what is left."""
        editor.wait_for_the_end()
        self.editors.remove(editor)
        check_no_faults_of_ours(editor.stderr.read_text(errors="replace"))
        self.check(*editor.opened)

    def leave(self, editor: Editor) -> None:
        """Have an editor leave as editors do."""
        if editor.held is not None:
            check_held(editor.rekindle.pid, editor.held)
        editor.hang_up()
        self.lay_down(editor)

    def check(self, *session_ids: str) -> None:
        """Check sessions; those that nobody has opened have nothing to check."""
        for session_id in session_ids:
            check_record(self.ledger[session_id], self.record(session_id))
        if not self.editors:
            check_leases(self.store)

    def finish(self) -> None:
        """Have everybody leave, and check everything."""
        for editor in list(self.editors):
            self.leave(editor)
        self.check(*self.ledger)
        check_soundness(self.store)

    @property
    def updates(self) -> int:
        return self.gone + sum(told.received for told in self.ledger.values())

    def close(self, *, keep: bool) -> None:
        """Leave no process behind, and no folder, unless there is something to look at."""
        for editor in self._all:
            editor.close()
            end_marked(editor.mark)
        for process in self._watched:
            process.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
