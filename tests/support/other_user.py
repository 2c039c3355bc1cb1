"""Being somebody else for a while, who may not read or write everything."""

import os
from collections.abc import Generator
from contextlib import contextmanager

_STRANGER = 65534


@contextmanager
def as_stranger() -> Generator[None]:
    """Be somebody who may do no more than others."""
    own = os.geteuid()
    os.seteuid(_STRANGER if own == 0 else own)
    try:
        yield
    finally:
        os.seteuid(own)
