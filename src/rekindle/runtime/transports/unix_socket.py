"""The unix socket transport: other processes of the user, as clients of a host.

Knows no messages.
"""

import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from rekindle.errors import EndlessLine
from rekindle.process.deadline import Deadline
from rekindle.process.peers import descends_from_agent, peer_of
from rekindle.runtime.transports.pipe_writer import PipeWriter
from rekindle.runtime.transports.stdio import read_lines

MAX_PATH_BYTES = 103
"""The longest path that every system accepts, without the final null byte."""
_CONNECT_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 1.0
_POLL_SECONDS = 0.01
LOG_SUFFIX = ".log"
"""The suffix of the file beside a socket that has the agent's stderr without a client."""
_UNFINISHED = ".new"
_SHORT_NAME = "s.sock"
_BACKLOG = 128


class SocketConnection:
    """One end of a connection. A slow reader holds no thread back."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self._socket = connection
        self.writer = PipeWriter(connection.fileno(), self.hang_up, may_wait=False)

    def read(self) -> Iterator[bytes]:
        """Yield the whole lines of each read, until the other end closes the connection."""
        with suppress(EndlessLine):
            for lines, is_terminated in read_lines(self._socket.fileno()):
                if is_terminated:
                    yield lines

    def hang_up(self) -> None:
        """End the connection. The thread that reads from it notices this."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def finish(self, timeout: float) -> None:
        """Let the other end read the queued lines for at most some time, and hang up."""
        writing = Thread(target=self.writer.finish, daemon=True)
        writing.start()
        writing.join(timeout)
        self.hang_up()

    def close(self) -> None:
        """Close the connection. Only the thread that reads from it may call this."""
        self.hang_up()
        deadline = Deadline(_CLOSE_TIMEOUT)
        while not self.writer.close() and not deadline.has_passed:
            time.sleep(_POLL_SECONDS)
        self._socket.close()


def connect(path: str) -> SocketConnection:
    """Connect to a host. Raises OSError."""
    return SocketConnection(open_socket(path, _CONNECT_TIMEOUT))


def open_socket(path: str, timeout: float) -> socket.socket:
    """Return a socket that is connected to a host. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(os.path.realpath(path))
        _check_user(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_user(connection: socket.socket) -> None:
    if peer_of(connection).uid != os.getuid():
        raise PermissionError(errno.EACCES, "the host belongs to another user")


class SocketListener:
    """Accepts connections of the same user's processes, except those of the own agent.

    `path` is a name in a private folder. If it is too long for a socket, it is a link to a short
    one. The socket is made again if it vanishes. `is_trusted` returns whether this process has
    started a process that is no agent.
    """

    def __init__(
        self,
        path: Path,
        on_connection: Callable[[SocketConnection], None],
        is_trusted: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.path = path
        self._is_trusted = is_trusted
        self._on_connection = on_connection
        self._short_folder: Path | None = None
        self._socket: socket.socket | None = None
        self._inode = (0, 0)
        self._is_closed = False
        self._listen()

    def ensure(self) -> None:
        """Make the socket again if it has vanished. Raises OSError."""
        if not self._is_closed and self._inode != _inode(self.path):
            self._listen()

    def close(self) -> None:
        """Accept nothing more, and remove the socket."""
        self._is_closed = True
        if self._socket is not None:
            _stop(self._socket)
        if self._inode == _inode(self.path):
            self._remove()

    def _listen(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        former, listening = self._socket, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove()
            is_long = len(os.fsencode(self.path)) > MAX_PATH_BYTES
            place = self._short_place() if is_long else self.path
            # Other processes find the socket once it accepts connections.
            unfinished = place.with_suffix(_UNFINISHED)
            unfinished.unlink(missing_ok=True)
            listening.bind(str(unfinished))
            unfinished.chmod(0o600)
            listening.listen(_BACKLOG)
            unfinished.rename(place)
            if is_long:
                self.path.symlink_to(place)
        except BaseException:
            listening.close()
            raise
        self._socket, self._inode = listening, _inode(self.path)
        Thread(target=self._accept, args=(listening,), daemon=True).start()
        if former is not None:
            _stop(former)

    def _short_place(self) -> Path:
        import tempfile  # noqa: PLC0415 - slow to import, and seldom needed

        if self._short_folder is None or not self._short_folder.exists():
            self._short_folder = Path(tempfile.mkdtemp(prefix="rekindle-", dir=_short_parent()))
        return self._short_folder / _SHORT_NAME

    def _remove(self) -> None:
        if self._short_folder is not None:
            (self._short_folder / _SHORT_NAME).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        if self._is_closed and self._short_folder is not None:
            with suppress(OSError):
                self._short_folder.rmdir()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                if self._is_closed or listening.fileno() < 0 or listening is not self._socket:
                    return
                # Too many files are open, or the peer has left already.
                time.sleep(_POLL_SECONDS)
                continue
            try:
                peer = peer_of(connection)
                is_allowed = peer.uid == os.getuid() and not descends_from_agent(
                    peer.pid, is_trusted=self._is_trusted
                )
            except OSError:
                is_allowed = False
            if is_allowed:
                self._on_connection(SocketConnection(connection))
            else:
                connection.close()


def remove_dead_sockets(folder: Path) -> None:
    """Remove the sockets of hosts that were killed."""
    for path in folder.glob("*.sock"):
        try:
            connect(str(path)).close()
        except (ConnectionRefusedError, FileNotFoundError):
            # A host that was killed leaves its socket, and a system that starts removes short ones.
            with suppress(OSError):
                place = Path(os.path.realpath(path))
                place.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
                path.with_suffix(LOG_SUFFIX).unlink(missing_ok=True)
                if place != path and place.name == _SHORT_NAME:
                    place.parent.rmdir()
        except OSError:
            continue


def _short_parent() -> str:
    """Return a folder with a short path, for a private folder."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = 0 < len(folder) < MAX_PATH_BYTES // 2 and Path(folder).is_dir()
    return folder if is_usable else "/tmp"  # noqa: S108 - the folder made in it is private


def _inode(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else (0, 0)


def _stop(listening: socket.socket) -> None:
    # A thread that waits in `accept` wakes up only after this.
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
