"""The client process: it forwards messages of the harness, and writes all input to a journal.

The journal has exactly the bytes that the client received. The process imports little.
"""

import os
import select
from pathlib import Path

FROM_HARNESS, TO_REKINDLE, FROM_REKINDLE = 0, 1, 2
_READ = 65536


def pump(journal: Path) -> None:
    """Forward and record until Rekindle closes its output. The descriptors are already set up."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    notes = os.open(journal, flags, 0o600)
    sources = {FROM_HARNESS: TO_REKINDLE, FROM_REKINDLE: notes}
    poll = select.poll()
    for source in sources:
        poll.register(source, select.POLLIN)
    while FROM_REKINDLE in sources:
        for source, _ in poll.poll():
            data = os.read(source, _READ)
            if data:
                _write(sources[source], data)
            else:
                poll.unregister(source)
                os.close(sources.pop(source))


def _write(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        # Rekindle does not read any more, but may still write.
        return
