"""Who uses the store now, and what those have left behind that use it no more."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.cli.doctor import Finding, Level, some
from rekindle.cli.doctor.location import tokens
from rekindle.cli.formatting import one_line
from rekindle.store.address import open_store
from rekindle.store.sqlite.filelock import is_held
from rekindle.store.sqlite.inspect import Lease

_FRESH_SECONDS = 60.0


def check_holders(leases: list[Lease], path: Path) -> Iterator[Finding]:
    """Tell which sessions are in use, and which are held by processes that are gone."""
    yield _live(leases)
    yield from _dead(leases, path)


def _live(leases: list[Lease]) -> Finding:
    alive = [lease for lease in leases if lease.is_alive]
    users = {(it.holder.pid, it.holder.host) for it in alive}
    named = ", ".join(f"process {pid} on {one_line(host)}" for pid, host in sorted(users))
    return Finding(
        check="live",
        what=f"{some(len(alive), 'session')} in use by {named}"
        if alive
        else "no session is in use",
        facts={
            "sessions": [
                {"id": it.session_id, "pid": it.holder.pid, "host": it.holder.host} for it in alive
            ]
        },
    )


def _dead(leases: list[Lease], path: Path) -> Iterator[Finding]:
    dead = [lease for lease in leases if not lease.is_alive]
    # A lock is only seen on the machine that has it.
    here = [lease for lease in dead if lease.holder.host == os.uname().nodename]
    elsewhere = len(dead) - len(here)
    if here:
        yield Finding(
            check="leases",
            level=Level.WARNING,
            what=f"{_sessions(len(here))} held by processes that are gone; it keeps nobody out",
            remedy="rekindle doctor --fix gives them up",
            facts={"sessions": [it.session_id for it in here]},
            mend=partial(_release, path, here),
        )
    if elsewhere:
        yield Finding(
            check="leases",
            what=f"{_sessions(elsewhere)} held from another machine, or from this one when it had "
            "another name; it keeps nobody out here",
        )


def check_leftovers(path: Path) -> Iterator[Finding]:
    """Look for files that nobody uses any more."""
    left = [file for file in tokens(path) if _is_left(file)]
    if left:
        yield Finding(
            check="leftovers",
            level=Level.WARNING,
            what=f"{some(len(left), 'file')} of processes that were killed: "
            + ", ".join(one_line(file.name) for file in left[:5]),
            remedy="rekindle doctor --fix removes them",
            mend=partial(_remove, left),
        )


def _is_left(file: Path) -> bool:
    try:
        age = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return False
    # A fresh one may be about to be locked.
    return age > _FRESH_SECONDS and not is_held(file)


def _release(path: Path, leases: list[Lease]) -> None:
    with open_store(path) as store:
        for lease in leases:
            store.release(lease.holder)


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _sessions(number: int) -> str:
    return "1 session is" if number == 1 else f"{number} sessions are"
