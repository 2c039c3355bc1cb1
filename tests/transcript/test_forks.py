from recorded_sessions import answered, asked, told
from rekindle.model import Change, Counted, Forked, Session, Titled, TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.transcript.forks import fork_changes
from rekindle.transcript.reducer import Transcript, fold
from store_changes import NOW, opened


def parent(*changes: Change) -> tuple[Session, Transcript]:
    """Return a session of two turns, with its transcript."""
    store = MemoryStore()
    store.write([opened("s1"), *changes])
    for text in ("one", "two"):
        store.write([asked("s1", text), told("s1", text.upper()), answered("s1")])
    return store.session("s1"), fold(store.read("s1"))


def counts(until_seq: int) -> tuple[int, int]:
    """Return the numbers of turns and messages of a fork."""
    changes = fork_changes("f", NOW, *parent(), until_seq)
    (counted,) = (it for it in changes if isinstance(it, Counted))
    return counted.turns, counted.messages


def test_a_fork_has_the_counts_of_its_entries() -> None:
    assert [counts(it) for it in (0, 1, 2, 99)] == [(0, 0), (1, 1), (1, 2), (2, 4)]


def test_a_fork_has_a_title_of_the_same_source() -> None:
    named = Titled(session_id="s1", at_us=NOW, source=TitleSource.AGENT, title="Talk")
    forked, *titles, _ = fork_changes("f", NOW, *parent(named), 2)
    assert forked == Forked(session_id="f", at_us=NOW, parent_id="s1", until_seq=2)
    assert [(it.source, it.title) for it in titles if isinstance(it, Titled)] == [
        (TitleSource.AGENT, None),
        (TitleSource.AGENT, "Talk (fork)"),
    ]
