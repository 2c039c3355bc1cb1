"""Writers that hold no thread back, and the temporary file for slow readers."""

import os
import socket
import tempfile
import time
from threading import Thread
from typing import IO

import pytest

from rekindle.runtime.transports import pipe_writer
from rekindle.runtime.transports.pipe_writer import PipeWriter, Spool

TIMEOUT = 20
LINE = b"x" * 999 + b"\n"


def read_all(fd: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += os.read(fd, 65536)
    return bytes(data)


def test_a_spool_returns_bytes_in_order() -> None:
    spool = Spool()
    assert not spool
    spool.put(b"one")
    spool.put(b"two")
    assert spool
    assert spool.take() == b"onetwo"
    assert not spool
    spool.put(b"three")
    assert spool.take() == b"three"


def test_a_spool_uses_memory_if_its_file_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool()

    def fail(**_: object) -> IO[bytes]:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", fail)
        spool.put(b"one")
    spool.put(b"two")
    assert [spool.take(), spool.take()] == [b"one", b"two"]
    assert not spool
    spool.put(b"three")
    assert spool.take() == b"three"


def test_a_writer_that_must_not_wait_returns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_writer, "_MAX_UNSPOOLED_BYTES", 10_000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0)
        writer = PipeWriter(ours.fileno(), lambda: None, may_wait=False)
        for _ in range(3000):
            # No reader: this would block in a writer that waits.
            writer.queue(LINE)
            writer.flush()
        assert not writer.is_full
        assert read_all(theirs.fileno(), 3000 * len(LINE)) == LINE * 3000
        writer.queue(b"after\n")
        writer.flush()
        assert read_all(theirs.fileno(), 6) == b"after\n"
        writer.close()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_thread_that_waits_for_the_reader_is_released(kind: str) -> None:
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        ours, theirs = socket.socketpair()
        reading, writing = theirs.detach(), ours.detach()
    writer = PipeWriter(writing, lambda: None)
    writer.become_interruptible()
    data = LINE * 1000
    writer.queue(data)
    waiting = Thread(target=writer.flush)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    writer.never_wait()
    waiting.join(TIMEOUT)
    assert not waiting.is_alive()
    assert read_all(reading, len(data)) == data
    assert os.get_blocking(writing)
    while not writer.close():
        pass
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="reads /proc")  # noqa: PTH110
def test_a_writer_that_is_closed_while_it_waits_lets_go_of_the_pipe() -> None:
    read, write = os.pipe()
    writer = PipeWriter(write, lambda: None, may_wait=False)
    writer.become_interruptible()
    writer.queue(LINE * 1000)
    writer.flush()
    # The pipe is full: a thread waits until the client reads.
    deadline = time.monotonic() + TIMEOUT
    while not writer.is_writing:
        assert time.monotonic() < deadline
    is_free = writer.close()
    os.close(write)
    received = 0
    # The end comes once the writer has closed its own descriptor.
    while data := os.read(read, 65536):
        received += len(data)
    os.close(read)
    assert not is_free
    assert received < len(LINE) * 1000


def test_lines_stay_in_order_when_a_writer_may_wait_again() -> None:
    read, write = os.pipe()
    writer = PipeWriter(write, lambda: None)
    writer.never_wait()
    for number in range(400):
        writer.queue(b"%0999d\n" % number)
    # Some of them are in the file now.
    writer.wait_again()
    for number in range(400, 500):
        writer.queue(b"%0999d\n" % number)
    thread = Thread(target=writer.flush)
    thread.start()
    lines = read_all(read, 500 * 1000).splitlines()
    thread.join(TIMEOUT)
    os.close(read)
    os.close(write)
    assert [int(line) for line in lines] == list(range(500))
