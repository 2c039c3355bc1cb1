"""A store is damaged in every way that we can think of, and what can be read of it is saved."""

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from recorded import NOW, answered, asked, opened, told
from rekindle.errors import StoreDamaged, StoreUnavailable
from rekindle.model import (
    Archived,
    Deleted,
    Entry,
    Forked,
    Holder,
    Kind,
    Page,
    Side,
    Stretch,
    Titled,
    TitleSource,
)
from rekindle.store import damage
from rekindle.store.damage import Report, is_damaged, reports, salvage
from rekindle.store.examining import Examination
from rekindle.store.location import open_store
from rekindle.store.migrations import key_at, seq_at
from rekindle.store.opening import lock_path, report_path
from rekindle.store.pages import PAGE, Image, read_page
from rekindle.store.sqlite import SqliteStore

Files = dict[str, bytes]
MARKS = {Kind.GAP, Kind.OPAQUE}
ALL = Page(limit=1000, with_archived=True, with_strays=True)


class Original(Struct):
    """A sound store: its files, what is in it, and on which pages that lies."""

    files: Files
    entries: dict[tuple[str, int], Entry]
    ids: dict[int, str]
    pages: dict[tuple[str, int], frozenset[int]]
    trees: list[int]
    """The pages that are not the rest of a long row."""
    leaves: list[int]
    """Those that have entries."""


class Watched(Image):
    """Pages, and which of them were looked at."""

    seen: frozenset[int] = frozenset()

    def page(self, number: int) -> bytes:
        self.seen |= {number}
        return super().page(number)


def chunks(session: str, seed: int, count: int) -> Stretch:
    lines = [b'{"n":%d,"x":"%s"}' % (seed + n, b"y" * (seed % 40)) for n in range(count)]
    return Stretch(
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(40))
        store.claim("ses_1", Holder(token="t", pid=1, host="h"))  # noqa: S106 - no password
        store.release(Holder(token="t", pid=1, host="h"))  # noqa: S106
        source = TitleSource.USER
        store.write([Titled(session_id="ses_2", at_us=NOW, source=source, title="Two")])
        store.write([Archived(session_id="ses_3", at_us=NOW)])
        store.write([Forked(session_id="fork", at_us=NOW, parent_id="ses_4", until_seq=5)])
        store.write([Deleted(session_id="ses_5", at_us=NOW), Deleted(session_id="ses_6", at_us=1)])
        store.purge("ses_6")
    return described(path)


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
            # Which of them a single row needs cannot be seen so: all that the page needs.
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


# -- ways to do harm ------------------------------------------------------------------------

Harm = Callable[[bytearray, int, random.Random], None]
"""Damages the page that begins there."""


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


def check_result(path: Path, original: Original, report: Report) -> dict[tuple[str, int], Entry]:
    """See that what was saved can be used, and was counted right; return it."""
    assert not is_damaged(path)
    with Examination(path) as examined:
        assert examined.complaints(full=True) == []
        assert examined.unreadable_entries() == []
        assert examined.entries_without_session() == []
    with SqliteStore(path) as store:
        deleted = store.sessions(Page(limit=1000, with_strays=True, deleted=True))
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
    """Return entries with the id of their session, also where that was lost."""

    def id_of(id_: str) -> str:
        number = id_.removeprefix("salvaged-")
        return original.ids.get(int(number), id_) if number != id_ else id_

    return {(id_of(id_), seq): entry for (id_, seq), entry in saved.items()}


# -- what must hold ---------------------------------------------------------------------------


