"""The checks of `rekindle doctor` for a store on disk."""

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path

from rekindle.errors import RekindleError, StoreDamaged, StoreUnavailable
from rekindle.store.base import PendingInfo, Reporter, Store, StoreHooks
from rekindle.store.maintenance import Diagnosis, ProgressDisplay, Severity
from rekindle.store.sqlite.backend import SqliteBackend
from rekindle.store.sqlite.doctor_location import (
    RECOVER_REMEDY,
    check_disk,
    check_permissions,
    check_store,
    check_writable,
    size,
    token_files,
)
from rekindle.store.sqlite.filelock import is_held
from rekindle.store.sqlite.files import awaiting_recovery, index_path
from rekindle.store.sqlite.inspect import (
    NEWEST_SCHEMA,
    SAFE_SQLITE_VERSION,
    AgentUsage,
    Inspection,
    LeaseRecord,
    is_store,
    rebuild_indexes,
    set_journal_mode,
    sqlite_version,
    truncate_wal,
)
from rekindle.store.sqlite.pending import pending_infos
from rekindle.store.sqlite.quarantine import recover, reports
from rekindle.store.sqlite.search_index import SqliteSearchIndex, complaints
from rekindle.store.sqlite.wal import wal_path
from rekindle.text.sanitize import one_line
from rekindle.text.times import age, iso, local_time

_LARGE_STORE = 500_000_000
_LARGE_WAL = 64 * 1024 * 1024
_MUCH_FREE = 50_000_000
_FREE_SHARE = 0.3
_MAX_COMPLAINTS_SHOWN = 3
_MAX_NAMES_SHOWN = 5
_FRESH_SECONDS = 60.0
_HEADING = "***"
"""Starts a line of SQLite that only names the database."""
_INDEX_COMPLAINTS = (
    "missing from index",
    "wrong # of entries in index",
    "non-unique entry in index",
)
_RESTORE_METHODS = {
    "native": "by the agent itself",
    "handover": "by sending the history",
    "live": "while it was still running",
}

Checks = dict[str, Callable[[], Iterator[Diagnosis]]]


