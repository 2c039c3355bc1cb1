"""Where Codex keeps its files: one per session, by date; archived and compressed ones apart.

A reverted session keeps its id and continues in another file, which has a second id in its name. A
session also stays the same when its file is archived or compressed. So the location of a session is
the original path of its first file.

Titles are in `session_index.jsonl`, where the last one counts, and in a database. The database also
has titles made from the first prompt, and the current file of each session.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import FoundSession
from rekindle.importers.codex.compressed import COMPRESSED_SUFFIX
from rekindle.importers.codex.outline import read_meta
from rekindle.importers.codex.records import CodexHistoryBase, CodexMeta, is_sub_agent
from rekindle.importers.database import ReadOnlyDatabase
from rekindle.importers.lenient_reader import LenientReader
from rekindle.importers.line_reader import LineReader
from rekindle.importers.scan import file_stamp, found_session, unreadable_path

_ARCHIVE = "archived_sessions"
_SESSION_FOLDERS = ("sessions", _ARCHIVE)
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FILE_NAME = re.compile(
    rf"rollout-((\d{{4}})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d)-({_ID})(?:_({_ID}))?\.jsonl(?:\.zst)?"
)
_MAX_DEPTH = 4
_COMPRESSION_RATIO = 6
_MAX_HISTORY_LINKS = 1000
_MAX_HOMES = 8
_TITLE_INDEX = "session_index.jsonl"
_MAX_COLUMN_LENGTH = 4000
_THREAD_COLUMNS = ("id", "name", "title", "first_user_message", "rollout_path")


class CodexTitles(Struct, frozen=True):
    """Titles and current files of sessions, by session id."""

    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    error: str = ""
    """The reason why some of them could not be read."""


class CodexRollout(Struct, frozen=True, kw_only=True):
    """A file of a session."""

    path: Path
    thread_id: str
    id: str
    """The id of the file: that of the session, or a second one if the session was reverted."""
    started: str
    """The start time in the name of the file."""
    date: tuple[str, ...]

    @property
    def plain_name(self) -> str:
        """The name of the file before it was compressed."""
        return self.path.name.removesuffix(COMPRESSED_SUFFIX)


class CodexHistoryLink(Struct, frozen=True):
    """A file with history that another file inherits."""

    base: CodexHistoryBase
    """The end of the inherited history."""
    rollout: CodexRollout | None = None
    error: str = ""
    """The reason why the file cannot be used."""


class CodexHome(Struct, frozen=True):
    """All sessions in one of Codex's home folders."""

    threads: dict[str, list[CodexRollout]] = {}
    """The files of each session, the oldest first."""
    rollouts: dict[str, CodexRollout] = {}
    titles: CodexTitles = CodexTitles()
    unreadable: list[FoundSession] = []
    """Folders that cannot be read."""

    def current(self, thread_id: str) -> CodexRollout:
        """Return the file in which a session continues."""
        files = self.threads[thread_id]
        recorded = Path(self.titles.paths.get(thread_id, "")).name
        plain_name = recorded.removesuffix(COMPRESSED_SUFFIX)
        return next((file for file in files if file.plain_name == plain_name), files[-1])

    def history_links(self, path: Path) -> Iterator[CodexHistoryLink]:
        """Yield the files whose history a file inherits, the nearest first."""
        seen = {path.name.removesuffix(COMPRESSED_SUFFIX)}
        head = _read_head(path)
        while head is not None and (base := head.base) is not None:
            rollout = self.rollouts.get(base.thread_id)
            head = _read_head(rollout.path) if rollout is not None else None
            if rollout is None:
                error = "the file of the inherited history is missing"
                yield CodexHistoryLink(base, error=error)
            elif head is None:
                yield CodexHistoryLink(base, error="the inherited history cannot be read")
            elif rollout.plain_name in seen:
                error = "the inherited history contains itself"
                yield CodexHistoryLink(base, error=error)
                return
            elif len(seen) > _MAX_HISTORY_LINKS:
                error = "the inherited history is in too many files"
                yield CodexHistoryLink(base, error=error)
                return
            else:
                seen.add(rollout.plain_name)
                yield CodexHistoryLink(base, rollout)


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return Codex's home folder."""
    configured = environ.get("CODEX_HOME")
    return [Path(configured).expanduser() if configured else home / ".codex"]


def _session_folder(path: Path) -> Path | None:
    """Return the folder of sessions, archived or not, that contains the path or is the path."""
    return next((part for part in (path, *path.parents) if part.name in _SESSION_FOLDERS), None)


