"""Check that the tag of a release fits the files, and print the release notes.

The release workflow calls it with the tag before it builds anything.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Check the tag that is the only argument; print the section of the changelog."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the script and the tag
        print("usage: check_release.py TAG", file=sys.stderr)
        return 2
    problem, notes = check(sys.argv[1], ROOT)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    print(notes)
    return 0


def check(tag: str, root: Path) -> tuple[str, str]:
    """Return the problem with releasing `tag`, if any, and the release notes."""
    source = (root / "src" / "rekindle" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    version = found[1] if found else ""
    if tag != f"v{version}":
        return f"the tag is {tag}, but rekindle.__version__ is {version!r}: change one of them", ""
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.compile(
        rf"^## \[?{re.escape(version)}\]?( .*)?\n(?P<notes>(?:(?!## ).*\n)*)", re.MULTILINE
    )
    section = heading.search(changelog)
    if section is None or not section["notes"].strip():
        return f"CHANGELOG.md has no section {version}: rename its section Unreleased", ""
    return "", section["notes"].strip()


if __name__ == "__main__":
    sys.exit(main())
