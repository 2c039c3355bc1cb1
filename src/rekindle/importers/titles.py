"""Find the titles of an imported session: the tool's own, and one made from the first prompt."""

from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice

from rekindle.importers.base import EntryCounts
from rekindle.jsonvalue import as_array, as_object, decode_object
from rekindle.model import Entry, IncomingSession, Kind, TitleSource
from rekindle.transcript.titles import title_from_agent, title_from_prompt

_ENTRIES_SEARCHED = 200


def session_titles(
    given: str | None,
    read_entries: Callable[[EntryCounts], Generator[Entry]],
    commands: tuple[str, ...] = (),
) -> dict[TitleSource, str] | None:
    """Return the titles of a session; None if it has no entries.

    A prompt that starts with one of `commands` becomes the title only if there is no other prompt.
    """
    counts, prompt = EntryCounts(), ""
    with closing(read_entries(counts)) as entries:
        for entry in islice(entries, _ENTRIES_SEARCHED):
            title = _prompt_title(entry) if entry.kind is Kind.PROMPT else None
            if title is not None and not title.startswith(commands):
                prompt = title
                break
            prompt = prompt or title or ""
    if not counts.entries:
        return None
    titles = {TitleSource.AGENT: title_from_agent(given), TitleSource.PROMPT: prompt}
    return {source: title for source, title in titles.items() if title}


def branch_titles(
    session: IncomingSession,
    read_entries: Callable[[EntryCounts], Generator[Entry]],
    commands: tuple[str, ...] = (),
) -> dict[TitleSource, str]:
    """Return the titles of a branch of a session, which may begin with a different prompt."""
    given = session.titles.get(TitleSource.AGENT)
    return session_titles(given, read_entries, commands) or session.titles


def _prompt_title(entry: Entry) -> str | None:
    params = as_object((decode_object(entry.line) or {}).get("params"))
    return title_from_prompt(as_array(params.get("prompt")))
