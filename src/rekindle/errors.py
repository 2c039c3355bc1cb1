"""Every exception that Rekindle raises on purpose.

RekindleError
├── UsageError              what was asked for cannot be done as asked
├── BadBundle               what was to be imported is no bundle, or not whole
├── EndlessLine             a peer writes on and on, and ends no line
├── NothingToImport         there is nothing where it was looked for, or nothing that is known
├── ImporterUnavailable     the importer of an installed package cannot be used
├── FileUnclear             an editor's file cannot be changed safely; left as it is
├── ClientError             what a client wanted of an agent did not come about
│   ├── AgentNotStarted     its command could not be run
│   ├── AgentRefused        the agent answered with an error
│   │   └── AuthRequired    it wants the user to log in first
│   ├── AgentGone           the agent has ended, or hung up
│   ├── BadAnswer           the agent answered, but not what was asked for
│   ├── NotOffered          the agent does not say that it can do this
│   ├── SessionBusy         a turn of the session is still running
│   └── SessionClosed       the session is not open here any more
└── StoreError              the store could not do what it was asked to do
    ├── StoreUnavailable    not now: locked, full, unwritable, gone; later it may work
    │   ├── StoreMissing    there is none yet, or it is elsewhere
    │   └── StoreDamaged    what is in the file makes no sense; waiting does not help
    │       └── IndexDamaged    in the index beside it, that is; it can be made anew
    ├── StoreTooNew         written by a newer Rekindle; left untouched
    ├── SessionNotFound     no session has that id
    ├── SessionAmbiguous    several sessions begin with that id
    ├── SessionInUse        another process drives it
    ├── SessionDeleted      it was deleted, and can be brought back
    └── SessionPurged       nothing is left of it

Messages name the thing and the remedy, in lower case and without a full stop.
"""

from collections.abc import Sequence
from typing import Any, cast


class RekindleError(Exception):
    """The base of all errors whose message is fit to be shown to a person."""


class UsageError(RekindleError):
    """What was asked for cannot be done as asked."""


class BadBundle(RekindleError):
    """What was to be imported is no bundle, or not whole; nothing of it was taken."""


class EndlessLine(RekindleError):
    """A peer writes on and on, and ends no line."""

    def __init__(self, longest: int) -> None:
        super().__init__(f"a line of more than {longest >> 20} MiB, without an end")


class NothingToImport(RekindleError):
    """There is nothing where it was looked for, or nothing that is known."""


class ImporterUnavailable(RekindleError):
    """The importer of an installed package cannot be used; the message names the package."""


class FileUnclear(RekindleError):
    """An editor's file cannot be changed without doubt about the outcome; it was left as it is."""


class ClientError(RekindleError):
    """What a client wanted of an agent did not come about."""


class AgentNotStarted(ClientError):
    """The agent's command could not be run; `exit_code` is what a shell would give."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class AgentRefused(ClientError):
    """The agent answered a request with an error; the attributes are what it said."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:  # noqa: ANN401 - JSON
        self.method = method
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"the agent refused {method}: {self.reason} ({code})")

    @property
    def reason(self) -> str:
        """Why, in words: many agents have no more than `Internal error` for a message."""
        data = self.data
        details = data if isinstance(data, str) else None
        if isinstance(data, dict):
            named = cast("dict[str, Any]", data)
            told = (named.get(name) for name in ("details", "message", "error", "reason"))
            details = next((it for it in told if isinstance(it, str)), None)
        return f"{self.message}: {details}" if details else self.message


class AuthRequired(AgentRefused):
    """The agent wants the user to log in first: see `Agent.auth_methods`."""


class AgentGone(ClientError):
    """The agent has ended, or hung up, before it answered.

    `exit_code` is what a shell would give, and None if the process is still there; `signal` is
    the name of the one that killed it; `stderr` has the last lines that it wrote there. Where it
    is not final, Rekindle starts the agent again with the next request.
    """

    def __init__(
        self,
        method: str,
        exit_code: int | None,
        signal: str | None,
        stderr: Sequence[str],
        *,
        is_final: bool = True,
    ) -> None:
        how = "hung up" if exit_code is None else f"exited with {exit_code}"
        how = f"was killed by {signal}" if signal else how
        last = f": {stderr[-1]}" if stderr else ""
        super().__init__(f"the agent {how} before it answered {method}{last}")
        self.method = method
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = tuple(stderr)
        self.is_final = is_final


class BadAnswer(ClientError):
    """The agent answered, but not what was asked for."""

    def __init__(self, method: str, missing: str) -> None:
        super().__init__(f"the agent answered {method} without {missing}")
        self.method = method


class NotOffered(ClientError):
    """The agent does not say that it can do this, so it was not asked."""

    def __init__(self, agent: str, what: str, remedy: str = "") -> None:
        super().__init__(f"{agent} does not offer {what}{remedy and f': {remedy}'}")
        self.what = what


class SessionBusy(ClientError):
    """A turn of the session is still running, or the session is just being opened."""

    def __init__(
        self, session_id: str, why: str = "has a running turn: wait for its end, or cancel it"
    ) -> None:
        super().__init__(f"session {session_id} {why}")
        self.session_id = session_id


class SessionClosed(ClientError):
    """The session is not open here any more."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} is not open here: load or resume it")
        self.session_id = session_id


class StoreError(RekindleError):
    """The store could not do what it was asked to do."""


class StoreUnavailable(StoreError):
    """The store cannot be used now; trying again later may work."""


class StoreMissing(StoreUnavailable):
    """There is nothing where the store should be."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"there is no store at {path}: nothing was recorded there yet, or --store names another"
        )


class StoreDamaged(StoreUnavailable):
    """What is in the store's file, or in its index, makes no sense."""


class IndexDamaged(StoreDamaged):
    """What is in the index makes no sense; the store may be sound."""


class StoreTooNew(StoreError):
    """The store was written by a newer Rekindle."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"the store {path} has schema {found}, but this Rekindle knows only up to {known}: "
            "upgrade Rekindle, or name another store with --store"
        )


class SessionNotFound(StoreError):
    """No session has that id, nor begins with it."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"no session {session_id!r} in this store: `rekindle list` shows them")
        self.session_id = session_id


class SessionAmbiguous(StoreError):
    """Several sessions begin with that id."""

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        some = ", ".join(matches[:3]) + (", …" if len(matches) > 3 else "")  # noqa: PLR2004
        super().__init__(f"{prefix!r} fits {len(matches)} sessions ({some}): give more of the id")
        self.prefix = prefix
        self.matches = tuple(matches)


class SessionInUse(StoreError):
    """Another process drives the session."""

    def __init__(self, session_id: str, pid: int, host: str) -> None:
        super().__init__(
            f"session {session_id} is in use by process {pid} on {host}: close it first"
        )


class SessionDeleted(StoreError):
    """The session was deleted; it can be brought back."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is deleted: `rekindle undelete {session_id}` brings it back"
        )


class SessionPurged(StoreError):
    """Nothing is left of the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} was purged: nothing is left to bring back")
