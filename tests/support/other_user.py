"""Run a part of a test as an unprivileged user."""

import os
from collections.abc import Generator
from contextlib import contextmanager

_NOBODY = 65534


@contextmanager
def as_stranger() -> Generator[None]:
    """Switch to an unprivileged user if the tests run as root."""
    own = os.geteuid()
    os.seteuid(_NOBODY if own == 0 else own)
    try:
        yield
    finally:
        os.seteuid(own)
