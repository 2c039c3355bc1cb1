"""Nothing leaves loopback: a network namespace of our own, or else proxies that lead nowhere."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence

_BRING_UP = 'ip link set lo up && exec "$@"'
_NOWHERE = "http://127.0.0.1:9"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOCAL = "127.0.0.1,localhost"
# An address that is reserved for documentation: nobody answers there.
_OUTSIDE = ("192.0.2.1", 80)
# What agents see of the machine's own environment.
_KEPT = ("LANG", "LC_ALL", "TERM", "TMPDIR")


def wrapped(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return how to run a command apart from the network, and the environment for that."""
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environ["PATH"] = os.environ.get("PATH", os.defpath)
    for unshare in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        apart = [*unshare, "sh", "-c", _BRING_UP, "sh"]
        if _works([*apart, "true"]):
            return [*apart, *command], environ
    nowhere = dict.fromkeys(_PROXIES, _NOWHERE)
    return list(command), {**environ, **nowhere, "no_proxy": _LOCAL, "NO_PROXY": _LOCAL}


def in_words() -> str:
    """Return how this process is kept from the network, as it finds itself."""
    try:
        with socket.create_connection(_OUTSIDE, timeout=2):
            pass
    except TimeoutError:
        return "proxies that lead nowhere; the network itself was within reach"
    except OSError as error:
        return f"a network namespace that has only loopback (elsewhere: {error.strerror})"
    return "proxies that lead nowhere; the network itself was within reach"


def _works(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
