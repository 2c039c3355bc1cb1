"""A session as Markdown, as GitHub shows it. What was said cannot break out of its place."""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rekindle.export.content import (
    Code,
    Diff,
    Link,
    Note,
    Part,
    Picture,
    Prose,
    call_parts,
    message_parts,
    pretty,
    summary,
)
from rekindle.export.labels import HANDOVER, REMINDER, agent, ending, one_line, stamp, steps
from rekindle.export.markdown_html import LONGEST_MARKDOWN
from rekindle.model import Session
from rekindle.text.sanitize import is_harmful
from rekindle.transcript.model import (
    GapItem,
    HandoverItem,
    TranscriptItem,
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript

_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~])")
_FENCE = re.compile(r"([ \t]*)(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_AT_THE_LEFT = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_CODE_OR_TAG = re.compile(
    r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)|<(?=[A-Za-z/!?])|&#?\w{1,40};", re.DOTALL
)
_MARK = "what follows"
_RUN = re.compile(r"`+")


def as_markdown(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn]
) -> Iterator[str]:
    """Yield the document."""
    yield f"# {inline(session.title or 'Session')}\n\n"
    yield f"- Agent: {inline(agent(session.agent))}\n"
    yield f"- Folder: {_code(session.cwd or '?')}\n"
    yield f"- Session: {_code(session.id)}\n"
    yield f"- Time: {stamp(session.created_us)} to {stamp(session.updated_us)}\n"
    for turn in turns:
        yield f"\n## Turn {turn.number} · {stamp(turn.at_us)}\n"
        for item in turn.items:
            yield from (f"\n{words.rstrip()}\n" for words in _item(item, transcript) if words)
        if end := ending(turn):
            yield f"\n*({inline(end.words)})*\n"


def _item(item: TranscriptItem, transcript: Transcript) -> Iterator[str]:
    match item:
        case TranscriptMessage():
            yield _message(item)
        case ToolCallItem():
            shown = summary(item)
            about = f" ({shown.about})" if shown.about else ""
            parts = list(call_parts(item, transcript.terminals))
            title = f"{shown.mark} {shown.title}{about}"
            yield _folded(title, _parts(parts)) if parts else inline(title)
        case PlanItem():
            marked = (("x" if step.is_done else " ", inline(step.words)) for step in steps(item))
            yield "\n".join(f"- [{mark}] {words}" for mark, words in marked)
        case OtherItem():
            kind = one_line(str(item.update.get("sessionUpdate")))
            yield _folded(kind, fenced(pretty(item.update), "json"))
        case HandoverItem():
            yield f"*({HANDOVER})*"
        case ReminderItem():
            yield f"*({REMINDER})*"
        case GapItem():
            yield f"*({item})*"


def _message(message: TranscriptMessage) -> str:
    words = _parts(message_parts(message))
    match message.role:
        case Role.USER:
            return "\n".join(f"> {line}".rstrip() for line in words.split("\n"))
        case Role.THOUGHT:
            return _folded("Thought", words)
        case Role.AGENT:
            return words


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
        case Link():
            name = f"*[{inline(part.name)}]*: " if part.name != part.uri else ""
            return f"{name}{_code(part.uri)}"
        case Note():
            return f"*[{inline(part.text)}]*"


def _folded(title: str, words: str) -> str:
    # Between the empty lines is Markdown, before and after them HTML.
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{words}\n\n</details>"


def fenced(words: str, language: str) -> str:
    """Put a text between fences that are longer than any in it."""
    longest = max(map(len, _RUN.findall(words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{words.rstrip()}\n{fence}"


def _code(words: str) -> str:
    words = one_line(words)
    fence = "`" * (max(map(len, _RUN.findall(words)), default=0) + 1)
    gap = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{gap}{words}{gap}{fence}"


def inline(words: str) -> str:
    """Return words that are not to be taken for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", one_line(words))


def contained(words: str) -> str:
    """Return Markdown that ends where it ends: fences are closed, and tags are words.

    In a list a fence may stand far to the right, where it else is no fence. What cannot be
    contained either way is no Markdown that anybody meant, and shown as it is.
    """
    if len(words) <= LONGEST_MARKDOWN:
        for fence in (_FENCE, _FENCE_AT_THE_LEFT):
            made = _with_fences(words, fence)
            if _is_contained(made):
                return made
    return fenced(words, "")


def _is_contained(words: str) -> bool:
    """Tell, by reading it, whether it ends where it ends, and has nothing in it that acts."""
    tokens = _reader().parse(f"{words}\n\n# {_MARK}\n")
    inner = [it for token in tokens for it in (token.children or [token])]
    is_last = [it.type for it in tokens[-3:]] == ["heading_open", "inline", "heading_close"]
    is_apart = is_last and tokens[-3].level == 0 and tokens[-2].content == _MARK
    return is_apart and not any(map(_acts, inner))


def _acts(token: Token) -> bool:
    if token.type.startswith("text"):
        return is_harmful(token.content)
    return token.type in {"html_block", "html_inline"}


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _with_fences(words: str, beginning: re.Pattern[str]) -> str:
    done: list[str] = []
    prose: list[str] = []
    fence: tuple[str, str] | None = None
    for line in words.rstrip().split("\n"):
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
    return [_CODE_OR_TAG.sub(_as_words, "\n".join(lines))] if lines else []


def _as_words(found: re.Match[str]) -> str:
    if found[0] == "<":
        return "&lt;"
    # What is spelled is read like what is written, and so may not turn the direction either.
    is_spelled = found[0].startswith("&") and is_harmful(html.unescape(found[0]))
    return f"&amp;{found[0][1:]}" if is_spelled else found[0]
