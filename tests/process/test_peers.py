"""The process at the other end of a socket, and the descendants of agents."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.process.group import MARK
from rekindle.process.peers import descends_from_agent, peer_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_peer_is_identified() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one) == (os.getuid(), os.getpid())


def process(proc: Path, pid: int, parent: int, environ: bytes = b"") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a (strange) name) S {parent} 1 1")
    (folder / "environ").write_bytes(environ)


def test_descendants_are_recognised_by_their_ancestors(tmp_path: Path) -> None:
    process(tmp_path, 10, os.getpid())
    process(tmp_path, 11, 10)
    process(tmp_path, 20, 1)
    found = [descends_from_agent(pid, tmp_path) for pid in (10, 11, 20)]
    assert found == [True, True, False]


def test_a_process_that_has_ended_cannot_be_judged(tmp_path: Path) -> None:
    assert descends_from_agent(99, tmp_path)
    # The parent may end meanwhile, too.
    process(tmp_path, 40, 41)
    assert descends_from_agent(40, tmp_path)


def test_descendants_are_recognised_by_the_mark(tmp_path: Path) -> None:
    process(tmp_path, 30, 1, f"A=1\0{MARK}={os.getpid()}.5\0".encode())
    process(tmp_path, 31, 1, f"{MARK}={os.getpid() + 1}.5\0".encode())
    assert descends_from_agent(30, tmp_path)
    assert not descends_from_agent(31, tmp_path)


def test_descendants_of_a_trusted_child_are_no_descendants_of_an_agent(tmp_path: Path) -> None:
    process(tmp_path, 10, os.getpid())
    process(tmp_path, 11, 10)
    process(tmp_path, 12, 11, f"{MARK}={os.getpid()}.5\0".encode())
    process(tmp_path, 20, os.getpid())
    found = [descends_from_agent(it, tmp_path, is_trusted={10}.__contains__) for it in (10, 11, 20)]
    assert found == [False, False, True]
    # The mark counts, whatever ancestors it has.
    assert descends_from_agent(12, tmp_path, is_trusted={10}.__contains__)


def test_a_real_child_is_a_descendant_and_a_parent_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert descends_from_agent(child.pid)
        assert not descends_from_agent(os.getppid())
        child.communicate()
