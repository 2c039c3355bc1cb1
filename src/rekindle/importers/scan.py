"""Find files by their names, sizes and times. An unreadable path does not stop a scan."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rekindle.importers.base import FoundSession

_HEAD_BYTES = 64 * 1024


def found_session(paths: Sequence[Path], *, is_child: bool = False) -> FoundSession:
    """Return the session that consists of these files. Its location is the first one."""
    stats = [path.stat() for path in paths]
    return FoundSession(
        path=paths[0],
        stamp=" ".join(map(file_stamp, stats)),
        size=sum(stat.st_size for stat in stats),
        updated_us=max(stat.st_mtime_ns for stat in stats) // 1000,
        is_child=is_child,
    )


def file_stamp(stat: os.stat_result) -> str:
    """Return a text that changes whenever the file may have changed."""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def scan_each(
    paths: Iterable[Path], find: Callable[[Path], Iterator[FoundSession]]
) -> Iterator[FoundSession]:
    """Yield the sessions in each path. A path that cannot be read is yielded with its error."""
    for path in paths:
        try:
            yield from find(path)
        except (FileNotFoundError, NotADirectoryError):
            # The tool may delete files during the scan.
            continue
        except OSError as error:
            yield unreadable_path(path, error)


def unreadable_path(path: Path, error: OSError) -> FoundSession:
    """Return the placeholder for a path that cannot be read."""
    return FoundSession(path=path, stamp="", size=0, updated_us=0, error=error_text(error, path))


def error_text(error: OSError, path: Path | str) -> str:
    """Return the reason of an error. It names the file only if that is not `path`."""
    is_about_path = error.filename is None or str(error.filename) == str(path)
    return error.strerror if error.strerror and is_about_path else str(error)


def list_files(folder: Path, suffix: str) -> list[Path]:
    """Return the paths in a folder that end with the suffix, sorted by name."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(suffix)]
    return [folder / name for name in sorted(names)]


def list_folders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, sorted by name, without symbolic links."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [folder / name for name in sorted(names)]


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, by which an importer recognises its own files."""
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)
