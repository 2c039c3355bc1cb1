"""The socket of a host: who may connect, where it is, and what happens if it vanishes."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from rekindle.runtime.transports.unix_socket import (
    MAX_PATH_BYTES,
    SocketConnection,
    SocketListener,
    connect,
    remove_dead_sockets,
)

TIMEOUT = 20


class Host:
    """A listener that sends each line back."""

    def __init__(self, path: Path) -> None:
        self.accepted: SimpleQueue[SocketConnection] = SimpleQueue()
        self.listener = SocketListener(path, self.accepted.put)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "hosts" / "a.sock")
    yield made
    made.listener.close()


def exchange(host: Host) -> None:
    """Send a line in each direction."""
    ours = connect(str(host.listener.path))
    theirs = host.accepted.get(timeout=TIMEOUT)
    ours.writer.queue(b"there\n")
    ours.writer.flush()
    assert next(theirs.read()) == b"there"
    theirs.writer.queue(b"back\n")
    theirs.finish(TIMEOUT)
    assert list(ours.read()) == [b"back"]
    ours.close()
    theirs.close()


def test_lines_pass_in_both_directions(host: Host) -> None:
    exchange(host)
    exchange(host)


def test_the_socket_is_private(host: Host) -> None:
    path = host.listener.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_socket_that_vanishes_is_made_again(host: Host) -> None:
    before = host.listener.path.stat().st_ino
    host.listener.ensure()
    assert host.listener.path.stat().st_ino == before
    host.listener.path.unlink()
    host.listener.path.parent.rmdir()
    host.listener.ensure()
    exchange(host)


def test_a_closed_listener_leaves_nothing(host: Host) -> None:
    host.listener.close()
    assert list(host.listener.path.parent.iterdir()) == []
    host.listener.ensure()
    with pytest.raises(OSError, match="No such file"):
        connect(str(host.listener.path))


def test_a_long_path_is_a_link_to_a_short_one(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    host = Host(deep / "a.sock")
    place = host.listener.path.readlink()
    assert len(os.fsencode(place)) <= MAX_PATH_BYTES
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    exchange(host)
    place.unlink()
    host.listener.ensure()
    exchange(host)
    host.listener.close()
    assert list(deep.iterdir()) == []
    assert not place.parent.exists()


def test_sockets_of_killed_hosts_are_removed(tmp_path: Path, host: Host) -> None:
    folder = host.listener.path.parent
    dead = folder / "dead.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(dead))
    short = tmp_path / "short"
    short.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(short / "s.sock"))
    (folder / "link.sock").symlink_to(short / "s.sock")
    (folder / "broken.sock").symlink_to(tmp_path / "nowhere")
    remove_dead_sockets(folder)
    assert not dead.exists()
    assert not short.exists()
    assert {it.name for it in folder.iterdir()} == {"a.sock"}
    # The living host has been tried.
    tried = host.accepted.get(timeout=TIMEOUT)
    assert list(tried.read()) == []
    tried.close()
    exchange(host)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_descendant_of_the_own_agent_is_refused(host: Host) -> None:
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        " print(s.recv(1))"
    )
    command = [sys.executable, "-c", script, str(host.listener.path)]
    refused = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT)
    assert refused.stdout == b"b''\n"
    assert host.accepted.empty()


def test_a_failed_accept_does_not_end_the_listener(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(24, "too many open files"), OSError(103, "connection aborted")]
    accept = socket.socket.accept

    def fail_first(listening: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return accept(listening)

    # The thread waits in the original function, which serves the first connection.
    monkeypatch.setattr(socket.socket, "accept", fail_first)
    exchange(host)
    exchange(host)
    assert not failures
