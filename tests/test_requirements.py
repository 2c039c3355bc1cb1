"""Every requirement has a test, and tests name only requirements that exist."""

import ast
from collections.abc import Iterator
from pathlib import Path

from requirements import REQUIREMENTS

TESTS = Path(__file__).parent


def in_python(path: Path) -> Iterator[int]:
    """Yield the numbers of the marks in a test file."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text if "requirement" in text else "")):
        match node:
            case ast.Call(func=ast.Attribute(attr="requirement"), args=numbers):
                yield from (ast.literal_eval(number) for number in numbers)


def in_transcript(path: Path) -> Iterator[int]:
    """Yield the numbers that a golden transcript names."""
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, *numbers = line.split()
        if mark == "meets":
            yield from map(int, numbers)


def test_requirements_and_marked_tests_match() -> None:
    named = {number for path in TESTS.rglob("test_*.py") for number in in_python(path)}
    for path in TESTS.rglob("transcripts/*.txt"):
        named |= set(in_transcript(path))
    assert named == REQUIREMENTS.keys()
    assert list(REQUIREMENTS) == list(range(1, 62))
