"""Every link between documents leads to a page and a heading, on GitHub and on the built site."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<!`)\]\((?!https?:|mailto:)([^)\s]+)\)")
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_MENTION = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg)\b")


def prose(path: Path) -> str:
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that a heading has both on GitHub and in MkDocs."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading).lower() for heading in headings]
    github = {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in plain}
    mkdocs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip()) for text in plain}
    return github & mkdocs


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall(prose(path)):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_pages_of_the_site_link_only_to_pages_of_the_site() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        for link in _LINK.findall(prose(path)):
            target = (path.parent / link.partition("#")[0]).resolve()
            assert target.is_relative_to(ROOT / "docs"), (path.name, link)


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def test_documents_that_the_code_names_exist() -> None:
    folders = ("src", "tests", "interop", "bench", "examples", "tools")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for path in [ROOT / "Makefile", *DOCUMENTS, *sources]:
        if "node_modules" not in path.parts:
            for name in _MENTION.findall(path.read_text(encoding="utf-8")):
                assert (ROOT / name).exists(), (path.relative_to(ROOT), name)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
