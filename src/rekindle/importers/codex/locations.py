"""Where Codex keeps things: a file a session, by date; archived ones apart, old ones compressed.

A session keeps its id when it is reverted, and goes on in another file then, which has an id of its
own in its name. It also stays the same one when its file is archived or compressed: so what it is
known by here is where its first file was when it was begun.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import Found
from rekindle.importers.codex.compressed import ENDING
from rekindle.importers.codex.outline import meta_in
from rekindle.importers.codex.records import Base, Meta, is_agents
from rekindle.importers.codex.titles import Titles, titles_in
from rekindle.importers.scan import found_in, out_of_reach, stamp_of

_ARCHIVED = "archived_sessions"
_FOLDERS = ("sessions", _ARCHIVED)
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(
    rf"rollout-((\d{{4}})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d)-({_ID})(?:_({_ID}))?\.jsonl(?:\.zst)?"
)
_DEEPEST = 4
_TIMES_SMALLER = 6
_MOST_LINKS = 1000
_HOMES_REMEMBERED = 8


class Rollout(Struct, frozen=True, kw_only=True):
    """A file of a session."""

    path: Path
    thread_id: str
    id: str
    """Of the file: that of the session, unless it was reverted."""
    begun: str
    """When, as it stands in its name."""
    date: tuple[str, ...]

    @property
    def plain_name(self) -> str:
        """Its name, as long as it is not compressed."""
        return self.path.name.removesuffix(ENDING)


class Link(Struct, frozen=True):
    """A file that another one begins with."""

    base: Base
    """Up to where."""
    rollout: Rollout | None = None
    trouble: str = ""
    """Why it cannot be followed, in words."""


class Home(Struct, frozen=True):
    """All that Codex has in a folder."""

    threads: dict[str, list[Rollout]] = {}
    """The files of each session, the oldest first."""
    rollouts: dict[str, Rollout] = {}
    titles: Titles = Titles()
    out_of_reach: list[Found] = []
    """Folders that cannot be looked into, and why."""

    def current(self, thread_id: str) -> Rollout:
        """Return the file that a session goes on with."""
        files = self.threads[thread_id]
        told = Path(self.titles.paths.get(thread_id, "")).name.removesuffix(ENDING)
        return next((it for it in files if it.plain_name == told), files[-1])

    def links(self, path: Path) -> Iterator[Link]:
        """Yield the files that a file begins with, the nearest first."""
        seen = {path.name.removesuffix(ENDING)}
        about = _about(path)
        while about is not None and (base := about.base) is not None:
            rollout = self.rollouts.get(base.thread_id)
            about = _about(rollout.path) if rollout is not None else None
            if rollout is None:
                yield Link(base, trouble="what a session begins with is in a file that is gone")
            elif about is None:
                yield Link(base, trouble="what a session begins with cannot be read")
            elif rollout.plain_name in seen:
                yield Link(base, trouble="what a session begins with begins with itself")
                return
            elif len(seen) > _MOST_LINKS:
                yield Link(base, trouble="what a session begins with is in too many files")
                return
            else:
                seen.add(rollout.plain_name)
                yield Link(base, rollout)


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return where its sessions are."""
    told = environ.get("CODEX_HOME")
    return [Path(told).expanduser() if told else home / ".codex"]


def _top(path: Path) -> Path | None:
    """Return the folder of sessions, archived or not, that a file or folder is in, or is."""
    return next((it for it in (path, *path.parents) if it.name in _FOLDERS), None)


def home_of(path: Path) -> Path:
    """Return the folder that has all of Codex's, of one in it or of a file."""
    top = _top(path)
    if top is not None:
        return top.parent
    return path if path.is_dir() else path.parent


def is_archived(path: Path) -> bool:
    """Tell whether a file lies where Codex puts away sessions."""
    top = _top(path)
    return top is not None and top.name == _ARCHIVED


_known: dict[Path, Home] = {}


def look(home: Path) -> Home:
    """Look over all that Codex has in a folder."""
    below = [home / name for name in _FOLDERS if (home / name).is_dir()] or [home]
    named: dict[str, Rollout] = {}
    beyond: list[Found] = []
    for folder in below:
        for rollout in _rollouts(folder, 0, beyond):
            known = named.get(rollout.plain_name)
            # If there are both, what is compressed is about to go.
            if known is None or (known.path.suffix == ENDING and rollout.path.suffix != ENDING):
                named[rollout.plain_name] = rollout
    threads: dict[str, list[Rollout]] = {}
    for rollout in sorted(named.values(), key=lambda it: (it.begun, it.id)):
        threads.setdefault(rollout.thread_id, []).append(rollout)
    found = Home(threads, {it.id: it for it in named.values()}, titles_in(home), beyond)
    _known.pop(home, None)
    _known[home] = found
    if len(_known) > _HOMES_REMEMBERED:
        del _known[next(iter(_known))]
    return found