class Doctor:
    """Diagnoses the store at a path."""

    def __init__(
        self,
        path: Path,
        hooks: StoreHooks,
        report: Reporter,
        progress: ProgressDisplay,
    ) -> None:
        self._path = path
        self._hooks = hooks
        self._report = report
        self._progress = progress

    def diagnose(self, *, full: bool, is_requested: bool) -> Iterator[Diagnosis]:
        """Implement `MaintenanceBackend.diagnose`."""
        yield from self._safely("damage", self._check_quarantine)
        # Only now: the repair of the first check may have created the store.
        path, is_ours = self._path, self._is_ours()
        checks: Checks = {
            "store": lambda: check_store(
                path, is_ours=is_ours, is_requested=is_requested, recover=self._recover
            ),
            "permissions": lambda: check_permissions(path) if is_ours else iter(()),
            "access": lambda: check_writable(path),
            "disk": lambda: check_disk(path),
        }
        for name, check in checks.items():
            yield from self._safely(name, check)
        yield from check_sqlite()
        if is_ours:
            yield from self._safely("store", lambda: self._check_database(full=full))
        # Last, because its repair needs an intact store.
        yield from self._safely("pending", self._check_pending)

    def _is_ours(self) -> bool:
        try:
            return self._path.is_file() and is_store(self._path)
        except OSError:
            # `check_writable` reports that it cannot be read.
            return False

    def _check_database(self, *, full: bool) -> Iterator[Diagnosis]:
        path = self._path
        if path.stat().st_size > _LARGE_STORE:
            self._report("the store is large; checking it takes a while")
        with Inspection(path) as store:
            yield from check_schema(store)
            if (store.schema() or 0) > NEWEST_SCHEMA:
                return
            # Checks that find damage come first, because nothing is repaired after that.
            checks: Checks = {
                "integrity": lambda: check_integrity(store, path, self._recover, full=full),
                "sessions": lambda: check_sessions(store, self._recover),
                "journal": lambda: check_journal(store, path),
                "size": lambda: check_size(store, path),
                "leases": lambda: self._check_leases(store.leases()),
                "leftovers": lambda: check_leftovers(path),
                "index": lambda: check_index(path),
                "agents": lambda: check_agents(store),
            }
            for name, check in checks.items():
                yield from self._safely(name, check)

    def _safely(self, name: str, check: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
        """Run a check. A failure is a diagnosis too, and does not stop the next check."""
        try:
            yield from check()
        except StoreDamaged as error:
            yield Diagnosis(
                check=name,
                severity=Severity.PROBLEM,
                text=one_line(str(error)),
                remedy=RECOVER_REMEDY,
                repair=self._recover,
                is_damage=True,
            )
        except (RekindleError, OSError) as error:
            yield Diagnosis(
                check=name,
                severity=Severity.PROBLEM,
                text=one_line(str(error)),
                remedy="close the editors that use the store, and try again"
                if "locked" in str(error)
                else "",
            )

    # -- recovery --------------------------------------------------------------------------

    def _check_quarantine(self) -> Iterator[Diagnosis]:
        """Report earlier damage, and a damaged store that waits for recovery."""
        waiting = awaiting_recovery(self._path)
        for report in reports(self._path):
            facts = {
                "at": report.at_us,
                "path": report.path,
                "sessions": {"saved": report.sessions_saved, "lost": report.sessions_lost},
                "entries": {"saved": report.entries_saved, "lost": report.entries_lost},
            }
            if waiting is not None and report.path == str(waiting):
                yield Diagnosis(
                    check="damage",
                    severity=Severity.PROBLEM,
                    text=f"the damaged store {waiting} was moved aside, and is not recovered yet",
                    remedy=RECOVER_REMEDY,
                    repair=self._recover,
                    is_damage=True,
                )
                continue
            exists = Path(report.path).exists()
            yield Diagnosis(
                check="damage",
                severity=Severity.WARNING if exists else Severity.OK,
                text=f"{local_time(report.at_us)}: {report.text}",
                remedy="remove it when you do not need it any more" if exists else "",
                facts=facts,
            )

    def _recover(self) -> str:
        """Recover the damaged store once; return a text about the result."""
        return self._recovery

    @cached_property
    def _recovery(self) -> str:
        with self._progress() as progress:
            report = recover(
                self._path, self._hooks.title_from_prompt, is_certain=True, progress=progress
            )
        if report is None:
            raise StoreUnavailable("the file does not seem to be a Rekindle store")
        return report.text

    # -- processes -------------------------------------------------------------------------

    def _check_leases(self, leases: list[LeaseRecord]) -> Iterator[Diagnosis]:
        """Report the sessions in use, and the leases of processes that have ended."""
        yield _live_leases([lease for lease in leases if lease.is_alive])
        dead = [lease for lease in leases if not lease.is_alive]
        # A lock is visible only on the machine that has it.
        here = [lease for lease in dead if lease.holder.machine == os.uname().nodename]
        elsewhere = len(dead) - len(here)
        if here:
            yield Diagnosis(
                check="leases",
                severity=Severity.WARNING,
                text=f"{_sessions_are(len(here))} leased by processes that have ended, and can be"
                " opened",
                remedy="`rekindle doctor --fix` releases the leases",
                facts={"sessions": [lease.session_id for lease in here]},
                repair=lambda: self._release(here),
            )
        if elsewhere:
            yield Diagnosis(
                check="leases",
                text=f"{_sessions_are(elsewhere)} leased from another machine, or from this one"
                " under another name, and can be opened here",
            )

    def _release(self, leases: list[LeaseRecord]) -> None:
        with self._open() as store:
            for lease in leases:
                store.release_leases(lease.holder)

    def _open(self) -> Store:
        return SqliteBackend(self._path).open(create=True, report=lambda _: None, hooks=self._hooks)

    def _check_pending(self) -> Iterator[Diagnosis]:
        """Report pending files, of running processes and of others."""
        for pending in pending_infos(self._path):
            where = pending.location
            entries = f"{pending.entries:,} {'entry' if pending.entries == 1 else 'entries'}"
            facts = {"path": where, "entries": pending.entries, "live": pending.is_alive}
            if pending.problem:
                yield Diagnosis(
                    check="pending",
                    severity=Severity.PROBLEM,
                    text=f"the pending file {where} cannot be read: {pending.problem}",
                    facts=facts,
                )
            elif pending.is_leftover:
                yield Diagnosis(
                    check="pending",
                    severity=Severity.WARNING,
                    text=f"the pending file {where} was damaged; its readable entries are recorded,"
                    " the others are not",
                    remedy="remove it when you do not need it any more",
                    facts=facts,
                )
            elif pending.is_alive:
                yield Diagnosis(
                    check="pending",
                    severity=Severity.WARNING,
                    text=f"a running Rekindle cannot write to the store; {where} has {entries}",
                    remedy="it tries again by itself; its stderr has the reason",
                    facts=facts,
                )
            else:
                yield Diagnosis(
                    check="pending",
                    severity=Severity.WARNING,
                    text=f"{where} of an ended process has {entries} not recorded yet",
                    remedy="`rekindle doctor --fix` records them, or the next `rekindle run`",
                    facts=facts,
                    repair=partial(self._apply_pending, pending),
                )

    def _apply_pending(self, pending: PendingInfo) -> None:
        self._open().close()
        if Path(pending.location).exists():
            raise StoreUnavailable("another process is recording them")


# -- the database ----------------------------------------------------------------------------


def check_sqlite() -> Iterator[Diagnosis]:
    """Check whether the SQLite library is safe with several writing processes."""
    version = ".".join(map(str, sqlite_version()))
    is_safe = sqlite_version() >= SAFE_SQLITE_VERSION
    yield Diagnosis(
        check="sqlite",
        severity=Severity.OK if is_safe else Severity.PROBLEM,
        text=version
        if is_safe
        else f"{version} can damage a store that several processes write to",
        remedy="" if is_safe else "install a newer apsw: pip install -U apsw",
        facts={"version": version},
    )


def check_schema(store: Inspection) -> Iterator[Diagnosis]:
    """Check the schema version."""
    found = store.schema() or 0
    facts = {"schema": found, "newest": NEWEST_SCHEMA}
    if found > NEWEST_SCHEMA:
        yield Diagnosis(
            check="schema",
            severity=Severity.PROBLEM,
            text=f"{found}, but this Rekindle supports only up to {NEWEST_SCHEMA}",
            remedy="upgrade Rekindle, or name another store with --store",
            facts=facts,
        )
    else:
        later = "" if found == NEWEST_SCHEMA else f"; the next use upgrades it to {NEWEST_SCHEMA}"
        yield Diagnosis(check="schema", text=f"{found}{later}", facts=facts)


def check_journal(store: Inspection, path: Path) -> Iterator[Diagnosis]:
    """Check whether writers and readers block each other."""
    mode = store.pragma("journal_mode")
    if mode != "wal":
        yield Diagnosis(
            check="journal",
            severity=Severity.WARNING,
            text=f"the journal mode is {mode}, so readers and writers block each other",
            remedy="`rekindle doctor --fix` sets it to wal",
            repair=partial(set_journal_mode, path),
        )


def check_integrity(
    store: Inspection, path: Path, recover: Callable[[], object], *, full: bool
) -> Iterator[Diagnosis]:
    """Let SQLite check the database for damage. With `full`, check every entry too."""
    start = time.monotonic()
    found = store.complaints(full=full)
    if full and not found:
        found = store.unreadable_entries()
    took = f"{time.monotonic() - start:.1f} s"
    if not found:
        kind = (
            f"full check, took {took}" if full else f"quick check, took {took}; --full reads more"
        )
        yield Diagnosis(check="integrity", text=f"intact ({kind})")
        return
    is_in_indexes = all(any(part in it for part in _INDEX_COMPLAINTS) for it in found)
    yield Diagnosis(
        check="integrity",
        severity=Severity.PROBLEM,
        text=f"damaged: {_shortened(found)}",
        remedy="`rekindle doctor --full --fix` rebuilds the indexes"
        if is_in_indexes
        else RECOVER_REMEDY,
        facts={"complaints": found},
        repair=partial(rebuild_indexes, path) if is_in_indexes else recover,
        is_damage=True,
    )


def _shortened(found: list[str]) -> str:
    """Return the first complaints: a damaged page is often reported by many of its rows."""
    lines = [one_line(line) for complaint in found for line in complaint.splitlines()]
    shown = [line for line in lines if not line.startswith(_HEADING)]
    more = len(shown) - _MAX_COMPLAINTS_SHOWN
    text = "; ".join(shown[:_MAX_COMPLAINTS_SHOWN])
    return f"{text}; and {more} more" if more > 0 else text


def check_sessions(store: Inspection, recover: Callable[[], object]) -> Iterator[Diagnosis]:
    """Check whether sessions can be read, and whether all entries have a session."""
    counts = store.counts()
    hidden = {"archived": counts.archived, "deleted": counts.deleted}
    text = ", ".join(f"{number} {group}" for group, number in hidden.items() if number)
    yield Diagnosis(
        check="sessions",
        text=f"{counts.sessions}{f' ({text})' if text else ''}",
        facts={"sessions": counts.sessions, **hidden},
    )
    orphans, unreadable = store.orphaned_keys(), store.unreadable_sessions()
    problems: list[str] = []
    if orphans:
        problems.append(f"{_sessions_are(len(orphans))} missing, but the entries exist")
    if unreadable:
        names = ", ".join(map(one_line, unreadable[:_MAX_NAMES_SHOWN]))
        problems.append(f"{_several(len(unreadable), 'session')} cannot be read: {names}")
    for problem in problems:
        yield Diagnosis(
            check="sessions",
            severity=Severity.PROBLEM,
            text=problem,
            remedy=RECOVER_REMEDY,
            repair=recover,
            is_damage=True,
        )


def check_size(store: Inspection, path: Path) -> Iterator[Diagnosis]:
    """Report the size of the store, its unused part, and a large WAL."""
    page = store.pragma("page_size")
    whole, free = store.pragma("page_count") * page, store.pragma("freelist_count") * page
    is_much = free > _MUCH_FREE and free > whole * _FREE_SHARE
    yield Diagnosis(
        check="size",
        severity=Severity.WARNING if is_much else Severity.OK,
        text=f"{size(whole)}{f', {size(free)} of it unused' if free else ''}",
        remedy="`rekindle compact` reclaims it" if is_much else "",
        facts={"bytes": whole, "free": free},
    )
    wal = wal_path(path)
    if wal.exists() and wal.stat().st_size > _LARGE_WAL:
        yield Diagnosis(
            check="log",
            severity=Severity.WARNING,
            text=f"SQLite's log has {size(wal.stat().st_size)}, because a process reads for a long"
            " time or was killed",
            remedy="`rekindle doctor --fix` writes it into the store",
            repair=partial(truncate_wal, path),
        )


def check_index(path: Path) -> Iterator[Diagnosis]:
    """Check the search index."""
    if not index_path(path).exists():
        return
    found = complaints(path)
    yield Diagnosis(
        check="index",
        severity=Severity.PROBLEM if found else Severity.OK,
        text=f"damaged: {'; '.join(map(one_line, found))}" if found else "intact",
        remedy="`rekindle doctor --fix` empties it; the next search fills it again"
        if found
        else "",
        facts={"path": str(index_path(path)), "complaints": found},
        repair=(lambda: SqliteSearchIndex(path, rebuild=True).close()) if found else None,
    )


# -- users of the store ----------------------------------------------------------------------


def _live_leases(alive: list[LeaseRecord]) -> Diagnosis:
    holders = {(lease.holder.pid, lease.holder.machine) for lease in alive}
    named = ", ".join(f"process {pid} on {one_line(machine)}" for pid, machine in sorted(holders))
    in_use = f"{_several(len(alive), 'session')} in use by {named}"
    sessions = [
        {"id": lease.session_id, "pid": lease.holder.pid, "host": lease.holder.machine}
        for lease in alive
    ]
    return Diagnosis(
        check="live",
        text=in_use if alive else "no session is in use",
        facts={"sessions": sessions},
    )


def check_leftovers(path: Path) -> Iterator[Diagnosis]:
    """Report token files of processes that were killed."""
    left = [file for file in token_files(path) if _is_leftover(file)]
    if left:
        yield Diagnosis(
            check="leftovers",
            severity=Severity.WARNING,
            text=f"{_several(len(left), 'file')} of processes that were killed: "
            + ", ".join(one_line(file.name) for file in left[:_MAX_NAMES_SHOWN]),
            remedy="`rekindle doctor --fix` removes them",
            repair=partial(_remove, left),
        )


def _is_leftover(file: Path) -> bool:
    try:
        seconds = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return False
    # The owner of a fresh one may be about to lock it.
    return seconds > _FRESH_SECONDS and not is_held(file)


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def check_agents(store: Inspection) -> Iterator[Diagnosis]:
    """Report the agents that have sessions, and how their sessions were restored."""
    for usage in store.agents():
        agent = usage.identity
        name = one_line(agent.name or agent.program or "unknown")
        name += f" {one_line(agent.version)}" if agent.version else ""
        command = one_line(shlex.join(agent.command))
        is_missing = bool(agent.command) and shutil.which(agent.command[0]) is None
        last = age(usage.updated_us, time.time_ns() // 1000)
        used = f"{_several(usage.sessions, 'session')}, the last {last} ago"
        start = f"; {command}{' (not installed)' if is_missing else ''}" if command else ""
        yield Diagnosis(
            check="agent",
            text=f"{name}: {used}; {_restored(usage)}{start}",
            facts={
                "name": agent.name,
                "version": agent.version,
                "command": list(agent.command),
                "sessions": usage.sessions,
                "updatedAt": iso(usage.updated_us),
                "restored": usage.restored,
            },
        )


def _restored(usage: AgentUsage) -> str:
    if not usage.restored:
        return "no session was restored yet"
    most_first = sorted(usage.restored.items(), key=lambda item: -item[1])
    methods = [
        f"{_RESTORE_METHODS.get(method, one_line(method))} ({_several(number, 'time')})"
        for method, number in most_first
    ]
    return f"restored {', '.join(methods)}"


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _sessions_are(number: int) -> str:
    return "1 session is" if number == 1 else f"{number} sessions are"
