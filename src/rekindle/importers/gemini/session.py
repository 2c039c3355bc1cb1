"""The importer of Gemini CLI: files of JSON lines, in which later lines change earlier ones."""

from collections.abc import Generator, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from rekindle.importers.base import (
    EntryCounts,
    FoundSession,
    ImportNotes,
    SourceSession,
    ToolImporter,
    branch_limit,
)
from rekindle.importers.entry_builder import EntryBuilder
from rekindle.importers.gemini.entries import GeminiConverter
from rekindle.importers.gemini.files import GeminiRecordReader, replay_order, with_sizes
from rekindle.importers.gemini.locations import (
    child_id,
    find,
    folders,
    known_paths,
    mentioned_paths,
    parent_of,
    path_with_hash,
    project_of,
    project_path,
    session_files,
    session_id_of,
)
from rekindle.importers.gemini.outline import (
    LIST,
    MESSAGE,
    RECORDS_PER_REPORT,
    listed_messages,
    read_outline,
)
from rekindle.importers.gemini.records import read_message, read_record_head
from rekindle.importers.titles import branch_titles, session_titles
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Entry,
    IncomingSession,
    Origin,
    TitleSource,
)

NAME = "gemini"


class GeminiSessionFiles:
    """The files of one session, with their outline."""

    def __init__(self, session_id: str, paths: list[Path], notes: ImportNotes) -> None:
        self._path = paths[0]
        self._notes = notes
        outline_notes = notes.restart(f"outline of {session_id}")
        self._outline = read_outline(with_sizes(paths), outline_notes)
        self._parent_id = parent_of(self._path)
        self._is_child = self._parent_id is not None or self._outline.info.is_sub_agent
        self._id = child_id(self._parent_id, self._path.stem) if self._parent_id else session_id
        project = project_of(self._path)
        recorded = project_path(project) if project is not None else None
        self._folder = recorded or self._guess_folder(project)
        # Entries must not depend on a folder that becomes known only later. That can happen to a
        # guessed folder, and to older files, which the tool copies to the folder of a project.
        self._entry_folder = None if self._outline.files[0].is_one_object else recorded
        self._branch_tips = self._outline.branch_tips()

    def session(self) -> SourceSession | None:
        """Return the session itself; None if it has no entries."""
        info = self._outline.info
        # If the tool has rewound to the beginning, import the session as it was before.
        for tip in [self._outline.last, *self._branch_tips[:1]]:
            read_entries = self._entry_reader(tip, "session")
            titles = session_titles(info.summary, read_entries)
            if titles is not None:
                self._branch_tips = [other for other in self._branch_tips if other != tip]
                return SourceSession(
                    incoming=self._incoming(titles),
                    read_entries=read_entries,
                    folder=self._folder,
                    is_rewound=info.is_rewound and tip == self._outline.last,
                )
        return None

    def branches(self, session: SourceSession) -> Iterator[SourceSession]:
        """Yield the branches from which the tool has rewound, the latest first, up to a limit."""
        limit = branch_limit(self._outline.size)
        for tip in self._branch_tips[:limit]:
            read_entries = self._entry_reader(tip, f"branch {tip}")
            titles = branch_titles(session.incoming, read_entries)
            # A branch never changes after a rewind.
            stamp = f"{tip} of {len(self._outline.files)}"
            yield session.branch(read_entries, stamp, titles=titles)
        left_out = len(self._branch_tips[limit:])
        self._notes.skip("a branch was left out, because there are too many", left_out)

    def _incoming(self, titles: dict[TitleSource, str]) -> IncomingSession:
        return IncomingSession(
            id=self._id,
            created_us=self._outline.info.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if self._is_child else self._id,
            agent=AgentIdentity(name=NAME),
            # A session without a folder is not listed.
            cwd=None if self._is_child else self._folder,
            titles=titles,
            parent_id=self._parent_id,
            origin=Origin(tool=NAME, path=str(self._path), sha256=self._outline.sha256),
        )

    def _guess_folder(self, project: Path | None) -> str | None:
        """Return the project's path if only its hash is recorded, from paths that are known."""
        info = self._outline.info
        if info.project_hash is None:
            return None
        known = known_paths(project) if project is not None else iter(())
        candidates = chain(info.directories, known, mentioned_paths(self._path))
        return path_with_hash(info.project_hash, candidates)

    def _entry_reader(self, tip: int, section: str) -> "partial[Generator[Entry]]":
        selected = self._outline.path_to(tip)
        return partial(self._read_entries, selected, f"{section} of {self._id}")

    def _read_entries(
        self, selected: bytearray, section: str, counts: EntryCounts
    ) -> Generator[Entry]:
        """Yield the entries of the messages in the selected places."""
        notes = self._notes.restart(section)
        builder = EntryBuilder(self._id, counts, self._outline.info.created_us)
        session_id = self._parent_id or self._id
        converter = GeminiConverter(
            builder, notes, self._entry_folder, partial(child_id, session_id)
        )
        readers = [GeminiRecordReader(file) for file in self._outline.files]
        if len(readers) == 1:
            notes.place = readers[0].place
        growing = self._growing_message(selected)
        for number, (message, is_listed) in enumerate(self._messages(readers, selected)):
            if number % RECORDS_PER_REPORT == 0:
                done = sum(reader.offset for reader in readers)
                notes.report_progress((self._outline.size + done) // 2)
            builder.is_provisional = number == growing
            if (decoded := read_message(message)) is not None:
                converter.convert(decoded, is_listed=is_listed)
                yield from builder.take_entries()
        converter.finish()
        yield from builder.take_entries()

    def _growing_message(self, selected: bytearray) -> int | None:
        """Return the number of the message that may still change: the last one in older files."""
        if not self._outline.files[-1].is_one_object:
            return None
        return sum(selected[place] for place in self._outline.places) - 1

    def _messages(
        self, readers: list[GeminiRecordReader], selected: bytearray
    ) -> Iterator[tuple[bytes, bool]]:
        """Yield the selected messages, and whether each is in a list of earlier messages."""
        places = iter(self._outline.places)
        records = replay_order(readers, self._outline.order)
        for line, kind in zip(records, self._outline.kinds, strict=False):
            if kind == MESSAGE:
                if selected[next(places)]:
                    yield line, False
            elif kind == LIST and (head := read_record_head(line)) is not None:
                for message, place in zip(listed_messages(head), places, strict=False):
                    if selected[place]:
                        yield bytes(message), head.patch is not None


def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
    """Yield the session in some files, and its abandoned branches."""
    # Names of files have only the start of the id, so the files may be of several sessions.
    by_id: dict[str, list[Path]] = {}
    for path in session_files(found.path):
        by_id.setdefault(session_id_of(path), []).append(path)
    for session_id, paths in by_id.items():
        files = GeminiSessionFiles(session_id, paths, notes)
        session = files.session()
        if session is not None:
            yield session
            yield from files.branches(session)


IMPORTER = ToolImporter(
    name=NAME,
    agent_names=("gemini-cli", "@google/gemini-cli"),
    title="Gemini CLI",
    folders=folders,
    find=find,
    read=read,
)
