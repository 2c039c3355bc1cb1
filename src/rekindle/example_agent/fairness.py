"""A lock for a thread that talks all the time and others that want a word."""

import threading


class FairLock:
    """A lock that no thread can take again before one that waits for it.

    With a plain lock, a thread that counts to ten million would hardly ever let go of it.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by the thread that is the next to have the lock
        self._taken = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._taken.acquire()

    def __exit__(self, *_: object) -> None:
        self._taken.release()