def known(path: Path) -> Home:
    """Return what Codex has in a folder, as it was found last; archived files move."""
    home = home_of(path)
    found = _known.get(home)
    name = _parsed(path)
    files = found.threads.get(name.thread_id, []) if found is not None and name else []
    is_there = all(it.path.exists() for it in files)
    return found if found is not None and files and is_there else look(home)


def _rollouts(folder: Path, depth: int, beyond: list[Found]) -> Iterator[Rollout]:
    try:
        with os.scandir(folder) as entries:
            below = sorted(entries, key=lambda it: it.name)
    except OSError as error:
        if _top(folder) is None:
            # Nobody knows whether it is Codex's.
            if depth == 0:
                raise
            return
        beyond.append(out_of_reach(folder, error))
        return
    for entry in below:
        if entry.is_dir(follow_symlinks=False):
            if depth < _DEEPEST:
                yield from _rollouts(Path(entry.path), depth + 1, beyond)
        elif entry.name.startswith("rollout-") and entry.is_file():
            rollout = _parsed(Path(entry.path))
            if rollout is not None:
                yield rollout


def _parsed(path: Path) -> Rollout | None:
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    begun, year, month, day, thread_id, rollout_id = found.groups()
    return Rollout(
        path=path,
        thread_id=thread_id,
        id=rollout_id or thread_id,
        begun=begun,
        date=(year, month, day),
    )


def thread_of(path: Path) -> str | None:
    """Return the session that a file is of, by its name."""
    rollout = _parsed(path)
    return rollout.thread_id if rollout is not None else None


def find(path: Path, cwd: str | None) -> Iterator[Found]:
    """Yield the sessions of a file or below a folder."""
    if path.is_file():
        rollout = _parsed(path)
        if rollout is not None:
            yield from _found_now(look(home_of(path)), rollout.thread_id)
        elif path.name.endswith((".jsonl", ".jsonl.zst")) and meta_in(path) is not None:
            yield _found_alone(path)
        return
    home = look(home_of(path))
    for thread_id, files in home.threads.items():
        if any(it.path.is_relative_to(path) for it in files):
            about = _about(home.current(thread_id).path)
            if cwd is None or about is None or about.cwd in {None, cwd}:
                yield from _found_now(home, thread_id)
    yield from (it for it in home.out_of_reach if it.path.is_relative_to(path))


def _found_now(home: Home, thread_id: str) -> Iterator[Found]:
    try:
        yield _found(home, thread_id)
    except FileNotFoundError:
        # It was just archived, or compressed.
        home = look(home_of(home.current(thread_id).path))
        if thread_id in home.threads:
            yield _found(home, thread_id)


def _found(home: Home, thread_id: str) -> Found:
    files = home.threads[thread_id]
    current = home.current(thread_id)
    stats = [it.path.stat() for it in files]
    stamps = map(stamp_of, stats)
    links = [it.trouble or it.base.thread_id for file in files for it in home.links(file.path)]
    told = [current.id, home.titles.names.get(thread_id, ""), *links]
    checksum = sha256("\0".join(told).encode("utf-8", "surrogatepass")).hexdigest()
    about = _about(current.path)
    return Found(
        path=_first_place(files[0]),
        stamp="+".join([*stamps, checksum[:8]]),
        size=sum(map(_size, [it.path for it in files], [it.st_size for it in stats])),
        updated_us=max(it.st_mtime_ns for it in stats) // 1000,
        is_child=about is not None and about.is_child,
    )


def _found_alone(path: Path) -> Found:
    it = found_in([path])
    return replace(it, size=_size(path, it.size))


def _size(path: Path, size: int) -> int:
    return size * _TIMES_SMALLER if path.suffix == ENDING else size


def _first_place(first: Rollout) -> Path:
    """Return where a session's first file was when it was begun."""
    folder = first.path.parent
    if _top(folder) is not None and folder.name != "sessions":
        folder = home_of(first.path).joinpath("sessions", *first.date)
    return folder / first.plain_name


class _About(Struct, frozen=True):
    """What a file says of itself at once."""

    cwd: str | None
    is_child: bool
    base: Base | None
    """What it begins with."""


def _about(path: Path) -> _About | None:
    """Return what a file says of itself; None if that cannot be read."""
    try:
        stat = path.stat()
        return _read_about(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1 << 14)
def _read_about(path: Path, _: int, __: int) -> _About:
    meta = meta_in(path) or Meta()
    return _About(meta.cwd, is_agents(meta), meta.history_base)
