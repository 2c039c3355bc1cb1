"""Make bundles of arbitrary sessions in tests, and import them."""

import gzip
import io
from functools import partial

from hypothesis import strategies as st

from rekindle.model import (
    AgentIdentity,
    Change,
    Counted,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.base import Store
from rekindle.transfer.bundle_format import bundle_lines
from rekindle.transfer.bundle_reader import BundleReader
from rekindle.transfer.merge import Merger, MergeResult, RecordedCopy

NOW = 1_700_000_000_000_000
IMPORTED_US = NOW + 1_000_000
"""The time at which `merge_bundle` imports."""
HOLDER = LeaseHolder(token="importer", pid=1, machine="here")  # noqa: S106 - no password

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
# Later times would be clamped.
TIMES = st.integers(0, NOW)
FOLDERS = WORDS.map(lambda words: f"/{words}")
LINES = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b""))


@st.composite
def changes_of(draw: st.DrawFn, session_id: str) -> list[Change]:
    """Generate arbitrary changes of one session."""
    agent = AgentIdentity(name=draw(st.none() | WORDS), version=draw(st.none() | WORDS))
    opened = Opened(
        session_id=session_id,
        at_us=draw(TIMES),
        agent_session_id=draw(st.none() | WORDS),
        agent=agent,
        cwd=draw(st.none() | FOLDERS),
        directories=tuple(draw(st.lists(FOLDERS, max_size=2))),
        parent_id=draw(st.none() | WORDS),
    )
    titles = draw(st.dictionaries(st.sampled_from(TitleSource), WORDS))
    batches = draw(st.lists(entry_batches(session_id), max_size=8))
    return [
        opened,
        *(Titled(session_id=session_id, at_us=1, source=s, title=t) for s, t in titles.items()),
        *batches,
        Counted(session_id=session_id, at_us=1, turns=min(1, len(batches))),
    ]


def entry_batches(session_id: str) -> st.SearchStrategy[EntryBatch]:
    """Generate arbitrary entry batches of one session."""
    return st.builds(
        lambda lines, **rest: EntryBatch(
            session_id=session_id, data=b"\n".join(lines), count=len(lines), **rest
        ),
        lines=st.lists(LINES, min_size=1, max_size=4),
        side=st.sampled_from(Side),
        kind=st.sampled_from(Kind),
        at_us=TIMES,
        protocol=st.sampled_from([1, 2]),
    )


def make_bundle(store: Store, *session_ids: str) -> bytes:
    """Return an uncompressed bundle of these sessions."""
    known = [(store.session(it), store.titles(it), store.read(it)) for it in session_ids]
    return b"".join(bundle_lines(known))


def make_compressed_bundle(store: Store, *session_ids: str) -> bytes:
    """Return a compressed bundle of these sessions, as the export command writes it."""
    return gzip.compress(make_bundle(store, *session_ids), mtime=0)


def read_bundle(data: bytes) -> BundleReader:
    """Return a reader that has read this bundle. Raises BadBundle."""
    reader = BundleReader()
    try:
        for _ in reader.read_all(io.BufferedReader(io.BytesIO(data))):  # type: ignore[type-var]
            pass
    except BaseException:
        reader.close()
        raise
    return reader


def merge_bundle(store: Store, data: bytes, **options: bool) -> list[MergeResult]:
    """Merge a bundle into a store; return the result for each session."""
    merger = Merger(store, HOLDER, **options)
    with read_bundle(data) as reader:
        return [
            merger.merge(RecordedCopy(line.session, partial(reader.entries, number)), IMPORTED_US)
            for number, line in enumerate(reader.sessions)
        ]
