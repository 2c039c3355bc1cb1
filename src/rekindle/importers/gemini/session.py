"""One session of Gemini CLI's, from all of its files, and the branches that it went back from."""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from rekindle.importers.base import Notes, Talk, Tally, most_branches
from rekindle.importers.entry_builder import Teller
from rekindle.importers.gemini.entries import Conversation
from rekindle.importers.gemini.files import Records, again, sized
from rekindle.importers.gemini.locations import (
    child_id,
    inverted,
    known_folders,
    named_in,
    owner_of,
    parent_of,
    project_of,
)
from rekindle.importers.gemini.outline import LIST, MESSAGE, messages_in, outline
from rekindle.importers.gemini.records import read_mark, read_message
from rekindle.importers.titles import titles_of
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Entry,
    IncomingSession,
    Origin,
    TitleSource,
)

NAME = "gemini"

_RECORDS_A_NOTE = 1024


class SessionFiles:
    """The files of one session, looked over."""

    def __init__(self, session_id: str, paths: list[Path], notes: Notes) -> None:
        self._path = paths[0]
        self._notes = notes
        self._whole = outline(sized(paths), notes.anew(f"outline of {session_id}"))
        self._parent_id = parent_of(self._path)
        self._is_child = self._parent_id is not None or self._whole.is_sub_agents
        self._id = child_id(self._parent_id, self._path.stem) if self._parent_id else session_id
        project = project_of(self._path)
        owner = owner_of(project) if project is not None else None
        self._folder = owner or self._guess_folder(project)
        # What is guessed may be guessed only later; and older files came to lie where the project
        # is known when the tool copied them. But what is told of a file must stay the same.
        self._root = None if self._whole.files[0].is_one_object else owner
        self._tips = self._whole.tips()

    def session(self) -> Talk | None:
        """Return the session itself; None if nothing is said in it."""
        # One that was gone back in to its beginning is what it was before.
        for tip in [self._whole.last, *self._tips[:1]]:
            tell = self._teller_of(tip, "session")
            titles = titles_of(self._whole.summary, tell)
            if titles is not None:
                self._tips = [it for it in self._tips if it != tip]
                return Talk(
                    arrived=self._arrived(titles),
                    tell=tell,
                    folder=self._folder,
                    is_shortened=self._whole.is_shortened and tip == self._whole.last,
                )
        return None

    def branches(self, session: Talk) -> Iterator[Talk]:
        """Yield what the tool has gone back from, the latest first, within reason."""
        most = most_branches(self._whole.size)
        for tip in self._tips[:most]:
            tell = self._teller_of(tip, f"branch {tip}")
            titles = titles_of(self._whole.summary, tell) or session.arrived.titles
            arrived = replace(session.arrived, agent_session_id=UNKNOWN_TO_AGENT, titles=titles)
            # Nothing is ever added to what was gone back from.
            stamp = f"{tip} of {len(self._whole.files)}"
            yield Talk(
                arrived=arrived, tell=tell, folder=session.folder, is_aside=True, stamp=stamp
            )
        self._notes.skip("a branch is left out, because there are many", len(self._tips[most:]))

    def _arrived(self, titles: dict[TitleSource, str]) -> IncomingSession:
        return IncomingSession(
            id=self._id,
            created_us=self._whole.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if self._is_child else self._id,
            agent=AgentIdentity(name=NAME),
            # Without a folder it is not listed.
            cwd=None if self._is_child else self._folder,
            titles=titles,
            parent_id=self._parent_id,
            origin=Origin(tool=NAME, path=str(self._path), sha256=self._whole.sha256),
        )

    def _guess_folder(self, project: Path | None) -> str | None:
        """Return the project's folder where only its hash is on record, if anything names it."""
        if self._whole.project_hash is None:
            return None
        known = known_folders(project) if project is not None else iter(())
        candidates = chain(self._whole.directories, known, named_in(self._path))
        return inverted(self._whole.project_hash, candidates)

    def _teller_of(self, tip: int, name: str) -> Callable[[Tally], Generator[Entry]]:
        return partial(self._tell, self._whole.path_to(tip), f"{name} of {self._id}")

    def _tell(self, wanted: bytearray, name: str, tally: Tally) -> Generator[Entry]:
        """Yield the entries of one conversation."""
        notes = self._notes.anew(name)
        teller = Teller(self._id, tally, self._whole.created_us)
        conversation = Conversation(
            teller, notes, self._root, partial(child_id, self._parent_id or self._id)
        )
        every = [Records(file) for file in self._whole.files]
        last = self._last_of_object(wanted)
        for number, (message, is_listed) in enumerate(self._messages(every, wanted)):
            if number % _RECORDS_A_NOTE == 0:
                notes.at((self._whole.size + sum(it.done for it in every)) // 2)
            teller.is_provisional = number == last
            if (read := read_message(message)) is not None:
                conversation.take(read, is_listed=is_listed)
                yield from teller.take()
        conversation.finish()
        yield from teller.take()

    def _last_of_object(self, wanted: bytearray) -> int | None:
        """Return which message may yet grow where it stands: the last one, in older files."""
        if not self._whole.files[-1].is_one_object:
            return None
        return sum(wanted[place] for place in self._whole.places) - 1

    def _messages(self, every: list[Records], wanted: bytearray) -> Iterator[tuple[bytes, bool]]:
        """Yield what is said, and whether it stands in a list of what was said before."""
        places = iter(self._whole.places)
        for line, kind in zip(again(every, self._whole.order), self._whole.kinds, strict=False):
            if kind == MESSAGE:
                if wanted[next(places)]:
                    yield line, False
            elif kind == LIST and (mark := read_mark(line)) is not None:
                for message, place in zip(messages_in(mark), places, strict=False):
                    if wanted[place]:
                        yield bytes(message), mark.patch is not None
