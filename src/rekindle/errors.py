"""Every exception that Rekindle raises on purpose.

RekindleError
├── UsageError              what was asked for cannot be done as asked
├── AgentNotStarted         the agent's command could not be run
└── StoreError              the store could not do what it was asked to do
    ├── StoreUnavailable    not now: locked, full, unwritable, gone; later it may work
    ├── StoreTooNew         written by a newer Rekindle; left untouched
    ├── SessionNotFound     no session has that id
    ├── SessionAmbiguous    several sessions begin with that id
    ├── SessionInUse        another process drives it
    └── SessionPurged       nothing is left of it

Messages name the thing and the remedy, in lower case and without a full stop.
"""

from collections.abc import Sequence


class RekindleError(Exception):
    """The base of all errors whose message is fit to be shown to a person."""


class UsageError(RekindleError):
    """What was asked for cannot be done as asked."""


class AgentNotStarted(RekindleError):
    """The agent's command could not be run; `exit_code` is what a shell would give."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StoreError(RekindleError):
    """The store could not do what it was asked to do."""


class StoreUnavailable(StoreError):
    """The store cannot be used now; trying again later may work."""


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


class SessionPurged(StoreError):
    """Nothing is left of the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} was purged: nothing is left to bring back")
