"""Messages outside the protocol."""

import os
import time
from pathlib import Path
from threading import Thread

import pytest

from rekindle.errors import UsageError
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


def test_a_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for text in ("one", "two"):
        with Log(path) as log:
            log.note(text)
    assert [line.split("] ")[1] for line in path.read_text().splitlines()] == ["one", "two"]


def test_a_foreign_file_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / ".profile"
    path.write_text("export PATH\n")
    with pytest.raises(UsageError, match="not a log of Rekindle"):
        Log(path)
    assert path.read_text() == "export PATH\n"


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "log"
    link.symlink_to(target)
    with pytest.raises(UsageError, match="symbolic link"):
        Log(link)
    assert not target.exists()


def test_a_device_can_be_a_log() -> None:
    with Log(Path("/dev/null")) as log:
        log.note("one")


@pytest.mark.parametrize(
    "path", ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2", "/dev/../dev/fd/2"]
)
def test_a_stream_of_the_process_can_be_a_log(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    if not os.path.lexists(path):
        pytest.skip(f"no {path} on this system")
    os.write(2, b"before\n")
    with Log(Path(path)) as log:
        log.note("one")
    os.write(2, b"after\n")
    before, note, after = capfd.readouterr().err.splitlines()
    assert (before, note.split("] ")[1], after) == ("before", "one", "after")


def test_a_closed_stream_is_no_log() -> None:
    with pytest.raises(UsageError, match="cannot write the log /dev/fd/9999"):
        Log(Path("/dev/fd/9999"))
