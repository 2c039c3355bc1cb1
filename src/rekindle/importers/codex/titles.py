"""What Codex calls its sessions, and which file of several it goes on with.

Names that were given stand in `session_index.jsonl`, the last one counts; and in a database, beside
titles that are made of the first prompt, and the file of each session.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from rekindle.importers.database import Database
from rekindle.importers.lenient_reader import Reader
from rekindle.importers.line_reader import Lines

_INDEX = "session_index.jsonl"
_LONGEST = 4000
_WANTED = ("id", "name", "title", "first_user_message", "rollout_path")


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
            for row in _rows(database):
                if title := _title(row):
                    names.setdefault(row["id"], title)
                if path := row.get("rollout_path"):
                    paths.setdefault(row["id"], path)
        except OSError as error:
            trouble = f"titles in {database.name}: {error}"
    return Titles(names | _indexed(home), paths, trouble)


def _number(path: Path) -> tuple[int, str]:
    digits = path.stem.removeprefix("state_")
    return (int(digits) if digits.isascii() and digits.isdigit() else -1), digits


def _title(row: dict[str, str]) -> str:
    """Return the name that was given, or a title that is more than the first prompt."""
    title = row.get("title", "")
    is_prompt = title.strip() == row.get("first_user_message", "").strip()
    return row.get("name", "") or ("" if is_prompt else title)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield what a database says of each session. Raises OSError."""
    database = Database(path)
    has = database.columns.get("threads", set())
    columns = [name for name in _WANTED if name in has]
    if "id" not in columns:
        return
    cut = ", ".join(f"cast(substr({name}, 1, {_LONGEST}) as blob)" for name in columns)
    for row in database.rows(f"select {cut} from threads"):  # noqa: S608 - names of our own
        words = ((it or b"").decode("utf-8", "replace") for it in row)
        yield dict(zip(columns, words, strict=True))
    if database.is_damaged:
        raise OSError("the database is damaged")


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