def home_of(path: Path) -> Path:
    """Return the home folder that a file or folder belongs to."""
    folder = _session_folder(path)
    if folder is not None:
        return folder.parent
    return path if path.is_dir() else path.parent


def is_archived(path: Path) -> bool:
    """Return whether a file is in Codex's archive."""
    folder = _session_folder(path)
    return folder is not None and folder.name == _ARCHIVE


_homes: dict[Path, CodexHome] = {}


def scan_home(home: Path) -> CodexHome:
    """Scan a home folder, and remember the result for `known_home`."""
    session_folders = [home / name for name in _SESSION_FOLDERS if (home / name).is_dir()]
    by_name: dict[str, CodexRollout] = {}
    unreadable: list[FoundSession] = []
    for folder in session_folders or [home]:
        for rollout in _rollouts(folder, 0, unreadable):
            known = by_name.get(rollout.plain_name)
            # If both exist, Codex is about to delete the compressed one.
            is_plain = rollout.path.suffix != COMPRESSED_SUFFIX
            if known is None or (known.path.suffix == COMPRESSED_SUFFIX and is_plain):
                by_name[rollout.plain_name] = rollout
    threads: dict[str, list[CodexRollout]] = {}
    for rollout in sorted(by_name.values(), key=lambda file: (file.started, file.id)):
        threads.setdefault(rollout.thread_id, []).append(rollout)
    rollouts = {rollout.id: rollout for rollout in by_name.values()}
    result = CodexHome(threads, rollouts, _read_titles(home), unreadable)
    _homes.pop(home, None)
    _homes[home] = result
    if len(_homes) > _MAX_HOMES:
        del _homes[next(iter(_homes))]
    return result


def known_home(path: Path) -> CodexHome:
    """Return the last scan of the home of a file. Scan again if files have moved since."""
    home = home_of(path)
    known = _homes.get(home)
    rollout = _parse_name(path)
    files = known.threads.get(rollout.thread_id, []) if known is not None and rollout else []
    is_current = all(file.path.exists() for file in files)
    return known if known is not None and files and is_current else scan_home(home)


def _rollouts(folder: Path, depth: int, unreadable: list[FoundSession]) -> Iterator[CodexRollout]:
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if _session_folder(folder) is None:
            # The folder may belong to another program.
            if depth == 0:
                raise
            return
        unreadable.append(unreadable_path(folder, error))
        return
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH:
                yield from _rollouts(Path(entry.path), depth + 1, unreadable)
        elif entry.name.startswith("rollout-") and entry.is_file():
            rollout = _parse_name(Path(entry.path))
            if rollout is not None:
                yield rollout


def _parse_name(path: Path) -> CodexRollout | None:
    found = _FILE_NAME.fullmatch(path.name)
    if found is None:
        return None
    started, year, month, day, thread_id, rollout_id = found.groups()
    return CodexRollout(
        path=path,
        thread_id=thread_id,
        id=rollout_id or thread_id,
        started=started,
        date=(year, month, day),
    )


def thread_of(path: Path) -> str | None:
    """Return the id of the session in the name of a file."""
    rollout = _parse_name(path)
    return rollout.thread_id if rollout is not None else None


def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
    """Yield the sessions in a file or below a folder."""
    if path.is_file():
        rollout = _parse_name(path)
        if rollout is not None:
            yield from _find_thread(scan_home(home_of(path)), rollout.thread_id)
        elif path.name.endswith((".jsonl", ".jsonl.zst")) and read_meta(path) is not None:
            yield _found_single_file(path)
        return
    home = scan_home(home_of(path))
    for thread_id, files in home.threads.items():
        if any(file.path.is_relative_to(path) for file in files):
            head = _read_head(home.current(thread_id).path)
            if cwd is None or head is None or head.cwd in {None, cwd}:
                yield from _find_thread(home, thread_id)
    yield from (found for found in home.unreadable if found.path.is_relative_to(path))


def _find_thread(home: CodexHome, thread_id: str) -> Iterator[FoundSession]:
    try:
        yield _found_thread(home, thread_id)
    except FileNotFoundError:
        # The file has just been archived or compressed.
        home = scan_home(home_of(home.current(thread_id).path))
        if thread_id in home.threads:
            yield _found_thread(home, thread_id)


