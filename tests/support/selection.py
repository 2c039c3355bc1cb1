"""Select some of many similar tests. `REKINDLE_TESTS=all` selects every test."""

import os

import pytest

_SHARE = 4


def is_everything() -> bool:
    """Return whether every test is to run."""
    return os.environ.get("REKINDLE_TESTS") == "all"


def some(examples: int) -> int:
    """Return the number of examples to run: a quarter of `examples`, unless every test runs."""
    return examples if is_everything() else examples // _SHARE


def some_of(cases: range) -> range:
    """Return a quarter of the cases, unless every test runs."""
    return cases if is_everything() else cases[::_SHARE]


def deselected_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases to deselect, unless every test runs.

    A test marked `slow` does not run. Of a test marked `one_of(n)`, only every n-th case runs.
    """
    if is_everything():
        return []
    seen: dict[str, int] = {}
    deselected = [item for item in items if item.get_closest_marker("slow") is not None]
    for item in items:
        mark = item.get_closest_marker("one_of")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] = seen.get(name, -1) + 1
            if seen[name] % mark.args[0]:
                deselected.append(item)
    return deselected
