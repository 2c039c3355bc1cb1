"""Hooks: commands of the user that run when a turn waits, has ended, or was cut off.

A hook is a process of its own that no conversation waits for. A thread starts the hooks, and reads
the titles of sessions through a connection to the store of its own, so neither the engine nor its
lock is involved. A hook learns of the event from its environment. Its command line is only the
user's.

Knows events, and not how the engine finds them.
"""

import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from shutil import which
from signal import SIGKILL
from threading import Condition, Lock

from rekindle.errors import RekindleError
from rekindle.model import Session
from rekindle.process.group import send_signal
from rekindle.process.orphan_guard import OrphanGuard
from rekindle.proxy.step import TurnEvent, TurnEventKind
from rekindle.runtime.agent_connection import start_thread
from rekindle.runtime.log import Log
from rekindle.store.base import Store
from rekindle.text.redact.prefilter import mask_short
from rekindle.text.sanitize import one_line, spelled_out
from rekindle.transcript.model import Role, TranscriptTurn
from rekindle.transcript.reducer import fold

MAX_RUNNING = 4
"""The number of hooks that run at once, unless the host ends."""
TIME_LIMIT = 60.0
"""The seconds that a hook may take."""
MAX_TEXT = 500
"""The longest `REKINDLE_TEXT`, in characters."""
VARIABLE = "REKINDLE_EVENT"
"""The variable by which a process knows that a hook has started it."""

_TEXT = "REKINDLE_TEXT"
_MAX_MASKED = 20 * MAX_TEXT
"""Masking takes long for a text of megabytes, and a part of a key at this end is not shown."""
_MAX_WAITING = 32
_MAX_VALUE = 4096
_FINISH_TIMEOUT = 5.0
_FIRST_ENTRIES = 500
_GROWTH = 8


class HookVariables:
    """Describes events to hooks, in the variables of their environment.

    `open_store` opens a store for reading, and `store` is its address as `REKINDLE_STORE` has it.
    """

    def __init__(
        self, open_store: Callable[[], Store], log: Log, *, store: str, include_text: bool
    ) -> None:
        self._open_store = open_store
        self._log = log
        self._store = store
        self._include_text = include_text

    def of(self, event: TurnEvent) -> dict[str, str]:
        """Return the variables that describe an event."""
        session, answer = self._read(event)
        variables = {
            VARIABLE: event.kind.value,
            "REKINDLE_SESSION": event.session_id,
            "REKINDLE_TITLE": "(no title)",
            "REKINDLE_REASON": event.reason,
            "REKINDLE_CWD": "",
            # Not REKINDLE_AGENT: that is the mark by which hosts recognise their own agents.
            "REKINDLE_AGENT_NAME": "unknown",
            "REKINDLE_CLIENTS": str(event.clients),
            "REKINDLE_STORE": self._store,
        }
        if session is not None:
            agent = session.agent.name or session.agent.program
            variables["REKINDLE_CWD"] = session.cwd or ""
            if session.title:
                variables["REKINDLE_TITLE"] = one_line(mask_short(session.title))
            if agent:
                variables["REKINDLE_AGENT_NAME"] = one_line(agent)
        if self._include_text:
            text = event.question if event.kind is TurnEventKind.WAITING else answer
            begin = text.strip()[:_MAX_MASKED]
            variables[_TEXT] = _shorten(spelled_out(mask_short(begin)))
        return {name: _usable(value) for name, value in variables.items()}

    def _read(self, event: TurnEvent) -> tuple[Session | None, str]:
        """Return the session, and the agent's last answer if a hook receives it."""
        try:
            with self._open_store() as store:
                session = store.session(event.session_id)
                if not self._include_text or event.kind is TurnEventKind.WAITING:
                    return session, ""
                is_dead = event.kind is TurnEventKind.DEATH
                return session, _last_answer(store, session, is_cut_off=is_dead)
        except RekindleError as error:
            self._log.note(f"a hook learns no title: {error}")
            return None, ""


