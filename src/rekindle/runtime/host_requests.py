"""Send requests to hosts: the processes that use sessions of a store now."""

import json
from contextlib import closing
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.errors import HostError
from rekindle.jsonvalue import as_object, as_str, decode_object
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


def hosts_of(address: StoreAddress) -> list[Host]:
    """Return the hosts of a store that run now, in the order of their start."""
    hosts: list[Host] = []
    for path in sorted(hosts_folder(address).glob("*.sock")):
        try:
            status = ask_host(str(path), methods.HOST_STATUS, {}, STATUS_TIMEOUT)
        except TimeoutError:
            hosts.append(Host(str(path), None))
        except (OSError, HostError):
            # It has ended, or ends now.
            continue
        else:
            hosts.append(Host(str(path), status))
    return sorted(hosts, key=lambda it: as_str((it.status or {}).get("startedAt")) or "")


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
