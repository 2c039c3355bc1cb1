import threading
from queue import SimpleQueue

import pytest

from rekindle.runtime.long_readings import LongReadings


def fail() -> object:
    raise ValueError("a fault")


def test_a_result_is_given_to_the_driver() -> None:
    results: SimpleQueue[object] = SimpleQueue()
    may_read = threading.Event()
    readings = LongReadings()
    assert not readings
    assert readings.start(lambda: may_read.wait(10), results.put)
    assert readings
    may_read.set()
    assert results.get(timeout=10) is True
    assert readings.start(fail, results.put)
    assert results.get(timeout=10) is None


def test_it_ends_with_the_last_thread() -> None:
    readings = LongReadings()
    threads: SimpleQueue[threading.Thread] = SimpleQueue()
    assert readings.start(lambda: None, lambda _: threads.put(threading.current_thread()))
    threads.get(timeout=10).join(10)
    assert not readings


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    readings = LongReadings()
    assert not readings.start(lambda: None, lambda _: None)
    assert not readings
