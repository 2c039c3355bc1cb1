"""Read long sessions in threads of their own, while the driver processes other events."""

from collections.abc import Callable
from threading import Thread


class LongReadings:
    """The readings of one driver that have not ended."""

    def __init__(self) -> None:
        self._threads: set[Thread] = set()

    def __bool__(self) -> bool:
        return bool(self._threads)

    def start(self, read: Callable[[], object], done: Callable[[object], None]) -> bool:
        """Call `read` in a thread, and then `done` with its result, which is None if it fails.

        Return whether a thread could be started.
        """

        def run() -> None:
            try:
                done(_result_of(read))
            finally:
                self._threads.discard(thread)

        thread = Thread(target=run, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            # The system allows no further thread.
            self._threads.discard(thread)
            return False
        return True


def _result_of(read: Callable[[], object]) -> object:
    try:
        return read()
    except Exception:  # noqa: BLE001 - the driver then reads with its lock held, and reports faults
        return None
