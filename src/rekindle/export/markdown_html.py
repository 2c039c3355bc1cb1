"""Render Markdown as safe HTML.

Only the tags and attributes in this module are ever written; everything else is escaped text,
including HTML in the Markdown. A link is active only if it leads to the web or to mail.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rekindle.text.sanitize import clean

# A longer text was hardly written as Markdown, and would take long to parse.
MAX_MARKDOWN = 200_000
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_BLOCKS = frozenset(
    {
        "p", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td",
        "em", "strong", "s",
    }
)  # fmt: skip
_HEADING = re.compile(r"h([1-6])")
_HEADINGS_ABOVE = 2


def render_markdown(text: str) -> str:
    """Return Markdown as HTML."""
    if len(text) > MAX_MARKDOWN:
        return f"<pre>{html.escape(text)}</pre>"
    return "".join(_tokens(parser().parse(text)))


@cache
def parser() -> MarkdownIt:
    """Return the parser. It reads HTML tags as text."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # Unsafe links are parsed too, so that their labels can be shown.
    made.validateLink = lambda _: True  # pyright: ignore[reportAttributeAccessIssue]
    return made


def _tokens(tokens: Iterable[Token]) -> Iterator[str]:
    # Links cannot be nested in Markdown, so one variable suffices.
    closing = ""
    for token in tokens:
        if token.type == "link_open":
            opening, closing = link_tags(str(token.attrs.get("href", "")))
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
            opening, closing = link_tags(str(token.attrs.get("src", "")))
            yield f"{opening}{_text(token.content or 'image')}{closing}"
        case _:
            yield _tag(token)


def _text(text: str) -> str:
    """Return a text as HTML. It is cleaned again, because entities may spell harmful characters."""
    return html.escape(clean(text))


def _tag(token: Token) -> str:
    """Return an opening or closing tag; any other token as text."""
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


def link_tags(address: str) -> tuple[str, str]:
    """Return the tags around a link; those of a `span` if the address is not safe."""
    if not _SAFE_LINK.match(address):
        return '<span class="link">', "</span>"
    return f'<a href="{_text(address)}" rel="noopener noreferrer">', "</a>"
