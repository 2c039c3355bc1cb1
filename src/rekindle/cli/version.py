"""The option `--version`. It imports SQLite only when it is used."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn


class ShowVersion(argparse.Action):
    """Print the versions of Rekindle, Python and SQLite on one line, and exit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - as argparse calls it
        values: str | Sequence[object] | None,  # noqa: ARG002
        option_string: str | None = None,  # noqa: ARG002
    ) -> NoReturn:
        """Print the line, and exit with 0."""
        print(version_line())
        parser.exit()


def version_line() -> str:
    """Return the versions of Rekindle, Python and SQLite, which a bug report needs."""
    import apsw

    from rekindle import __version__

    python = sys.version.split()[0]
    return f"rekindle {__version__} (Python {python}, SQLite {apsw.sqlite_lib_version()})"
