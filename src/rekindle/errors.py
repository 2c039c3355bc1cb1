"""Every exception that Rekindle raises on purpose.

RekindleError
├── UsageError              the command or call is wrong
├── BadBundle               the file is not a bundle, or is incomplete
├── EndlessLine             a peer sends a line that does not end
├── NothingToImport         there are no sessions to import
├── ImporterUnavailable     the importer of an installed package cannot be used
├── FileUnclear             an editor's file cannot be edited safely
├── BadConfiguration        the configuration file has an error
├── ClientError             a request to an agent failed
│   ├── AgentNotStarted     its command could not be run
│   ├── AgentRefused        the agent answered with an error
│   │   └── AuthRequired    the user has to log in first
│   ├── AgentGone           the agent exited or closed its output
│   ├── BadAnswer           the agent's answer is malformed
│   ├── NotOffered          the agent lacks the capability
│   ├── SessionBusy         a turn of the session is still running
│   └── SessionClosed       the session is not open any more
└── StoreError              the store could not do its work
    ├── StoreUnavailable    locked, full, unwritable or gone; it may work later
    │   ├── StoreMissing    there is no store at the address
    │   └── StoreDamaged    its contents make no sense; waiting does not help
    │       └── IndexDamaged    the search index is damaged; it can be rebuilt
    ├── StoreTooNew         written by a newer Rekindle; left untouched
    ├── SessionNotFound     no session has that id
    ├── SessionAmbiguous    several sessions start with that id
    ├── SessionInUse        another process holds its lease
    ├── LeaseLost           another process has acquired its lease since; nothing was written
    ├── SessionDeleted      it is deleted, and can be restored
    └── SessionPurged       nothing is left of it

Messages name the problem, and after a semicolon the remedy. They begin in lower case and have no
full stop.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rekindle.model import LeaseHolder


class RekindleError(Exception):
    """The base of all errors whose message can be shown to the user."""


class UsageError(RekindleError):
    """The command or the call is wrong."""


class BadBundle(RekindleError):
    """The file is not a bundle, or is incomplete; nothing of it was imported."""


class EndlessLine(RekindleError):
    """A peer sends a line that does not end."""

    def __init__(self, longest: int) -> None:
        super().__init__(f"a line of more than {longest >> 20} MiB, without an end")


class NothingToImport(RekindleError):
    """There are no sessions to import, or none in a known format."""


class ImporterUnavailable(RekindleError):
    """The importer of an installed package cannot be used; the message names the package."""


class FileUnclear(RekindleError):
    """An editor's file cannot be edited safely; it was not changed."""


class BadConfiguration(RekindleError):
    """The configuration file has an error; the message names the file and the key."""


class ClientError(RekindleError):
    """A request to an agent failed."""


class AgentNotStarted(ClientError):
    """The agent's command could not be run; `exit_code` is that of a shell."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class AgentRefused(ClientError):
    """The agent answered a request with an error, whose parts are the attributes."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:  # noqa: ANN401 - JSON
        self.method = method
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"the agent refused {method}: {self.reason} ({code})")

    @property
    def reason(self) -> str:
        """The message with details from the data: many messages are just `Internal error`."""
        data = self.data
        details = data if isinstance(data, str) else None
        if isinstance(data, dict):
            named = cast("dict[str, Any]", data)
            values = (named.get(name) for name in ("details", "message", "error", "reason"))
            details = next((value for value in values if isinstance(value, str)), None)
        return f"{self.message}: {details}" if details else self.message


class AuthRequired(AgentRefused):
    """The user has to log in to the agent first: see `Agent.auth_methods`."""


class AgentGone(ClientError):
    """The agent exited, or closed its output, before it answered.

    `exit_code` is that of a shell; None means that the process still runs. `signal` is the name of
    the signal that killed it. `stderr` has its last lines. Unless `is_final`, Rekindle starts the
    agent again with the next request.
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
        how = "closed its output" if exit_code is None else f"exited with {exit_code}"
        how = f"was killed by {signal}" if signal else how
        last = f": {stderr[-1]}" if stderr else ""
        super().__init__(f"the agent {how} before it answered {method}{last}")
        self.method = method
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = tuple(stderr)
        self.is_final = is_final


class BadAnswer(ClientError):
    """The agent's answer lacks a required part."""

    def __init__(self, method: str, missing: str) -> None:
        super().__init__(f"the agent answered {method} without {missing}")
        self.method = method


