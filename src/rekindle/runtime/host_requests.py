"""Send requests to hosts: the processes that use sessions of a store now."""

import json
from contextlib import closing
from threading import Thread
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.errors import HostError
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.process.peers import peer_of
from rekindle.runtime.host_files import hosts_folder
from rekindle.runtime.transports.unix_socket import open_socket
from rekindle.store.address import StoreAddress

STATUS_TIMEOUT = 2.0
RELEASE_TIMEOUT = 25.0
"""Longer than a host waits for its agent."""
_READ_BYTES = 65536


class Host(Struct, frozen=True):
    """A host, and its description of itself."""

    socket: str
    status: dict[str, Any] | None
    """None if it does not answer, because it was stopped or is overloaded."""
    pid: int = 0
    """Its process id; 0 if unknown."""


def hosts_of(address: StoreAddress, timeout: float = STATUS_TIMEOUT) -> list[Host]:
    """Return the hosts of a store that run now, in the order of their start."""
    hosts: list[Host] = []

    def ask(path: str) -> None:
        try:
            status = ask_host(path, methods.HOST_STATUS, {}, timeout)
            hosts.append(Host(path, status, int(status.get("pid") or 0)))
        except TimeoutError:
            hosts.append(Host(path, None, _pid_of(path, timeout)))
        except (OSError, HostError):
            # It has ended, or ends now.
            return

    # At the same time, because several may not answer.
    paths = hosts_folder(address).glob("*.sock")
    threads = [Thread(target=ask, args=(str(path),), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(hosts, key=lambda it: (_started_at(it), it.socket))


def _pid_of(path: str, timeout: float) -> int:
    """Return the id of a process that does not answer. The system knows it."""
    try:
        with closing(open_socket(path, timeout)) as connection:
            return peer_of(connection).pid
    except OSError:
        return 0


def _started_at(host: Host) -> str:
    return as_str((host.status or {}).get("startedAt")) or ""


def host_with(address: StoreAddress, session_id: str) -> Host | None:
    """Return the host that has a session open, if it answers."""
    for host in hosts_of(address):
        sessions = map(as_object, as_array((host.status or {}).get("sessions")))
        if any(it.get("sessionId") == session_id for it in sessions):
            return host
    return None


def turn_states(address: StoreAddress) -> dict[str, str]:
    """Return the state of the turn of each session that a host of a store has open.

    It is `running`, `requires_action` or `idle`. Hosts that do not answer at once are left out.
    """
    sessions = (as_array((host.status or {}).get("sessions")) for host in hosts_of(address, 0.5))
    described = [as_object(it) for its in sessions for it in its]
    return {str(it.get("sessionId")): as_str(it.get("state")) or "" for it in described}


def ask_host(path: str, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Return the result of a request to a host. Raises OSError, TimeoutError, HostError."""
    if not path:
        raise HostError("it has no socket")
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with closing(open_socket(path, timeout)) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = decode_object(_read_line(connection.makefile("rb"))) or {}
    if "result" not in answer:
        error = as_object(answer.get("error"))
        raise HostError(as_str(error.get("message")) or "the host has closed the connection")
    return as_object(answer["result"])


def _read_line(stream: Any) -> bytes:  # noqa: ANN401 - a file of a socket
    with stream:
        return bytes(stream.readline())
