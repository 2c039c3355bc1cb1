"""The preview of a session in the picker."""

import json
from pathlib import Path

from picker_store import write
from rekindle.cli.picker.preview import render_preview
from rekindle.model import EntryBatch, Kind, Side
from rekindle.store.sqlite.store import SqliteStore


def test_a_rewind_to_an_early_turn_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    prompts = [f"prompt {number}" for number in range(4000)]
    write(path, "ses", tmp_path, "Many", *prompts)
    update = {"sessionUpdate": "history_truncated", "lastMessageId": "rekindle-3"}
    line = json.dumps({"method": "session/update", "params": {"update": update}}).encode()
    with SqliteStore(path) as store:
        assert "prompt 3999" in render_preview(store, store.session("ses"), 80).plain
        rewind = EntryBatch(session_id="ses", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=line)
        store.write([rewind])
        shown = render_preview(store, store.session("ses"), 80).plain
    assert "prompt 1" in shown
    assert "prompt 2" not in shown
