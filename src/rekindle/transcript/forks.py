"""The changes that create a fork of a session."""

from rekindle.model import Change, Counted, Forked, Session, Titled, TitleSource
from rekindle.transcript.model import Role
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.titles import DEFAULT_TITLE, fork_title


def fork_changes(
    fork_id: str, at_us: int, parent: Session, transcript: Transcript, until_seq: int
) -> list[Change]:
    """Return the changes that create a fork of a session up to an entry."""
    title = fork_title(parent.title or DEFAULT_TITLE)
    source = parent.title_source or TitleSource.PROMPT
    return [
        Forked(session_id=fork_id, at_us=at_us, parent_id=parent.id, until_seq=until_seq),
        # The same source as the parent's, so that the same peers may rename the fork. The store
        # keeps the first title from a prompt, so that one is removed first.
        Titled(session_id=fork_id, at_us=at_us, source=source, title=None),
        Titled(session_id=fork_id, at_us=at_us, source=source, title=title),
        Counted(
            session_id=fork_id,
            at_us=at_us,
            turns=count_turns(transcript, until_seq),
            messages=count_messages(transcript, until_seq),
        ),
    ]


def count_turns(transcript: Transcript, until_seq: int) -> int:
    """Return the number of turns that begin up to an entry."""
    return sum(bool(turn.items) and turn.items[0].seq <= until_seq for turn in transcript.turns)


def count_messages(transcript: Transcript, until_seq: int) -> int:
    """Return the number of messages that begin up to an entry."""
    messages = (message for turn in transcript.turns for message in turn.messages)
    return sum(it.role is not Role.THOUGHT and it.seq <= until_seq for it in messages)
