"""Check that exported documents contain only allowed markup: nothing active."""

import re
from html.parser import HTMLParser

from rekindle.export.html import POLICY

TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "h5", "h6",
    "dl", "dt", "dd", "nav", "main", "section", "footer", "div", "p", "span", "small", "time",
    "details", "summary", "ul", "ol", "li", "pre", "code", "img", "a", "br", "hr", "em", "strong",
    "s", "blockquote", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
CLASSES = {
    "user", "text", "agent", "thought", "call", "pending", "in_progress", "completed", "failed",
    "cancelled", "other", "mark", "diff", "add", "del", "at", "plan", "done", "open", "note",
    "problem", "link", "subagent",
}  # fmt: skip
VALUES = {
    "href": re.compile(r"(https?://|mailto:)[^\s]|#turn-\d+$", re.IGNORECASE),
    "rel": re.compile(r"noopener noreferrer$"),
    "src": re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$"),
    "id": re.compile(r"turn-\d+$"),
    "dir": re.compile(r"auto$"),
    "alt": re.compile(r"$"),
    "lang": re.compile(r"en$"),
    "start": re.compile(r"\d+$"),
    "datetime": re.compile(r"[\d:T.+-]+$"),
    "charset": re.compile(r"utf-8$"),
    "name": re.compile(r"(viewport|referrer|robots)$"),
    "http-equiv": re.compile(r"Content-Security-Policy$"),
    "content": re.compile(
        rf"({re.escape(POLICY)}|width=device-width, initial-scale=1|no-referrer|noindex)$"
    ),
}
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""The only control sequence in output, except where a line is replaced on a terminal."""
INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Strict(HTMLParser):
    """A parser that accepts only the listed tags, attributes and values."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.styles = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        self.styles += tag == "style"
        for name, value in attrs:
            if name == "class":
                assert set((value or "").split()) <= CLASSES
            else:
                assert VALUES[name].match(value or ""), (tag, name, value)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        assert decl == "doctype html"

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def check(document: str) -> Strict:
    """Parse a document; fail if it has anything that is not on the lists."""
    parser = Strict()
    parser.feed(document)
    parser.close()
    assert not INVISIBLE.search(document)
    return parser


def check_shown(words: str) -> None:
    """Fail if text for a terminal has control characters other than colours."""
    assert not INVISIBLE.search(STYLE.sub("", words).replace("\r\n", "\n"))