class HookRunner:
    """Runs the hooks of one host. Any thread may call any method."""

    def __init__(
        self,
        commands: Mapping[TurnEventKind, tuple[str, ...]],
        variables: HookVariables,
        log: Log,
        *,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self._commands = commands
        self._variables = variables
        self._log = log
        self._time_limit = time_limit
        self._changed = Condition()
        self._waiting: deque[TurnEvent] = deque()
        self._running = 0
        self._is_finishing = False
        self._has_reported = False
        self._starting = Lock()
        """Held while a process starts. Never wait for it in `notify`."""
        self._processes: set[int] = set()
        """The ids of the hooks that run."""
        self._starter = start_thread(self._start_all)

    def notify(self, events: Sequence[TurnEvent]) -> None:
        """Run the hooks of these events soon. Never waits for a process or the store."""
        wanted = [it for it in events if it.kind in self._commands]
        if not wanted:
            return
        with self._changed:
            places = _MAX_WAITING - len(self._waiting)
            self._waiting.extend(wanted[:places])
            self._changed.notify_all()
        if len(wanted) > places:
            self._log.note("too many hooks are running: an event has none")

    def owns(self, pid: int) -> bool:
        """Return whether a process is a hook that runs now."""
        with self._starting:
            return pid in self._processes

    def finish(self) -> None:
        """Start the hooks that wait, at most for a moment: the host ends. They outlive it."""
        with self._changed:
            self._is_finishing = True
            self._changed.notify_all()
        self._starter.join(_FINISH_TIMEOUT)

    # -- processes -------------------------------------------------------------------------

    def _start_all(self) -> None:
        while (event := self._next_event()) is not None:
            try:
                self._start(event)
            except Exception as error:  # noqa: BLE001 - a hook never disturbs a conversation
                self._log.report("a bug in Rekindle, please report it", quote=repr(error))
                self._free_place()

    def _next_event(self) -> TurnEvent | None:
        """Wait until a hook may start; return its event, or None if the host ends."""

        def is_ready() -> bool:
            has_place = self._running < MAX_RUNNING
            return self._is_finishing or (bool(self._waiting) and has_place)

        with self._changed:
            self._changed.wait_for(is_ready)
            if not self._waiting:
                return None
            self._running += 1
            return self._waiting.popleft()

    def _free_place(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _start(self, event: TurnEvent) -> None:
        name, command = f"on_{event.kind}", self._commands[event.kind]
        variables = self._variables.of(event)
        environ = {**os.environ, **variables}
        if _TEXT not in variables:
            # A hook may have started this process.
            environ.pop(_TEXT, None)
        guard = OrphanGuard(self._time_limit)
        try:
            with self._starting:
                process = subprocess.Popen(  # noqa: S603 - the user has configured it
                    command,
                    executable=_program(command[0]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=_usable_folder(variables["REKINDLE_CWD"]),
                    env=environ,
                    start_new_session=True,
                )
                self._processes.add(process.pid)
        except (OSError, ValueError) as error:
            guard.dismiss()
            self._free_place()
            self._note_failure(name, command[0], error)
            return
        guard.watch(process.pid)
        start_thread(lambda: self._wait(name, process, guard))

    def _wait(self, name: str, process: "subprocess.Popen[bytes]", guard: OrphanGuard) -> None:
        """Wait for the end of a hook, and kill it if it takes too long."""
        try:
            code = process.wait(self._time_limit)
        except subprocess.TimeoutExpired:
            send_signal(process.pid, SIGKILL)
            process.wait()
            self._log.note(f"the hook {name} was killed: it took {self._time_limit:g} s")
        else:
            self._log.note(f"the hook {name} ended with exit code {code}")
        with self._starting:
            self._processes.discard(process.pid)
        self._free_place()
        guard.dismiss()

    def _note_failure(self, name: str, program: str, error: Exception) -> None:
        """Report the first command that cannot be started, and note the others in the log."""
        is_missing = isinstance(error, FileNotFoundError)
        reason = "command not found" if is_missing else getattr(error, "strerror", None) or error
        text = f"cannot run the hook {name}: {program}: {reason}"
        if self._has_reported:
            self._log.note(text)
        else:
            self._has_reported = True
            self._log.report(f"{text}; the conversation continues")


def _last_answer(store: Store, session: Session, *, is_cut_off: bool) -> str:
    """Return the text of the agent's last message in the last turn that has ended.

    With `is_cut_off`, the turn has no end, or only an exit of the agent has ended it.
    """
    count = _FIRST_ENTRIES
    while True:
        after = max(session.last_seq - count, 0)
        turns = fold(store.read(session.id, after=after)).turns
        fits = [it.was_cut_off if is_cut_off else it.ended_us is not None for it in turns]
        number = max((it for it, does_fit in enumerate(fits) if does_fit), default=-1)
        # The first turn may have lost its beginning, unless all entries were read.
        if number > 0 or after == 0:
            return _text_of(turns[number]) if number >= 0 else ""
        count *= _GROWTH


def _text_of(turn: TranscriptTurn) -> str:
    """Return the text of the agent's last message in a turn that has a text."""
    for message in reversed([*turn.messages]):
        blocks = message.own_blocks if message.role is Role.AGENT else []
        text = "".join(it["text"] for it in blocks if isinstance(it.get("text"), str))
        if text.strip():
            return text
    return ""


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _usable(value: str) -> str:
    """Return a value that any system accepts in an environment."""
    text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")[:_MAX_VALUE]
    return text.encode("utf-8", "replace").decode("utf-8")


def _program(word: str) -> str:
    """Return the path of a program, as the user would find it. Raises FileNotFoundError.

    A relative entry of PATH is ignored: a hook runs in the session's folder, whose author must not
    decide which code runs.
    """
    if os.path.isabs(word):  # noqa: PTH117 - a text, as in the command
        return word
    entries = [it for it in os.get_exec_path() if os.path.isabs(it)]  # noqa: PTH117
    found = which(word, path=os.pathsep.join(entries))
    if found is None:
        raise FileNotFoundError(word)
    return found


def _usable_folder(path: str) -> str | None:
    """Return a folder to run in, or None if it does not exist: the present one stays."""
    return path if os.path.isdir(path) and os.access(path, os.X_OK) else None  # noqa: PTH112
