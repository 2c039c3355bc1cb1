"""The files by which processes find the hosts of a store."""

import os
from hashlib import sha256
from pathlib import Path

from rekindle.store.address import StoreAddress

_TOKEN_CHARACTERS = 16


def hosts_folder(address: StoreAddress) -> Path:
    """Return the folder of the sockets of a store's hosts. It is beside a store that is a file."""
    if os.path.isabs(address.location):  # noqa: PTH117 - a location is not always a path
        return Path(f"{address.location}.hosts")
    name = sha256(address.as_option.encode()).hexdigest()[:_TOKEN_CHARACTERS]
    parent = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/rekindle-{os.getuid()}"  # noqa: S108
    return Path(parent) / "rekindle" / name


def socket_path(address: StoreAddress, token: str) -> Path:
    """Return the path of a host's socket."""
    return hosts_folder(address) / f"{token[:_TOKEN_CHARACTERS]}.sock"
