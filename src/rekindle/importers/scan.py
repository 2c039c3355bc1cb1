"""Finding files by their names, sizes and times. What cannot be looked at keeps no other out."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rekindle.importers.base import Found

_LOOKED_AT = 64 * 1024


def found_in(paths: Sequence[Path], *, is_child: bool = False) -> Found:
    """Return the session that some files are; the first is the one it is known by."""
    stats = [path.stat() for path in paths]
    return Found(
        path=paths[0],
        stamp=" ".join(map(stamp_of, stats)),
        size=sum(it.st_size for it in stats),
        updated_us=max(it.st_mtime_ns for it in stats) // 1000,
        is_child=is_child,
    )


def stamp_of(stat: os.stat_result) -> str:
    """Return what is another word whenever a file may have changed."""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def each(paths: Iterable[Path], find: Callable[[Path], Iterator[Found]]) -> Iterator[Found]:
    """Yield what is found in each of these; of one that cannot be looked at, why that is so."""
    for path in paths:
        try:
            yield from find(path)
        except (FileNotFoundError, NotADirectoryError):
            # Tools clear up while others look.
            continue
        except OSError as error:
            yield out_of_reach(path, error)


def out_of_reach(path: Path, error: OSError) -> Found:
    """Return what stands for a place that cannot be looked at."""
    return Found(path=path, stamp="", size=0, updated_us=0, trouble=why(error, path))


def why(error: OSError, path: Path | str) -> str:
    """Say why something could not be read, for those who are told which file it is."""
    is_of_it = error.filename is None or str(error.filename) == str(path)
    return error.strerror if error.strerror and is_of_it else str(error)


def files_in(folder: Path, ending: str) -> list[Path]:
    """Return what may be a file, by name, and has such an ending."""
    with os.scandir(folder) as entries:
        names = [it.name for it in entries if it.name.endswith(ending)]
    return [folder / name for name in sorted(names)]


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, by name, without links to others."""
    with os.scandir(folder) as entries:
        names = [it.name for it in entries if it.is_dir(follow_symlinks=False)]
    return [folder / name for name in sorted(names)]


def beginning(path: Path) -> bytes:
    """Return how a file begins, by which a tool knows its own."""
    with path.open("rb") as file:
        return file.read(_LOOKED_AT)