def test_of_a_sound_store_all_is_kept(original: Original, tmp_path: Path) -> None:
    path = lay_down(original.files, tmp_path / "x")
    with SqliteStore(path) as store:
        before = [store.session(id_) for id_ in original.ids.values()]
        titles = store.titles("ses_2")
    report = salvage(path, is_sure=True)
    assert report
    assert (report.sessions_lost, report.entries_lost) == (0, 0)
    assert check_result(path, original, report) == original.entries
    with SqliteStore(path) as store:
        assert [store.session(id_) for id_ in original.ids.values()] == before
        assert store.titles("ses_2") == titles
        # Whoever had it last is still known, and no key is given twice.
        assert store.claim("ses_1", Holder(token="u", pid=2, host="h")).was_anothers  # noqa: S106
        store.write([opened("new")])
        (row,) = store._query("select key from session where id = 'new'")  # noqa: SLF001
        assert row[0] > max(original.ids)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_lies_on_other_pages_is_saved_and_nothing_is_invented(
    original: Original, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    harm = data.draw(st.sampled_from([zero, scribble, tear, lose_a_sector, flip]))
    hit = data.draw(st.sets(st.integers(1, len(original.files[""]) // PAGE), max_size=12))
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    file = bytearray(original.files[""])
    for number in sorted(hit):
        harm(file, (number - 1) * PAGE, chance)
    path = lay_down({"": bytes(file)}, tmp_path_factory.getbasetemp() / "pages")
    report = salvage(path, is_sure=True)
    assert report
    assert Path(report.path).read_bytes() == file
    saved = check_result(path, original, report)
    for about, on in original.pages.items():
        if not on & hit:
            assert saved[about] == original.entries[about]
    wrong = [it for it in saved if saved[it] != original.entries.get(it)]
    if harm is flip:
        # SQLite has no checksums: what is flipped inside a text cannot be told from the text.
        assert len(wrong) <= sum(bool(on & hit) for on in original.pages.values())
    else:
        assert wrong == []
        lost = len(original.entries) - len(saved)
        assert report.entries_lost <= lost


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_trees_whose_pages_were_swapped_keep_all(
    original: Original, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    pages = data.draw(
        st.lists(st.sampled_from(original.trees[1:]), min_size=2, max_size=12, unique=True)
    )
    file = bytearray(original.files[""])
    for one, other in zip(pages[::2], pages[1::2], strict=False):
        a, b = (slice((number - 1) * PAGE, number * PAGE) for number in (one, other))
        file[a], file[b] = file[b], file[a]
    path = lay_down({"": bytes(file)}, tmp_path_factory.getbasetemp() / "swapped")
    report = salvage(path)
    assert report
    assert check_result(path, original, report) == original.entries
    assert (report.sessions_lost, report.entries_lost) == (0, 0)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 200 * PAGE))
def test_what_stands_before_a_cut_is_saved(
    original: Original, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    size = min(size, len(original.files[""]) - 1)
    file = original.files[""][:size]
    path = lay_down({"": file}, tmp_path_factory.getbasetemp() / "cut")
    report = salvage(path, is_sure=True)
    assert report
    saved = check_result(path, original, report)
    assert all(original.entries[about] == entry for about, entry in saved.items())
    whole = range(1, size // PAGE + 1)
    for about, on in original.pages.items():
        assert about in saved or not all(number in whole for number in on)


def test_each_leaf_that_is_lost_takes_only_its_own_entries_along(
    original: Original, tmp_path: Path
) -> None:
    for number in original.leaves:
        file = bytearray(original.files[""])
        zero(file, (number - 1) * PAGE, random.Random(0))
        path = lay_down({"": bytes(file)}, tmp_path / "x")
        report = salvage(path)
        assert report
        saved = check_result(path, original, report)
        expected = {it for it, on in original.pages.items() if number not in on}
        assert set(saved) >= expected
        assert report.entries_saved + report.entries_lost <= len(original.entries)
        assert report.sessions_lost == 0
        # The last entries of the last session leave no trace, if they were alone on their page.
        assert report.entries_lost or number == original.leaves[-1]


# -- the log ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Have a store of which a part is still in the log, as one leaves it who is killed."""
    folder = tmp_path_factory.mktemp("logged")
    path, copy = folder / "s.db", folder / "copy.db"
    with SqliteStore(path) as store:
        fill(store, range(12))
        store._empty_log()  # noqa: SLF001
        fill(store, range(12, 24))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    files = files_beside(copy)
    assert len(files["-wal"]) > 20 * PAGE
    whole = described(copy)
    return Original(files, whole.entries, whole.ids, {}, [], [])


def test_what_is_in_the_log_is_saved(logged: Original, tmp_path: Path) -> None:
    path = lay_down(logged.files, tmp_path / "x")
    report = salvage(path, is_sure=True)
    assert report
    assert check_result(path, logged, report) == logged.entries
    aside = Path(report.path)
    assert aside.read_bytes() == logged.files[""]
    assert Path(f"{aside}-wal").read_bytes() == logged.files["-wal"]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_torn_log_loses_what_was_torn_and_invents_nothing(
    logged: Original, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = bytearray(logged.files["-wal"])
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    if data.draw(st.booleans()):
        del log[data.draw(st.integers(0, len(log))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if log:
            log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
    path = lay_down(logged.files | {"-wal": bytes(log)}, tmp_path_factory.getbasetemp() / "torn")
    report = salvage(path, is_sure=True)
    assert report
    saved = check_result(path, logged, report)
    assert all(logged.entries[about] == entry for about, entry in saved.items())
    before = [f"ses_{n}" for n in range(12)]
    assert {about for about in logged.entries if about[0] in before} <= set(saved)


def test_a_damaged_frame_of_the_log_does_not_take_along_what_follows(
    logged: Original, tmp_path: Path
) -> None:
    log = bytearray(logged.files["-wal"])
    log[32 + 24 + 100] ^= 1
    path = lay_down(logged.files | {"-wal": bytes(log)}, tmp_path / "x")
    report = salvage(path, is_sure=True)
    assert report
    assert len(check_result(path, logged, report)) > len(logged.entries) - 20


# -- what becomes of sessions -----------------------------------------------------------------


def overwrite(path: Path, name: str) -> None:
    """Make nonsense of all pages of a table or an index."""
    with closing(apsw.Connection(str(path))) as db:
        pages = [row[0] for row in db.execute("select pageno from dbstat where name = ?", (name,))]
    with path.open("r+b") as file:
        for number in pages:
            file.seek((number - 1) * PAGE)
            file.write(b"\xff" * PAGE)


@pytest.mark.parametrize("indexes", [(), ("session_by_time", "session_by_cwd")])
def test_sessions_are_made_for_entries_that_lost_theirs(
    original: Original, tmp_path: Path, indexes: tuple[str, ...]
) -> None:
    path = lay_down(original.files, tmp_path / "x")
    for name in ("session", "session_by_deletion", *indexes):
        overwrite(path, name)
    report = salvage(path)
    assert report
    saved = check_result(path, original, report)
    assert {about for about in saved if about[0] != "fork"} >= {
        about for about in original.entries if about[0] != "fork"
    }
    with SqliteStore(path) as store:
        listed = store.sessions(ALL)
        assert len({it.id for it in listed}) == len(original.ids) - 1
        session = store.find("salvaged-8" if indexes else "ses_7")
        assert (session.cwd, session.title) == ("/" if indexes else "/p/2", "Hello 7")
        assert session.turns == 1
    # Of the one that was purged nothing was left but that it was.
    assert report.sessions_lost == (0 if indexes else 1)


def test_a_session_without_entries_says_that_they_are_lost(
    original: Original, tmp_path: Path
) -> None:
    path = lay_down(original.files, tmp_path / "x")
    with SqliteStore(path) as store:
        # As the runner does with each prompt and each message.
        store._query("update session set turns = 1, messages = 2")  # noqa: SLF001
    overwrite(path, "stretch")
    overwrite(path, "stretch_by_turn")
    report = salvage(path)
    assert report
    assert (report.entries_saved, report.sessions_lost) == (0, 0)
    with SqliteStore(path) as store:
        (gap,) = store.read("ses_7")
    assert (gap.kind, gap.line) == (Kind.GAP, b'{"lostEntries":2}')


def test_a_line_that_makes_no_sense_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("s"), chunks("s", 0, 5)])
        (row,) = store._query("select place, data from stretch")  # noqa: SLF001
        lines = row[1].split(b"\n")
        data = b"\n".join([lines[0], lines[1][:-1] + b"\xff", *lines[2:]])
        store._query("update stretch set data = ?", (data,))  # noqa: SLF001
    report = salvage(path, is_sure=True)
    assert report
    assert (report.entries_saved, report.entries_lost) == (4, 1)
    with SqliteStore(path) as store:
        read = [(it.seq, it.line) for it in store.read("s")]
    gap = b'{"lostEntries":1}'
    assert [line for _, line in read] == [lines[0], gap, *lines[2:]]
    assert [seq for seq, _ in read] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_row_that_lies_where_others_do_is_lost(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("s"), *(chunks("s", n, 3) for n in range(5))])
        before = list(store.read("s"))
        store._query("update stretch set place = place + ? where at_us = ?", (shift, NOW + 2))  # noqa: SLF001
    report = salvage(path, is_sure=True)
    assert report
    assert (report.entries_saved, report.entries_lost) == (12, 3)
    with SqliteStore(path) as store:
        kept = [entry for entry in store.read("s") if entry.kind not in MARKS]
    assert kept == [*before[:6], *before[9:]]


# -- setting aside ----------------------------------------------------------------------------


def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)
    return path


def test_it_is_set_aside_as_it_is_and_nothing_is_ever_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage.time, "strftime", lambda *_: "20260102T030405Z")
    asides: list[Files] = []
    for _ in range(3):
        path = damaged(tmp_path)
        path.chmod(0o644)
        asides.append({"": path.read_bytes()})
        assert salvage(path)
    names = [f"s.db.damaged-20260102T030405Z{end}" for end in ("", "-2", "-3")]
    assert [Path(it.path).name for it in reports(path)] == names
    for name, files in zip(names, asides, strict=True):
        assert files_beside(tmp_path / name) == files
        for file in (tmp_path / name, tmp_path / f"{name}.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [it.at_us for it in reports(path)] == [1_767_323_045_000_000] * 3
    (tmp_path / names[0]).unlink()
    assert len(reports(path)) == 3


def test_what_is_sound_or_was_never_ours_is_not_touched(tmp_path: Path) -> None:
    letter, theirs, ours = tmp_path / "letter", tmp_path / "theirs.db", tmp_path / "s.db"
    letter.write_bytes(b"Dear all, " * 1000)
    with closing(apsw.Connection(str(theirs))) as db:
        db.execute("create table precious (x)")
        db.execute("insert into precious values (1)")
    with SqliteStore(ours) as store:
        fill(store, range(3))
    before = {it.name: it.read_bytes() for it in (letter, theirs, ours)}
    assert [salvage(it) for it in (letter, theirs, ours, tmp_path / "none.db")] == [None] * 4
    assert {it.name: it.read_bytes() for it in (letter, theirs, ours)} == before
    assert not [it.name for it in tmp_path.iterdir() if ".damaged-" in it.name]


def test_a_newer_store_and_one_that_is_busy_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
        store._query("create table later (x)")  # noqa: SLF001
        store._query("pragma user_version = 9999")  # noqa: SLF001
    before = path.read_bytes()
    with Examination(path) as examined:
        assert examined.schema() == 9999
    assert salvage(path) is None
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("locking_mode", "exclusive")
        db.execute("begin exclusive")
        with pytest.raises(StoreUnavailable, match="is locked"):
            salvage(path)
    assert path.read_bytes() == before


def test_who_is_killed_while_saving_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged(tmp_path)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(damage.Salvager, "settle", die)
        with pytest.raises(KeyboardInterrupt):
            salvage(path)
    assert not path.exists()
    for create in (True, False):
        with pytest.raises(StoreDamaged, match="is not saved yet"):
            open_store(path, create=create)
    assert not path.exists()
    report = salvage(path)
    assert report
    assert report.sessions_saved == 3
    open_store(path).close()
    assert not [it.name for it in tmp_path.iterdir() if "salvaged" in it.name]


def test_what_is_not_known_to_be_saved_is_said_to_be(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    report = salvage(path)
    assert report
    assert damage.in_words(report).endswith(
        ": 3 sessions and 15 entries were saved, and nothing is known to be lost"
    )
    report_path(Path(report.path)).write_bytes(b"nonsense")
    (known,) = reports(path)
    assert damage.in_words(known).endswith("; what was saved of it is not known")


def test_without_room_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(damage.shutil, "disk_usage", lambda _: usage._replace(free=0))
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="no room"):
                salvage(path)
    assert salvage(path)


def test_one_that_has_it_open_does_not_go_on_writing_to_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
        report = salvage(path, is_sure=True)
        assert report
        aside = files_beside(Path(report.path))
        for sync in (True, False):
            with pytest.raises(StoreUnavailable, match="was removed or replaced"):
                store.write([chunks("ses_1", 1, 1)], sync=sync)
        assert [it.id for it in store.sessions(ALL)]
    assert files_beside(Path(report.path)) == aside
    with SqliteStore(path) as new:
        assert len(new.sessions(ALL)) == 3
        new.write([chunks("ses_1", 1, 1)])


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    yield
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
