"""Let the processes that tests start receive signals that the test process ignores.

`nohup` ignores SIGHUP, and a shell ignores SIGINT and SIGQUIT for a command in the background. New
processes inherit this, so tests that send such a signal to a process would wait for nothing.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager

_IGNORED_BY_SHELLS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


@contextmanager
def default_in_children() -> Generator[None]:
    """Replace ignored signals by a handler that does nothing.

    The test process still survives them. Unlike an ignored signal, a handler is not inherited:
    a new process has the default.
    """
    ignored = [it for it in _IGNORED_BY_SHELLS if signal.getsignal(it) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
