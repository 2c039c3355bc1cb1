"""Many sessions that stream at once, in several processes and into one store, for a while.

Meanwhile the processes are looked at now and then: what they hold must not grow.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from memory import held_mb
from paced import Talk, count_files
from setups import connected

PROCESSES = 8
_LOOKS = 60
_SECONDS_A_TURN = 10.0
_LONGEST_READING = 20.0
_PATIENCE = 120.0
_MB = 1_000_000

Figures = dict[str, float]


@dataclass(frozen=True)
class Look:
    """What was seen at one time: of the process that has most, and of the store's log."""

    seconds: float
    mb: float
    files: int
    log_mb: float
    is_read: bool
    """Whether somebody was reading a snapshot."""


def stream(store: Path, sessions: int, rate: int, seconds: float) -> Figures:
    """Let them stream; in the middle, somebody else reads one snapshot for a while."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(connected("paced", store, seconds + _PATIENCE))
            for _ in range(PROCESSES)
        ]
        talks = [Talk(connection.client) for connection in connections]
        for number, talk in enumerate(talks):
            talk.open(len(range(number, sessions, PROCESSES)))
        begin = time.monotonic()

        def is_over() -> bool:
            return time.monotonic() >= begin + seconds

        with ThreadPoolExecutor(PROCESSES) as threads:
            turns = min(_SECONDS_A_TURN, seconds / 4)
            work = [threads.submit(talk.stream, is_over, rate, turns) for talk in talks]
            looks: list[Look] = []
            pids = [connection.pid for connection in connections]
            for until, is_read in _parts(seconds):
                with _reading(store, is_wanted=is_read):
                    while time.monotonic() < begin + until:
                        time.sleep(min(seconds / _LOOKS, max(0, begin + until - time.monotonic())))
                        looks.append(_look(store, pids, time.monotonic() - begin, is_read=is_read))
            wait(work)
            for done in work:
                done.result()
    for talk in talks:
        talk.check(store)
    return _figures(talks, looks, seconds)


def _parts(seconds: float) -> tuple[tuple[float, bool], ...]:
    """Return until when there is no reader, until when there is one, and when all ends."""
    middle = seconds / 2
    return (middle, False), (middle + min(seconds / 4, _LONGEST_READING), True), (seconds, False)


@contextmanager
def _reading(store: Path, *, is_wanted: bool) -> Iterator[None]:
    """Read the store as it is now for as long as it takes: its log cannot begin anew meanwhile."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    if is_wanted:
        db.execute("begin; select count(*) from session").fetchall()
    try:
        yield
    finally:
        db.close()


def _look(store: Path, pids: list[int], seconds: float, *, is_read: bool) -> Look:
    return Look(
        seconds=seconds,
        mb=max(held_mb(pid)["resident"] for pid in pids),
        files=max(map(count_files, pids)),
        log_mb=store.with_name(store.name + "-wal").stat().st_size / _MB,
        is_read=is_read,
    )


def _figures(talks: list[Talk], looks: list[Look], seconds: float) -> Figures:
    taken = sorted(us for talk in talks for us in talk.taken_us)
    chunks = sum(heard.chunks for talk in talks for heard in talk.heard.values())
    reading = next(number for number, it in enumerate(looks) if it.is_read)
    # The first turns fill what is filled once.
    settled = [it for it in looks if it.seconds >= seconds / 5]
    return {
        "chunks": chunks,
        "rate": chunks / seconds,
        "p50": taken[len(taken) // 2] / 1000,
        "p99": taken[len(taken) * 99 // 100] / 1000,
        "longest": taken[-1] / 1000,
        "mb_begin": settled[0].mb,
        "mb_end": settled[-1].mb,
        "files_begin": settled[0].files,
        "files_end": settled[-1].files,
        "log": max(it.log_mb for it in looks[:reading]),
        "log_read": max(it.log_mb for it in looks if it.is_read),
        "log_after": looks[-1].log_mb,
        "reading": _parts(seconds)[1][0] - _parts(seconds)[0][0],
    }
