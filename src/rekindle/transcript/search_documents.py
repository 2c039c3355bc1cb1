"""Derive the documents of the search index from a transcript.

Messages, titles of tool calls, paths of files and plans can be found. The output of tools cannot:
it is long, and people seldom remember it.
"""

import re
from collections.abc import Iterator

from rekindle.model import DocumentKind, SearchDocument
from rekindle.transcript.model import TranscriptTurn

_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def search_documents(turn: TranscriptTurn) -> Iterator[SearchDocument]:
    """Yield the documents of a turn.

    An item with an id has a document even if its text is empty, because a later entry may add text.
    """
    for item in turn.items:
        found = item.search_text()
        if found is not None and (found.text or found.id is not None):
            yield SearchDocument(
                turn=turn.number,
                seq=item.seq,
                at_us=item.at_us,
                kind=found.kind,
                ident=None if found.id is None else f"{found.kind}:{found.id}",
                text=_CONTROL_CHARACTERS.sub(" ", found.text),
            )


def title_document(title: str, at_us: int) -> SearchDocument:
    """Return the document of a session's title, which counts as turn 0."""
    text = _CONTROL_CHARACTERS.sub(" ", title)
    return SearchDocument(turn=0, seq=0, at_us=at_us, kind=DocumentKind.TITLE, text=text)
