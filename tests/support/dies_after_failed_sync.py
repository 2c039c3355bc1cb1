"""Record in the store at `argv[1]`, let a sync fail, and die at once."""

import os
import signal
import sys
from pathlib import Path

from failing_disk import WAL, failing_disk

from rekindle.model import Change, Counted, EntryBatch, Kind, Side
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.sqlite.pending import PendingFile
from rekindle.store.sqlite.store import SqliteStore


def prompt(number: int) -> list[Change]:
    batch = EntryBatch(
        session_id="s", side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, data=b"%d" % number
    )
    return [Counted(session_id="s", at_us=1, turns=1, messages=1), batch]


def main(path: Path) -> None:
    with failing_disk() as disk:
        recorder = Recorder(
            lambda: SqliteStore(path), Log(), open_pending=lambda token: PendingFile(path, token)
        )
        recorder.record(prompt(1), sync=True)
        disk.faults = {("sync", WAL)}
        recorder.record(prompt(2), sync=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
