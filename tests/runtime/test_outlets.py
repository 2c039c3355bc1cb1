"""The outlets of a driver: who waits for a slow reader."""

import os

from rekindle.proxy.peers import Peer
from rekindle.runtime.outlets import Outlets
from rekindle.runtime.transports.pipe_writer import PipeWriter

MUCH = b"x" * (17 << 20) + b"\n"


def test_only_several_clients_are_never_waited_for() -> None:
    read, write = os.pipe()
    try:
        outlets = Outlets()
        first = PipeWriter(write, lambda: None)
        outlets.add_client(Peer(1), first)
        outlets.add_client(Peer(2), PipeWriter(write, lambda: None, may_wait=False))
        first.queue(MUCH)
        assert not first.is_full
        outlets.remove_client(Peer(2))
        # From now on, the agent waits for the only client again.
        assert first.is_full
    finally:
        os.close(read)
        os.close(write)


def test_a_client_on_a_socket_is_not_waited_for_when_it_is_the_only_one() -> None:
    read, write = os.pipe()
    try:
        outlets = Outlets()
        remote = PipeWriter(write, lambda: None, may_wait=False)
        outlets.add_client(Peer(1), PipeWriter(write, lambda: None))
        outlets.add_client(Peer(2), remote)
        outlets.remove_client(Peer(1))
        remote.queue(MUCH)
        assert not remote.is_full
    finally:
        os.close(read)
        os.close(write)
