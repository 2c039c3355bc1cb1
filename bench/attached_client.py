"""A client that is attached to a host: it reads a session, and counts the updates of a turn.

attached_client.py SOCKET SESSION: print "ready" once attached, and the number of chunks after the
turn; stay until the input ends. It does little work per byte, so that the host has the processors.
"""

import json
import os
import socket
import sys

_CHUNK = b'"agent_message_chunk"'
_READ_SIZE = 1 << 20


def attach(path: str, session_id: str) -> socket.socket:
    """Return a connection to a host that has opened a session."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.realpath(path))
    info = {"name": "bench", "version": "1"}
    # As other processes of Rekindle do, which want to know the entries that they have.
    meta = {"rekindle": {"positions": True}}
    initialize = {"protocolVersion": 1, "clientInfo": info, "_meta": meta}
    _call(connection, 1, "initialize", initialize)
    params = {"sessionId": session_id, "cwd": "/home/user/project", "mcpServers": []}
    _call(connection, 2, "session/resume", params)
    return connection


def _call(connection: socket.socket, number: int, method: str, params: object) -> None:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    connection.sendall(json.dumps(message).encode() + b"\n")
    data = b""
    while b'"id":%d,' % number not in data:
        data += connection.recv(_READ_SIZE)
    if b'"result"' not in data:
        raise SystemExit(f"{method}: {data!r}")


def count_turn(connection: socket.socket) -> int:
    """Return the number of chunks up to the end of a turn."""
    count, tail = 0, b""
    while True:
        data = connection.recv(_READ_SIZE)
        if not data:
            return count
        *whole, tail = (tail + data).split(b"\n")
        count += sum(_CHUNK in line for line in whole)
        if any(b'"state":"idle"' in line for line in whole):
            return count


if __name__ == "__main__":
    attached = attach(sys.argv[1], sys.argv[2])
    print("ready", flush=True)
    print(count_turn(attached), flush=True)
    sys.stdin.read()
