"""What Codex calls its sessions, and which file of several it goes on with.

Names that were given stand in `session_index.jsonl`, the last one counts; and in a database, beside
titles that are made of the first prompt, and the file of each session.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from rekindle.importers.lines import Lines
from rekindle.importers.records import Reader

_INDEX = "session_index.jsonl"
_LONGEST = 500
_WANTED = ("id", "name", "title", "first_user_message", "rollout_path")
_PATIENCE_MS = 500


class Titles(Struct, frozen=True):
    """What is known of sessions besides their files, by their ids."""

    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    trouble: str = ""
    """Why not all of it is known."""


class _Entry(Struct, gc=False):
    id: str = ""
    thread_name: str = ""


_read_entry = Reader(_Entry)


def titles_in(home: Path) -> Titles:
    """Return what sessions are called."""
    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    trouble = ""
    for database in sorted(home.glob("state_*.sqlite"), key=_number, reverse=True):
        try:
            rows = _rows(database)
        except (apsw.Error, OSError) as error:
            trouble = f"titles in {database.name} cannot be read: {error}"
            continue
        for row in rows:
            thread_id = str(row["id"])
            if title := _title(row):
                names.setdefault(thread_id, title)
            if row.get("rollout_path"):
                paths.setdefault(thread_id, str(row["rollout_path"]))
    return Titles(names | _indexed(home), paths, trouble)


def _number(path: Path) -> tuple[int, str]:
    digits = path.stem.removeprefix("state_")
    return (int(digits) if digits.isascii() and digits.isdigit() else -1), digits


def _title(row: dict[str, Any]) -> str:
    """Return the name that was given, or a title that is more than the first prompt."""
    title = str(row.get("title") or "")
    is_prompt = title.strip() == str(row.get("first_user_message") or "").strip()
    return str(row.get("name") or "") or ("" if is_prompt else title)


def _rows(path: Path) -> list[dict[str, Any]]:
    uri = f"{path.absolute().as_uri()}?{_how(path)}"
    db: Any = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.set_busy_timeout(_PATIENCE_MS)
        has = {row[0] for row in db.execute("SELECT name FROM pragma_table_info('threads')")}
        columns = [name for name in _WANTED if name in has]
        if "id" not in columns:
            return []
        cut = ", ".join(f"substr({name}, 1, {_LONGEST * 8})" for name in columns)
        told = db.execute(f"SELECT {cut} FROM threads")  # noqa: S608 - names of our own
        return [dict(zip(columns, row, strict=True)) for row in told]
    finally:
        db.close()


def _how(path: Path) -> str:
    """Say how a database is opened so that nothing is written beside it.

    What Codex has not yet put into the file is in a log beside it, and is read, too.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        is_live = log.stat().st_size > 0
    except OSError:
        is_live = False
    return "mode=ro&readonly_shm=1" if is_live else "mode=ro&immutable=1"


def _indexed(home: Path) -> dict[str, str]:
    path = home / _INDEX
    try:
        stat = path.stat()
        return _names(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _names(path: Path, size: int, _: int) -> dict[str, str]:
    names: dict[str, str] = {}
    for _place, line in Lines(path, end=size):
        entry = _read_entry(line) if line else None
        if entry is not None and entry.id:
            names[entry.id] = entry.thread_name
    return {thread_id: name for thread_id, name in names.items() if name.strip()}
