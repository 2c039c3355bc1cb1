from queue import Empty

import pytest

from rekindle.runtime.transports.in_process import InProcessPeer


def test_a_peer_receives_single_lines() -> None:
    peer = InProcessPeer()
    peer.queue(b"one\ntwo\n")
    peer.queue(b"three")
    assert [peer.next_line(0) for _ in range(3)] == [b"one", b"two", b"three"]
    with pytest.raises(Empty):
        peer.next_line(0)


def test_a_peer_sends_to_the_driver_it_is_connected_to() -> None:
    peer, received = InProcessPeer(), list[bytes]()
    with pytest.raises(ValueError, match="not connected"):
        peer.send(b"lost")
    peer.connect(received.append)
    peer.send(b"one")
    assert received == [b"one"]


def test_a_peer_never_blocks_the_driver() -> None:
    peer = InProcessPeer()
    peer.queue(b"one\n")
    peer.flush()
    peer.flush_in_background()
    peer.flush_or_wait()
    assert not peer.is_writing
    assert not peer.is_full
