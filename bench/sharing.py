"""Measure what further clients of a session cost, and the memory of a host with many of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from client import Client, WrongResult
from measures import Figures, ready
from process_info import held_mb
from rekindle.store.sqlite.store import SqliteStore
from setups import connected

_PROGRAM = str(Path(__file__).with_name("attached_client.py"))
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def shared_stream(store: Path, clients: int, count: int) -> Figures:
    """Return the processor time of the host for each chunk, in µs, with that number of clients."""
    warm_up = count // 10
    with ExitStack() as stack:
        connection = stack.enter_context(connected("rekindle", store))
        client = ready(connection.client, "rekindle")
        client.stream("chunks", warm_up, is_flushed=True)
        attached = [
            stack.enter_context(_attached(store, client.session_id)) for _ in range(clients - 1)
        ]
        begin = _processor_seconds(connection.pid)
        client.stream("chunks", count, is_flushed=True)
        received = [int(process.stdout.readline()) for process in attached]
        seconds = _processor_seconds(connection.pid) - begin
    if any(it != count for it in received):
        raise WrongResult(f"attached clients received {received} of {count} chunks")
    return {"us": seconds / count * 1_000_000}


def crowded_host(store: Path, sessions: int, clients: int, count: int) -> Figures:
    """Return the memory of a host in MB, with clients that each have one of its sessions.

    A turn runs in each session, and every client reads it.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(connected("rekindle", store))
        client = connection.client
        client.initialize()
        idle = held_mb(connection.pid)["resident"]
        for _ in range(sessions):
            _begin_session(client)
            attached = [
                stack.enter_context(_attached(store, client.session_id))
                for _ in range(clients // sessions)
            ]
            client.stream("chunks", count, is_flushed=True)
            for process in attached:
                if int(process.stdout.readline()) != count:
                    raise WrongResult("an attached client has not received the whole turn")
        return {"mb": held_mb(connection.pid)["resident"], "idle": idle}


def _begin_session(client: Client) -> None:
    client.new_session()
    client.begin(is_named=True)


@contextmanager
def _attached(store: Path, session_id: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that attaches to a session, and wait until it has."""
    command = (sys.executable, "-S", _PROGRAM, _socket(store, session_id), session_id)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"ready\n":
            raise WrongResult("a client cannot attach")
        try:
            yield process
        finally:
            process.kill()


def _socket(store: Path, session_id: str) -> str:
    with SqliteStore(store, create=False) as opened:
        holder = opened.lease_holder(session_id)
    if holder is None:
        raise WrongResult("the session has no host")
    return holder.socket


def _processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
