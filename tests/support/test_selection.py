"""What `make test` leaves out of what is much alike; with `REKINDLE_TESTS=all`, nothing."""

import os

import pytest

_ALL = ("REKINDLE_TESTS", "REKINDLE_CHECKS", "REKINDLE_SDKS")
_SHARE = 3


def is_everything() -> bool:
    """Tell whether nothing is to be left out."""
    return any(os.environ.get(name) == "all" for name in _ALL)


def some(examples: int) -> int:
    """Return how many examples to take of so many."""
    return examples if is_everything() else examples // _SHARE


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return what is left out of tests that say `one_of(n)`: all but each n-th of their cases."""
    met: dict[str, int] = {}
    out: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("one_of")
        if mark is not None and not is_everything():
            name = item.nodeid.partition("[")[0]
            met[name] = met.get(name, -1) + 1
            if met[name] % mark.args[0]:
                out.append(item)
    return out