class NotOffered(ClientError):
    """The agent does not announce the capability, so nothing was sent."""

    def __init__(self, agent: str, what: str, remedy: str = "") -> None:
        super().__init__(f"{agent} does not offer {what}{remedy and f'; {remedy}'}")
        self.what = what


class SessionBusy(ClientError):
    """A turn of the session is still running, or the session is being opened."""

    def __init__(
        self, session_id: str, why: str = "has a running turn; wait until it ends, or cancel it"
    ) -> None:
        super().__init__(f"session {session_id} {why}")
        self.session_id = session_id


class SessionClosed(ClientError):
    """The session is not open on this connection."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} is not open here; load or resume it first")
        self.session_id = session_id


class StoreError(RekindleError):
    """The store could not do its work."""


class StoreUnavailable(StoreError):
    """The store cannot be used now; it may work later."""


class StoreMissing(StoreUnavailable):
    """There is no store at the address."""

    def __init__(
        self,
        address: str,
        remedy: str = "record a session first, or name another store with --store",
    ) -> None:
        super().__init__(f"there is no store at {address}; {remedy}")
        self.address = address


class StoreDamaged(StoreUnavailable):
    """The contents of the store, or of its index, make no sense."""


class IndexDamaged(StoreDamaged):
    """The contents of the search index make no sense; the store may be intact."""


class StoreTooNew(StoreError):
    """The store was written by a newer Rekindle."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"the store {path} has schema {found}, but this Rekindle supports only up to {known}; "
            "upgrade Rekindle, or name another store with --store"
        )


class SessionNotFound(StoreError):
    """No session has that id, and none starts with it."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"no session matches {session_id!r}; `rekindle list` shows the sessions")
        self.session_id = session_id


class SessionAmbiguous(StoreError):
    """Several sessions start with that id."""

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        some = ", ".join(matches[:3]) + (", …" if len(matches) > 3 else "")  # noqa: PLR2004
        super().__init__(
            f"{prefix!r} matches {len(matches)} sessions ({some}); type more of the id"
        )
        self.prefix = prefix
        self.matches = tuple(matches)


class SessionInUse(StoreError):
    """Another process holds the lease of the session."""

    def __init__(
        self, session_id: str, pid: int, machine: str, *, can_take_over: bool = False
    ) -> None:
        remedy = (
            f"close it there, continue it here with --takeover, or copy it with"
            f" `rekindle fork {session_id}`"
            if can_take_over
            else "close it there first"
        )
        super().__init__(f"session {session_id} is in use by process {pid} on {machine}; {remedy}")
        self.session_id = session_id
        self.pid = pid
        self.machine = machine


class SessionNotHosted(StoreError):
    """No process has the session, so there is none to attach to."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"no process uses session {session_id}: `rekindle resume {session_id}` continues it"
        )
        self.session_id = session_id


class HostError(RekindleError):
    """A process that uses a session refused a request, or did not answer it."""


class LeaseLost(StoreError):
    """Another process has acquired the lease of the session since; nothing was written.

    The store itself works. `until_seq` is the last entry that both processes have in common, and
    `branch_id` the session for the entries that follow it here.
    """

    def __init__(
        self, session_id: str, holder: "LeaseHolder", *, branch_id: str = "", until_seq: int = 0
    ) -> None:
        super().__init__(
            f"session {session_id} was taken over by process {holder.pid} on {holder.machine};"
            " open it again to continue here"
        )
        self.session_id = session_id
        self.holder = holder
        self.branch_id = branch_id
        self.until_seq = until_seq


class SessionDeleted(StoreError):
    """The session is deleted; it can be restored."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is deleted; `rekindle undelete {session_id}` restores it"
        )
        self.session_id = session_id


class SessionPurged(StoreError):
    """Nothing is left of the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} was purged; it cannot be restored")
        self.session_id = session_id
