"""Many sessions that stream at the same time, from several processes into one store.

Memory and open files of the processes are sampled meanwhile: they must not grow.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from paced_client import PacedClient, count_files
from process_info import held_mb
from setups import connected

PROCESSES = 8
_SAMPLES = 60
_SECONDS_PER_TURN = 10.0
_MAX_SNAPSHOT_SECONDS = 20.0
_TIMEOUT = 120.0
_MB = 1_000_000

Figures = dict[str, float]


@dataclass(frozen=True)
class ResourceSample:
    """The largest values of any process at one time, and the size of the WAL."""

    seconds: float
    mb: float
    files: int
    log_mb: float
    is_read: bool
    """Whether a reader held a snapshot."""


def stream(store: Path, sessions: int, rate: int, seconds: float) -> Figures:
    """Stream in all sessions. In the middle, a reader holds one snapshot for a while."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(connected("paced", store, seconds + _TIMEOUT))
            for _ in range(PROCESSES)
        ]
        clients = [PacedClient(connection.client) for connection in connections]
        for number, client in enumerate(clients):
            client.open(len(range(number, sessions, PROCESSES)))
        begin = time.monotonic()

        def is_over() -> bool:
            return time.monotonic() >= begin + seconds

        with ThreadPoolExecutor(PROCESSES) as threads:
            turns = min(_SECONDS_PER_TURN, seconds / 4)
            work = [threads.submit(client.stream, is_over, rate, turns) for client in clients]
            samples: list[ResourceSample] = []
            pids = [connection.pid for connection in connections]
            for until, is_read in _parts(seconds):
                with _snapshot(store, is_wanted=is_read):
                    while time.monotonic() < begin + until:
                        time.sleep(
                            min(seconds / _SAMPLES, max(0, begin + until - time.monotonic()))
                        )
                        samples.append(
                            _sample(store, pids, time.monotonic() - begin, is_read=is_read)
                        )
            wait(work)
            for done in work:
                done.result()
    for client in clients:
        client.check(store)
    return _figures(clients, samples, seconds)


def _parts(seconds: float) -> tuple[tuple[float, bool], ...]:
    """Return the ends of three parts, each with whether a reader holds a snapshot."""
    middle = seconds / 2
    return (
        (middle, False),
        (middle + min(seconds / 4, _MAX_SNAPSHOT_SECONDS), True),
        (seconds, False),
    )


@contextmanager
def _snapshot(store: Path, *, is_wanted: bool) -> Iterator[None]:
    """Hold a snapshot of the store. SQLite cannot restart its WAL meanwhile."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    if is_wanted:
        db.execute("begin; select count(*) from session").fetchall()
    try:
        yield
    finally:
        db.close()


def _sample(store: Path, pids: list[int], seconds: float, *, is_read: bool) -> ResourceSample:
    return ResourceSample(
        seconds=seconds,
        mb=max(held_mb(pid)["resident"] for pid in pids),
        files=max(map(count_files, pids)),
        log_mb=store.with_name(store.name + "-wal").stat().st_size / _MB,
        is_read=is_read,
    )


def _figures(clients: list[PacedClient], samples: list[ResourceSample], seconds: float) -> Figures:
    taken = sorted(us for client in clients for us in client.latencies_us)
    chunks = sum(received.chunks for client in clients for received in client.received.values())
    reading = next(number for number, sample in enumerate(samples) if sample.is_read)
    # The first turns fill caches.
    settled = [sample for sample in samples if sample.seconds >= seconds / 5]
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
        "log": max(sample.log_mb for sample in samples[:reading]),
        "log_read": max(sample.log_mb for sample in samples if sample.is_read),
        "log_after": samples[-1].log_mb,
        "reading": _parts(seconds)[1][0] - _parts(seconds)[0][0],
    }
