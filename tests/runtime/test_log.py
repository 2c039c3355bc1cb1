"""Messages outside the protocol."""

import time
from threading import Thread

import pytest

from rekindle.runtime.log import Log
from stdio_client import TIMEOUT


def test_a_report_after_an_idle_moment_is_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log() as log:
        log.report("one")
        told, deadline = "", time.monotonic() + TIMEOUT
        while not told and time.monotonic() < deadline:
            told = capfd.readouterr().err
        assert told == "rekindle: one\n"
        # A thread that is about to end still counts as alive.
        monkeypatch.setattr(Thread, "is_alive", lambda _: True)
        log.report("two")
    assert capfd.readouterr().err == "rekindle: two\n"
