"""Markdown as HTML that is safe wherever it stands.

Only tags that are named here are ever written, with no attributes but those written here; all
else is text, and escaped. HTML in Markdown is text. Links lead to the web or to mail, or nowhere.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rekindle.text.sanitize import clean

# What is longer is no Markdown that anybody wrote, and would take long to read as such.
LONGEST_MARKDOWN = 200_000
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_BLOCKS = frozenset(
    {
        "p", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td",
        "em", "strong", "s",
    }
)  # fmt: skip
_HEADING = re.compile(r"h([1-6])")
_HEADINGS_ABOVE = 2


def rendered(words: str) -> str:
    """Return Markdown as HTML."""
    if len(words) > LONGEST_MARKDOWN:
        return f"<pre>{html.escape(words)}</pre>"
    return "".join(_tokens(parser().parse(words)))


@cache
def parser() -> MarkdownIt:
    """Return what reads Markdown. Tags are no part of it."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # What is no safe link is still read as one, so that its label can be shown.
    made.validateLink = lambda _: True  # pyright: ignore[reportAttributeAccessIssue]
    return made


def _tokens(tokens: Iterable[Token]) -> Iterator[str]:
    # Links may not nest in Markdown, so the last one opened is the one that ends.
    closing = ""
    for token in tokens:
        if token.type == "link_open":
            opening, closing = link_ends(str(token.attrs.get("href", "")))
            yield opening
        elif token.type == "link_close":
            yield closing
        else:
            yield from _token(token)


def _token(token: Token) -> Iterator[str]:
    match token.type:
        case "inline":
            yield from _tokens(token.children or [])
        case "text" | "text_special":
            yield _text(token.content)
        case "softbreak":
            yield "\n"
        case "hardbreak":
            yield "<br>\n"
        case "hr":
            yield "<hr>\n"
        case "code_inline":
            yield f"<code>{_text(token.content)}</code>"
        case "fence" | "code_block":
            yield f"<pre><code>{_text(token.content)}</code></pre>\n"
        case "image":
            opening, closing = link_ends(str(token.attrs.get("src", "")))
            yield f"{opening}{_text(token.content or 'image')}{closing}"
        case _:
            yield _tag(token)


def _text(words: str) -> str:
    """Return words as HTML; once more without what acts, because Markdown can spell it."""
    return html.escape(clean(words))


def _tag(token: Token) -> str:
    """Return a tag that begins or ends something; what is none of those is text."""
    if token.hidden:
        return ""
    heading = _HEADING.fullmatch(token.tag)
    name = f"h{min(6, int(heading[1]) + _HEADINGS_ABOVE)}" if heading else token.tag
    if not heading and name not in _BLOCKS:
        return _text(token.content)
    if token.nesting < 0:
        return f"</{name}>\n" if token.block else f"</{name}>"
    start = str(token.attrs.get("start", ""))
    return f'<{name} start="{start}">' if name == "ol" and start.isdecimal() else f"<{name}>"


def link_ends(address: str) -> tuple[str, str]:
    """Return what begins and ends a link; nothing but a mark where it must not lead anywhere."""
    if not _SAFE_LINK.match(address):
        return '<span class="link">', "</span>"
    return f'<a href="{_text(address)}" rel="noopener noreferrer">', "</a>"
