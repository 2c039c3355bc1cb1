"""Find importers by name: the built-in ones, and those of installed packages.

A package provides an importer with an entry point in the group `rekindle.importers`. Only
`rekindle import` looks for them, because it takes time to search the installed packages. A package
that is broken is reported, and does not affect other importers.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from rekindle.errors import ImporterUnavailable, RekindleError
from rekindle.importers.base import (
    EntryCounts,
    FoundSession,
    ImportNotes,
    SourceSession,
    ToolImporter,
)
from rekindle.importers.scan import unreadable_path
from rekindle.model import Entry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rekindle.importers"
"""The entry-point group of packages that provide importers."""
ALL = "all"
"""The name for all importers on the command line."""

_BUILT_IN = {
    "claude": "rekindle.importers.claude.session",
    "codex": "rekindle.importers.codex.session",
    "opencode": "rekindle.importers.opencode.session",
    "gemini": "rekindle.importers.gemini.session",
}
BUILT_IN_NAMES = tuple(_BUILT_IN)

_Item = TypeVar("_Item")


class Plugins(NamedTuple):
    """The importers of installed packages, not loaded yet."""

    entry_points: "dict[str, EntryPoint]"
    problems: list[str]
    """Messages about packages that cannot be used: their names clash, or cannot be read."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the importers."""
        return tuple(self.entry_points)


@cache
def find_plugins() -> Plugins:
    """Return the importers of installed packages. No code of a package is run.

    Built-in names and `all` take precedence. If two packages provide the same name, the package
    that comes first in alphabetical order is used.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes long to import

    plugins = Plugins({}, [])
    try:
        found = sorted(entry_points(group=GROUP), key=lambda point: (_package(point), point.name))
    except Exception as error:  # noqa: BLE001 - damaged metadata of any package
        plugins.problems.append(f"cannot list the installed importers: {_reason(error)}")
        return plugins
    for point in found:
        owner = plugins.entry_points.get(point.name)
        if point.name in {*BUILT_IN_NAMES, ALL}:
            plugins.problems.append(
                f"{_label(point)} is ignored: the name is built in; "
                f"rename the entry point or uninstall {_package(point)}"
            )
        elif owner is None:
            plugins.entry_points[point.name] = point
        elif (owner.value, _package(owner)) != (point.value, _package(point)):
            plugins.problems.append(
                f"{_label(point)} is ignored: {_package(owner)} has the same name; "
                "uninstall one of them"
            )
    return plugins


def load_importer(name: str) -> ToolImporter:
    """Return the importer with this name. Raises ImporterUnavailable if its package is broken."""
    if name in _BUILT_IN:
        return import_module(_BUILT_IN[name]).IMPORTER
    return _load_plugin(name)


@cache
def _load_plugin(name: str) -> ToolImporter:
    point = find_plugins().entry_points[name]
    remedy = f"update or uninstall {_package(point)}"
    try:
        importer = point.load()
        if not isinstance(importer, ToolImporter):
            problem = "is not a ToolImporter"
        elif importer.name != name:
            problem = f"calls itself {importer.name!r}"
        else:
            # A later failure would stop the other importers too.
            list(importer.folders(os.environ, Path.home()))
            return _guarded(importer, f"{_label(point)} failed", remedy)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of other people
        problem = f"cannot be loaded ({_reason(error)})"
    raise ImporterUnavailable(f"{_label(point)} {problem}; {remedy}")


def _guarded(importer: ToolImporter, failure: str, remedy: str) -> ToolImporter:
    """Return the importer with unexpected exceptions turned into errors of the path it reads."""

    def message(error: Exception) -> str:
        return f"{failure} ({_reason(error)}); {remedy}"

    def guard(items: Callable[[], Iterator[_Item]]) -> Iterator[_Item]:
        try:
            yield from items()
        except (OSError, RekindleError):
            raise
        except Exception as error:
            raise OSError(message(error)) from error

    def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
        try:
            yield from importer.find(path, cwd)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - code of other people
            yield unreadable_path(path, OSError(message(error)))

    def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
        for session in guard(lambda: importer.read(found, notes)):
            yield replace(session, read_entries=_guarded_entries(session, guard))

    return replace(importer, find=find, read=read)


def _guarded_entries(
    session: SourceSession,
    guard: Callable[[Callable[[], Iterator[Entry]]], Iterator[Entry]],
) -> Callable[[EntryCounts], Iterator[Entry]]:
    return lambda counts: guard(lambda: session.read_entries(counts))


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _label(point: "EntryPoint") -> str:
    return f"the importer {point.name!r} of the package {_package(point)}"


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
