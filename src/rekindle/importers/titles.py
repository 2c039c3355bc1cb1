"""What a session is called: as its tool says, and after its first prompt."""

from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice

from rekindle.importers.base import Tally
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import Entry, IncomingSession, Kind, TitleSource
from rekindle.transcript.handover import carries_history
from rekindle.transcript.titles import title_from_prompt

_ENTRIES_LOOKED_AT = 200
_LONGEST = 500


def titles_of(
    given: str | None,
    tell: Callable[[Tally], Generator[Entry]],
    commands: tuple[str, ...] = (),
) -> dict[TitleSource, str] | None:
    """Return what a session is called; None if nothing is told in it.

    What begins as `commands` do is a title only if there is no other prompt.
    """
    tally, prompt = Tally(), ""
    with closing(tell(tally)) as entries:
        for entry in islice(entries, _ENTRIES_LOOKED_AT):
            title = _title_of(entry) if entry.kind is Kind.PROMPT else None
            if title is not None and not title.startswith(commands):
                prompt = title
                break
            prompt = prompt or title or ""
    if not tally.entries:
        return None
    words = " ".join((as_str(given) or "").split())[:_LONGEST]
    titles = {TitleSource.AGENT: words, TitleSource.PROMPT: prompt}
    return {source: title for source, title in titles.items() if title}


def titles_of_branch(
    session: IncomingSession,
    tell: Callable[[Tally], Generator[Entry]],
    commands: tuple[str, ...] = (),
) -> dict[TitleSource, str]:
    """Return what a branch of a session is called: it may begin with another prompt."""
    return titles_of(session.titles.get(TitleSource.AGENT), tell, commands) or session.titles


def _title_of(entry: Entry) -> str | None:
    blocks = as_array(as_object((decode_object(entry.line) or {}).get("params")).get("prompt"))
    # An agent that was handed a session has kept the record before what the user has said.
    own = [it for it in blocks if not carries_history(as_str(as_object(it).get("text")) or "")]
    return title_from_prompt(own or blocks)
