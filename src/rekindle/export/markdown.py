"""Export a session as GitHub Markdown.

The text of a message cannot leave its place in the document: code fences are closed, and HTML tags
become text.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rekindle.export.content import (
    Code,
    Diff,
    LinkPart,
    Note,
    Part,
    Picture,
    Prose,
    block_parts,
    call_parts,
    pretty,
    summarize,
)
from rekindle.export.labels import agent_label, ending, one_line, utc_label
from rekindle.export.markdown_html import MAX_MARKDOWN
from rekindle.export.views import (
    Block,
    Checklist,
    RawUpdate,
    Remark,
    Speech,
    SubConversation,
    ToolUse,
    blocks_of,
)
from rekindle.model import Session
from rekindle.text.sanitize import is_harmful
from rekindle.transcript.model import Role, Terminals, TranscriptTurn
from rekindle.transcript.reducer import Transcript

_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~])")
_FENCE = re.compile(r"([ \t]*)(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_AT_LEFT = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_CODE_OR_TAG = re.compile(
    r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)|<(?=[A-Za-z/!?])|&#?\w{1,40};", re.DOTALL
)
_END_MARK = "what follows"
_RUN = re.compile(r"`+")


def as_markdown(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn]
) -> Iterator[str]:
    """Yield the parts of the document."""
    yield f"# {inline(session.title or 'Session')}\n\n"
    yield f"- Agent: {inline(agent_label(session.agent))}\n"
    yield f"- Folder: {_code(session.cwd or '?')}\n"
    yield f"- Session: {_code(session.id)}\n"
    yield f"- Time: {utc_label(session.created_us)} to {utc_label(session.updated_us)}\n"
    for turn in turns:
        yield f"\n## Turn {turn.number} · {utc_label(turn.at_us)}\n"
        yield from _turn(turn, transcript.terminals)


def _turn(turn: TranscriptTurn, terminals: Terminals) -> Iterator[str]:
    for item in turn.items:
        texts = (_block(block, terminals) for block in blocks_of(item))
        yield from (f"\n{text.rstrip()}\n" for text in texts if text)
    if end := ending(turn):
        yield f"\n*({inline(end.text)})*\n"


def _block(block: Block, terminals: Terminals) -> str:
    match block:
        case Speech():
            return _speech(block)
        case ToolUse(call):
            shown = summarize(call)
            about = f" ({shown.about})" if shown.about else ""
            parts = list(call_parts(call, terminals))
            title = f"{shown.mark} {shown.title}{about}"
            return _folded(title, _parts(parts)) if parts else inline(title)
        case Checklist(steps):
            marked = (("x" if step.is_done else " ", inline(step.text)) for step in steps)
            return "\n".join(f"- [{mark}] {text}" for mark, text in marked)
        case Remark(text):
            return f"*({inline(text)})*"
        case SubConversation(title, turns, terminals):
            parts = [part for turn in turns for part in _turn(turn, terminals)]
            return _folded(title, "".join(parts).strip()) if parts else inline(title)
        case RawUpdate(title, update):
            return _folded(title, fenced(pretty(update), "json"))


def _speech(speech: Speech) -> str:
    text = _parts(block_parts(speech.blocks))
    match speech.role:
        case Role.USER:
            return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case Role.THOUGHT:
            return _folded("Thought", text)
        case Role.AGENT:
            return text


def _parts(parts: Iterable[Part]) -> str:
    return "\n\n".join(map(_part, parts))


def _part(part: Part) -> str:
    match part:
        case Prose():
            return contained(part.text)
        case Code():
            return fenced(part.text, part.language)
        case Diff():
            return fenced(part.text, "diff")
        case Picture():
            return f"*[{inline(part.mime)}]*"
        case LinkPart():
            name = f"*[{inline(part.name)}]*: " if part.name != part.uri else ""
            return f"{name}{_code(part.uri)}"
        case Note():
            return f"*[{inline(part.text)}]*"


def _folded(title: str, text: str) -> str:
    # The text between the empty lines is Markdown; the rest is HTML.
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"


def fenced(text: str, language: str) -> str:
    """Return a text between fences that are longer than any fence in it."""
    longest = max(map(len, _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    text = one_line(text)
    fence = "`" * (max(map(len, _RUN.findall(text)), default=0) + 1)
    gap = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def inline(text: str) -> str:
    """Return a text on one line, with the characters of Markdown escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def contained(text: str) -> str:
    """Return Markdown that does not change the text after it: fences are closed, tags are text.

    In a list a fence may be indented far, where it otherwise is not a fence; so both readings are
    tried. If neither is contained, the whole text becomes a code block.
    """
    if len(text) <= MAX_MARKDOWN:
        for fence in (_FENCE, _FENCE_AT_LEFT):
            closed = _with_fences(text, fence)
            if _is_contained(closed):
                return closed
    return fenced(text, "")


def _is_contained(text: str) -> bool:
    """Return whether parsed Markdown ends where the text ends, and contains no HTML."""
    tokens = _parser().parse(f"{text}\n\n# {_END_MARK}\n")
    inner = [it for token in tokens for it in (token.children or [token])]
    is_last = [it.type for it in tokens[-3:]] == ["heading_open", "inline", "heading_close"]
    is_apart = is_last and tokens[-3].level == 0 and tokens[-2].content == _END_MARK
    return is_apart and not any(map(_is_active, inner))


def _is_active(token: Token) -> bool:
    if token.type.startswith("text"):
        return is_harmful(token.content)
    return token.type in {"html_block", "html_inline"}


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _with_fences(text: str, beginning: re.Pattern[str]) -> str:
    done: list[str] = []
    prose: list[str] = []
    fence: tuple[str, str] | None = None
    for line in text.rstrip().split("\n"):
        found = beginning.match(line)
        if fence is None and found is None:
            prose.append(line)
            continue
        done += _without_tags(prose)
        prose = []
        done.append(line)
        if fence is None and found is not None:
            fence = (found[1], found[2])
        elif fence is not None and _closes(line, fence[1]):
            fence = None
    done += _without_tags(prose)
    if fence is not None:
        done.append("".join(fence))
    return "\n".join(done)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and mark == fence[0] * len(mark)


def _without_tags(lines: list[str]) -> list[str]:
    return [_CODE_OR_TAG.sub(_as_text, "\n".join(lines))] if lines else []


def _as_text(found: re.Match[str]) -> str:
    if found[0] == "<":
        return "&lt;"
    # An entity may spell a harmful character.
    is_harmful_entity = found[0].startswith("&") and is_harmful(html.unescape(found[0]))
    return f"&amp;{found[0][1:]}" if is_harmful_entity else found[0]
