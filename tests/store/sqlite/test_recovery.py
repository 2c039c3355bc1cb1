"""Recovery from every kind of damage that we can think of."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from recorded_sessions import NOW, opened
from rekindle.model import (
    Archived,
    Deleted,
    Forked,
    Imported,
    Kind,
    LeaseHolder,
    LeaseResult,
    Origin,
    Titled,
    TitleSource,
)
from rekindle.store.base import LeaseMark
from rekindle.store.sqlite.quarantine import recover
from rekindle.store.sqlite.schema import place
from rekindle.store.sqlite.store import SqliteStore
from rekindle.store.sqlite.wal import PAGE
from rekindle.transcript.titles import title_from_prompt
from selection import some
from store_changes import batch
from store_damage import (
    ALL,
    HARMS,
    MARKS,
    Original,
    chance_of,
    check_result,
    chunks,
    described,
    files_beside,
    fill,
    flip,
    lay_down,
    overwrite,
    zero,
)

FORMER, LAST = (
    LeaseHolder(token=token, pid=1, machine="h", socket="/s", version="1", agent_group=7)
    for token in ("former", "last")
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(40))
        for holder in (FORMER, LAST):
            assert store.acquire_lease("ses_1", holder, takeover=True)
        store.release_leases(LAST)
        source = TitleSource.USER
        store.write([Titled(session_id="ses_2", at_us=NOW, source=source, title="Two")])
        store.write([Archived(session_id="ses_3", at_us=NOW)])
        origin = Origin(tool="claude", path="/f", sha256="ab", entries=5)
        store.write([Imported(session_id="ses_7", at_us=NOW, origin=origin)])
        store.write([Forked(session_id="fork", at_us=NOW, parent_id="ses_4", until_seq=5)])
        store.write([Deleted(session_id="ses_5", at_us=NOW), Deleted(session_id="ses_6", at_us=1)])
        store.purge("ses_6")
        store.write([opened("gone")])
        store.erase("gone")
    return described(path)


def test_recovery_of_an_intact_store_keeps_everything(original: Original, tmp_path: Path) -> None:
    path = lay_down(original.files, tmp_path / "x")
    with SqliteStore(path) as store:
        before = [store.session(id_) for id_ in original.ids.values()]
        titles = store.titles("ses_2")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert (report.sessions_lost, report.entries_lost) == (0, 0)
    assert check_result(path, original, report) == original.entries
    with SqliteStore(path) as store:
        assert [store.session(id_) for id_ in original.ids.values()] == before
        assert store.titles("ses_2") == titles
        # The last lease holder is still known, and no key is reused.
        assert store.acquire_lease("ses_1", LAST) == LeaseResult(epoch=2)
        store.release_leases(LAST)
        other = LeaseHolder(token="u", pid=2, machine="h")  # noqa: S106
        assert store.acquire_lease("ses_1", other) == LeaseResult(was_held_by_another=True, epoch=3)
        store.write([opened("new")])
        (row,) = store._query("select key from session where id = 'new'")  # noqa: SLF001
        assert row[0] == max(original.ids) + 2
        # The entries of the first holder diverge where they did.
        mark = LeaseMark(session_id="ses_1", token=FORMER.token, epoch=1)
        until_seq = store.session("ses_1").last_seq
        store.write([batch(b"{}", session="ses_1")])
        store.apply_pending("p", [mark, batch(b"{}", session="ses_1")])
        branch = store.find("ses_1~")
        assert (branch.parent_id, branch.last_seq) == ("ses_1", until_seq + 1)


@settings(deadline=None, max_examples=some(150))
@given(st.integers(0, 2**32))
def test_rows_on_intact_pages_are_recovered_and_none_invented(
    original: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = chance_of(seed)
    harm = chance.choice(HARMS)
    hit = set(chance.sample(range(1, len(original.files[""]) // PAGE + 1), chance.randint(1, 12)))
    file = bytearray(original.files[""])
    for number in sorted(hit):
        harm(file, (number - 1) * PAGE, chance)
    path = lay_down({"": bytes(file)}, tmp_path_factory.getbasetemp() / "pages")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert Path(report.path).read_bytes() == file
    saved = check_result(path, original, report)
    for about, on in original.pages.items():
        if not on & hit:
            assert saved[about] == original.entries[about]
    wrong = [it for it in saved if saved[it] != original.entries.get(it)]
    if harm is flip:
        # SQLite has no checksums: a flipped bit inside a text cannot be detected.
        assert len(wrong) <= sum(bool(on & hit) for on in original.pages.values())
    else:
        assert wrong == []
        lost = len(original.entries) - len(saved)
        assert report.entries_lost <= lost


@settings(deadline=None, max_examples=some(40))
@given(st.integers(0, 2**32))
def test_swapped_interior_pages_lose_nothing(
    original: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = chance_of(seed)
    pages = chance.sample([number for number in original.trees if number != 1], 12)
    pages = pages[: chance.choice([2, 4, 12])]
    file = bytearray(original.files[""])
    for one, other in zip(pages[::2], pages[1::2], strict=False):
        a, b = (slice((number - 1) * PAGE, number * PAGE) for number in (one, other))
        file[a], file[b] = file[b], file[a]
    path = lay_down({"": bytes(file)}, tmp_path_factory.getbasetemp() / "swapped")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert check_result(path, original, report) == original.entries
    assert (report.sessions_lost, report.entries_lost) == (0, 0)


@settings(deadline=None, max_examples=some(40))
@given(st.integers(1, 200 * PAGE))
def test_rows_before_a_truncation_are_recovered(
    original: Original, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    size = min(size, len(original.files[""]) - 1)
    file = original.files[""][:size]
    path = lay_down({"": file}, tmp_path_factory.getbasetemp() / "cut")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    saved = check_result(path, original, report)
    assert all(original.entries[about] == entry for about, entry in saved.items())
    whole = range(1, size // PAGE + 1)
    for about, on in original.pages.items():
        assert about in saved or not all(number in whole for number in on)


def test_a_lost_leaf_loses_only_its_own_entries(original: Original, tmp_path: Path) -> None:
    for number in original.leaves:
        file = bytearray(original.files[""])
        zero(file, (number - 1) * PAGE, chance_of(0))
        path = lay_down({"": bytes(file)}, tmp_path / "x")
        report = recover(path, title_from_prompt)
        assert report
        saved = check_result(path, original, report)
        expected = {it for it, on in original.pages.items() if number not in on}
        assert set(saved) >= expected
        assert report.entries_saved + report.entries_lost <= len(original.entries)
        assert report.sessions_lost == 0
        # The last entries of the last session leave no trace if they had a page of their own.
        assert report.entries_lost or number == original.leaves[-1]


# -- the WAL ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store_in_wal(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Return a store with a part still in its WAL, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("logged")
    path, copy = folder / "s.db", folder / "copy.db"
    with SqliteStore(path) as store:
        fill(store, range(12))
        store._truncate_wal()  # noqa: SLF001
        fill(store, range(12, 24))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    files = files_beside(copy)
    assert len(files["-wal"]) > 20 * PAGE
    whole = described(copy)
    return Original(files, whole.entries, whole.ids, {}, [], [])


def test_rows_in_the_wal_are_recovered(store_in_wal: Original, tmp_path: Path) -> None:
    path = lay_down(store_in_wal.files, tmp_path / "x")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert check_result(path, store_in_wal, report) == store_in_wal.entries
    aside = Path(report.path)
    assert aside.read_bytes() == store_in_wal.files[""]
    assert Path(f"{aside}-wal").read_bytes() == store_in_wal.files["-wal"]


@settings(deadline=None, max_examples=some(60))
@given(st.integers(0, 2**32))
def test_a_torn_wal_loses_only_the_torn_part(
    store_in_wal: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    log, chance = bytearray(store_in_wal.files["-wal"]), chance_of(seed)
    if chance.choice([True, False]):
        del log[chance.randrange(len(log)) :]
    for _ in range(chance.randint(0, 3)):
        if log:
            log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
    path = lay_down(
        store_in_wal.files | {"-wal": bytes(log)}, tmp_path_factory.getbasetemp() / "torn"
    )
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    saved = check_result(path, store_in_wal, report)
    assert all(store_in_wal.entries[about] == entry for about, entry in saved.items())
    before = [f"ses_{n}" for n in range(12)]
    assert {about for about in store_in_wal.entries if about[0] in before} <= set(saved)


def test_frames_after_a_damaged_one_are_recovered(store_in_wal: Original, tmp_path: Path) -> None:
    log = bytearray(store_in_wal.files["-wal"])
    log[32 + 24 + 100] ^= 1
    path = lay_down(store_in_wal.files | {"-wal": bytes(log)}, tmp_path / "x")
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert len(check_result(path, store_in_wal, report)) > len(store_in_wal.entries) - 20


# -- wrong rowids -----------------------------------------------------------------------------


def test_a_row_with_a_wrong_rowid_joins_no_other_session(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("one"), opened("two"), chunks("two", 1, 2)])
        store.write([chunks("one", n, 1) for n in range(5)])
        before = list(store.read("one"))
    file = path.read_bytes()
    assert file.count(varint(place(1, 3))) == 1
    path.write_bytes(file.replace(varint(place(1, 3)), varint(place(2, 3))))
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert (report.entries_saved, report.entries_lost) == (6, 1)
    with SqliteStore(path) as store:
        assert len(list(store.read("two"))) == 2
        assert [it for it in store.read("one") if it.kind not in MARKS] == [
            *before[:2],
            *before[3:],
        ]


def test_an_id_is_taken_from_agreeing_indexes(original: Original, tmp_path: Path) -> None:
    path = lay_down(original.files, tmp_path / "x")
    # Rows of `session` have the agent's id after it.
    file = path.read_bytes()
    assert file.count(b"ses_7ses_7") == 1
    path.write_bytes(file.replace(b"ses_7ses_7", b"wes_7ses_7"))
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert check_result(path, original, report) == original.entries


def varint(number: int) -> bytes:
    """Return a number as SQLite encodes it."""
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F | 0x80)
    return bytes(reversed(parts))


# -- sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "indexes", [(), ("session_by_time", "session_by_cwd", "session_by_creation")]
)
def test_orphaned_entries_get_a_new_session(
    original: Original, tmp_path: Path, indexes: tuple[str, ...]
) -> None:
    path = lay_down(original.files, tmp_path / "x")
    for name in ("session", "session_by_deletion", *indexes):
        overwrite(path, name)
    report = recover(path, title_from_prompt)
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
    # Only the tombstone of the purged session is left.
    assert report.sessions_lost == (0 if indexes else 1)


def test_a_session_that_lost_all_entries_has_a_gap(original: Original, tmp_path: Path) -> None:
    path = lay_down(original.files, tmp_path / "x")
    with SqliteStore(path) as store:
        # As the recorder does with each prompt and each message.
        store._query("update session set turns = 1, messages = 2")  # noqa: SLF001
    overwrite(path, "stretch")
    overwrite(path, "stretch_by_turn")
    report = recover(path, title_from_prompt)
    assert report
    assert (report.entries_saved, report.sessions_lost) == (0, 0)
    with SqliteStore(path) as store:
        (gap,) = store.read("ses_7")
    assert (gap.kind, gap.line) == (Kind.GAP, b'{"lostEntries":2,"isDamage":true}')


def test_only_the_invalid_line_of_a_row_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("s"), chunks("s", 0, 5)])
        (row,) = store._query("select place, data from stretch")  # noqa: SLF001
        lines = row[1].split(b"\n")
        data = b"\n".join([lines[0], lines[1][:-1] + b"\xff", *lines[2:]])
        store._query("update stretch set data = ?", (data,))  # noqa: SLF001
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert (report.entries_saved, report.entries_lost) == (4, 1)
    with SqliteStore(path) as store:
        read = [(it.seq, it.line) for it in store.read("s")]
    gap = b'{"lostEntries":1,"isDamage":true}'
    assert [line for _, line in read] == [lines[0], gap, *lines[2:]]
    assert [seq for seq, _ in read] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_overlapping_row_is_lost(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([opened("s"), *(chunks("s", n, 3) for n in range(5))])
        before = list(store.read("s"))
        store._query("update stretch set place = place + ? where at_us = ?", (shift, NOW + 2))  # noqa: SLF001
    report = recover(path, title_from_prompt, is_certain=True)
    assert report
    assert (report.entries_saved, report.entries_lost) == (12, 3)
    with SqliteStore(path) as store:
        kept = [entry for entry in store.read("s") if entry.kind not in MARKS]
    assert kept == [*before[:6], *before[9:]]