def _found_thread(home: CodexHome, thread_id: str) -> FoundSession:
    files = home.threads[thread_id]
    current = home.current(thread_id)
    stats = [file.path.stat() for file in files]
    links = [link for file in files for link in home.history_links(file.path)]
    bases = [link.error or link.base.thread_id for link in links]
    facts = [current.id, home.titles.names.get(thread_id, ""), *bases]
    checksum = sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()
    sizes = [_plain_size(file.path, stat.st_size) for file, stat in zip(files, stats, strict=True)]
    head = _read_head(current.path)
    return FoundSession(
        path=_original_path(files[0]),
        stamp="+".join([*map(file_stamp, stats), checksum[:8]]),
        size=sum(sizes),
        updated_us=max(stat.st_mtime_ns for stat in stats) // 1000,
        is_child=head is not None and head.is_child,
    )


def _found_single_file(path: Path) -> FoundSession:
    found = found_session([path])
    return replace(found, size=_plain_size(path, found.size))


def _plain_size(path: Path, size: int) -> int:
    """Return the approximate size of a file without compression."""
    return size * _COMPRESSION_RATIO if path.suffix == COMPRESSED_SUFFIX else size


def _original_path(first: CodexRollout) -> Path:
    """Return the path of a session's first file when the session was started."""
    folder = first.path.parent
    if _session_folder(folder) is not None and folder.name != "sessions":
        folder = home_of(first.path).joinpath("sessions", *first.date)
    return folder / first.plain_name


class _FileHead(Struct, frozen=True):
    """The facts in the first line of a file."""

    cwd: str | None
    is_child: bool
    base: CodexHistoryBase | None
    """The history that the file inherits."""


def _read_head(path: Path) -> _FileHead | None:
    """Return the facts in the first line of a file; None if it cannot be read."""
    try:
        stat = path.stat()
        return _cached_head(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1 << 14)
def _cached_head(path: Path, _: int, __: int) -> _FileHead:
    meta = read_meta(path) or CodexMeta()
    return _FileHead(meta.cwd, is_sub_agent(meta), meta.history_base)


# -- titles -----------------------------------------------------------------------------------


class _IndexEntry(Struct, frozen=True, gc=False):
    id: str = ""
    thread_name: str = ""


_read_index_entry = LenientReader(_IndexEntry)


def _read_titles(home: Path) -> CodexTitles:
    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    problem = ""
    for database in sorted(home.glob("state_*.sqlite"), key=_database_number, reverse=True):
        try:
            for row in _thread_rows(database):
                if title := _row_title(row):
                    names.setdefault(row["id"], title)
                if path := row.get("rollout_path"):
                    paths.setdefault(row["id"], path)
        except OSError as error:
            problem = f"titles in {database.name}: {error}"
    return CodexTitles(names | _indexed_titles(home), paths, problem)


def _database_number(path: Path) -> tuple[int, str]:
    digits = path.stem.removeprefix("state_")
    return (int(digits) if digits.isascii() and digits.isdigit() else -1), digits


def _row_title(row: dict[str, str]) -> str:
    """Return the name that the user gave, or a title that is not just the first prompt."""
    title = row.get("title", "")
    is_prompt = title.strip() == row.get("first_user_message", "").strip()
    return row.get("name", "") or ("" if is_prompt else title)


def _thread_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows about sessions in a database. Raises OSError."""
    database = ReadOnlyDatabase(path)
    available = database.columns.get("threads", set())
    columns = [name for name in _THREAD_COLUMNS if name in available]
    if "id" not in columns:
        return
    values = ", ".join(f"cast(substr({name}, 1, {_MAX_COLUMN_LENGTH}) as blob)" for name in columns)
    for row in database.rows(f"select {values} from threads"):  # noqa: S608 - constant names
        texts = ((value or b"").decode("utf-8", "replace") for value in row)
        yield dict(zip(columns, texts, strict=True))
    if database.is_damaged:
        raise OSError("the database is damaged")


def _indexed_titles(home: Path) -> dict[str, str]:
    path = home / _TITLE_INDEX
    try:
        stat = path.stat()
        return _cached_index(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _cached_index(path: Path, size: int, _: int) -> dict[str, str]:
    names: dict[str, str] = {}
    for _offset, line in LineReader(path, end=size):
        entry = _read_index_entry(line) if line else None
        if entry is not None and entry.id:
            names[entry.id] = entry.thread_name
    return {thread_id: name for thread_id, name in names.items() if name.strip()}
