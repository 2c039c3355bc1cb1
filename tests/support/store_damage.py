"""Build intact stores, damage them, and check the result of their recovery."""

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
from msgspec import Struct

from recorded_sessions import NOW, answered, asked, opened, told
from rekindle.model import Entry, EntryBatch, Kind, Page, Side
from rekindle.store.maintenance import RecoveryReport
from rekindle.store.sqlite.file_pages import DatabaseImage, read_page
from rekindle.store.sqlite.files import lock_path
from rekindle.store.sqlite.inspect import Inspection
from rekindle.store.sqlite.quarantine import is_damaged
from rekindle.store.sqlite.schema import key_at, seq_at
from rekindle.store.sqlite.store import SqliteStore
from rekindle.store.sqlite.wal import PAGE

Files = dict[str, bytes]
MARKS = {Kind.GAP, Kind.OPAQUE}
ALL = Page(limit=1000, with_archived=True, with_unopened=True)


class Original(Struct):
    """An intact store: its files, its entries, and the pages that each entry needs."""

    files: Files
    entries: dict[tuple[str, int], Entry]
    ids: dict[int, str]
    pages: dict[tuple[str, int], frozenset[int]]
    trees: list[int]
    """The pages of B-trees: all but overflow pages."""
    leaves: list[int]
    """The leaf pages with entries."""

    def __repr__(self) -> str:
        return "a store"


class Watched(DatabaseImage):
    """An image that notes which pages were read."""

    seen: frozenset[int] = frozenset()

    def page(self, number: int) -> bytes:
        self.seen |= {number}
        return super().page(number)


def chunks(session: str, seed: int, count: int) -> EntryBatch:
    lines = [b'{"n":%d,"x":"%s"}' % (seed + n, b"y" * (seed % 40)) for n in range(count)]
    return EntryBatch(
        session_id=session,
        side=Side.AGENT,
        kind=Kind.UPDATE,
        at_us=NOW + seed,
        data=b"\n".join(lines),
        count=count,
    )


def fill(store: SqliteStore, numbers: range) -> None:
    for n in numbers:
        id_ = f"ses_{n}"
        store.write([opened(id_, f"/p/{n % 5}"), asked(id_, f"Hello {n} " * (1 + n % 7 * 90))])
        store.write([chunks(id_, n * 10, 1 + n % 9), told(id_, "word " * (n % 11 * 300))])
        store.write([answered(id_, NOW + n)], sync=True)


def described(path: Path) -> Original:
    read: dict[tuple[str, int], Entry] = {}
    with SqliteStore(path) as store:
        for session in (*store.sessions(ALL), store.session("ses_5"), store.session("ses_6")):
            read |= {(session.id, entry.seq): entry for entry in store.read(session.id)}
    with closing(apsw.Connection(str(path))) as db:
        ids = dict(db.execute("select key, id from session").fetchall())
        trees = "select pageno from dbstat where pagetype <> 'overflow'"
        leaves = "select pageno from dbstat where name = 'stretch' and pagetype = 'leaf'"
        kinds = [[row[0] for row in db.execute(sql)] for sql in (trees, leaves)]
    pages: dict[tuple[str, int], frozenset[int]] = {}
    with Watched(path) as image:
        for number in kinds[1]:
            # The pages that a single row needs are not known, so each row gets those of its leaf.
            image.seen = frozenset()
            for where, values in read_page(image, number).rows:
                assert isinstance(values[1], int)
                for seq in range(seq_at(where), seq_at(where) + values[1]):
                    pages[ids[key_at(where)], seq] = frozenset({number})
            for about in [it for it, on in pages.items() if on == {number}]:
                pages[about] |= image.seen
    return Original(files_beside(path), read, ids, pages, *kinds)


def files_beside(path: Path) -> Files:
    return {
        end: path.with_name(path.name + end).read_bytes()
        for end in ("", "-wal")
        if path.with_name(path.name + end).exists()
    }


def lay_down(files: Files, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "s.db"
    for end, content in files.items():
        path.with_name(path.name + end).write_bytes(content)
    lock_path(path).touch()
    return path


# -- kinds of damage ------------------------------------------------------------------------

Harm = Callable[[bytearray, int, random.Random], None]
"""Damages the page at an offset."""


def zero(file: bytearray, at: int, _: random.Random) -> None:
    file[at : at + PAGE] = bytes(PAGE)


def scribble(file: bytearray, at: int, chance: random.Random) -> None:
    file[at : at + PAGE] = chance.randbytes(PAGE)


def tear(file: bytearray, at: int, chance: random.Random) -> None:
    half = at + chance.choice([0, PAGE // 2])
    file[half : half + PAGE // 2] = chance.choice([bytes, chance.randbytes])(PAGE // 2)


def lose_a_sector(file: bytearray, at: int, chance: random.Random) -> None:
    sector = at + 512 * chance.randrange(8)
    file[sector : sector + 512] = bytes(512)


def flip(file: bytearray, at: int, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 4)):
        file[at + chance.randrange(PAGE)] ^= 1 << chance.randrange(8)


HARMS: tuple[Harm, ...] = (zero, scribble, tear, lose_a_sector, flip)


def overwrite(path: Path, name: str) -> None:
    """Overwrite all pages of a table or an index."""
    with closing(apsw.Connection(str(path))) as db:
        pages = [row[0] for row in db.execute("select pageno from dbstat where name = ?", (name,))]
    with path.open("r+b") as file:
        for number in pages:
            file.seek((number - 1) * PAGE)
            file.write(b"\xff" * PAGE)


def chance_of(seed: int) -> random.Random:
    """Return a reproducible source of random numbers."""
    return random.Random(seed)  # noqa: S311 - nothing is kept secret by it


def check_result(
    path: Path, original: Original, report: RecoveryReport
) -> dict[tuple[str, int], Entry]:
    """Check that the recovered store is intact and correctly counted; return its entries."""
    assert not is_damaged(path)
    with Inspection(path) as examined:
        assert examined.complaints(full=True) == []
        assert examined.unreadable_entries() == []
        assert examined.orphaned_keys() == []
    with SqliteStore(path) as store:
        deleted = store.sessions(Page(limit=1000, with_unopened=True, deleted=True))
        sessions = [it for it in (*store.sessions(ALL), *deleted) if not it.is_purged]
        found = {(it.id, entry.seq): entry for it in sessions for entry in store.read(it.id)}
    saved = {about: entry for about, entry in found.items() if entry.kind not in MARKS}
    assert report.sessions_saved == len(sessions)
    assert report.entries_saved == len(saved)
    assert len({id_ for id_, _ in found}) <= len(sessions) <= len(original.ids)
    return named_as_before(saved, original)


def named_as_before(
    saved: dict[tuple[str, int], Entry], original: Original
) -> dict[tuple[str, int], Entry]:
    """Return entries under their original session ids, also where recovery invented an id."""

    def id_of(id_: str) -> str:
        number = id_.removeprefix("salvaged-")
        return original.ids.get(int(number), id_) if number != id_ else id_

    return {(id_of(id_), seq): entry for (id_, seq), entry in saved.items()}
