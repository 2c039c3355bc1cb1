"""Put a store into unusual states."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.pragma("locking_mode", "exclusive")
db.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def kept_by_another(path: Path) -> Iterator[None]:
    """Let another process hold an exclusive lock on a database."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _HOLD, path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            process.kill()
