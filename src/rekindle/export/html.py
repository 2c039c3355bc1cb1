"""Export a session as one HTML file without scripts and without external resources.

The content security policy in the file forbids both. All texts are escaped. The agent's Markdown
is rendered by `markdown_html`, which writes only a few tags.
"""

import html
from collections.abc import Iterable, Iterator

from rekindle.export.content import (
    Code,
    Diff,
    LinkPart,
    Note,
    Part,
    Picture,
    Prose,
    ToolCallLike,
    block_parts,
    call_parts,
    pretty,
    summarize,
)
from rekindle.export.labels import agent_label, ending, one_line, utc_label
from rekindle.export.markdown_html import link_tags, render_markdown
from rekindle.export.stylesheet import STYLESHEET
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
from rekindle.text.times import iso
from rekindle.transcript.model import Role, Terminals, TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.titles import shorten

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_STATUSES = frozenset({"pending", "in_progress", "completed", "failed", "cancelled"})
_escape = html.escape


def as_html(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn]
) -> Iterator[str]:
    """Yield the parts of the document."""
    title = _escape(one_line(session.title or "Session"))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="robots" content="noindex">\n'
        f"<title>{title}</title>\n<style>\n{STYLESHEET}</style>\n</head>\n<body>\n"
    )
    yield f'<header>\n<h1 dir="auto">{title}</h1>\n{_about(session)}</header>\n'
    yield from _contents(transcript.turns)
    yield "<main>\n"
    for turn in turns:
        yield from _turn(turn, transcript)
    yield "</main>\n<footer>Exported by Rekindle</footer>\n</body>\n</html>\n"


def _about(session: Session) -> str:
    fields = {
        "Agent": _escape(agent_label(session.agent)),
        "Folder": f"<code>{_escape(one_line(session.cwd or '?'))}</code>",
        "Session": f"<code>{_escape(one_line(session.id))}</code>",
        "Time": f"{_time(session.created_us)} to {_time(session.updated_us)}",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in fields.items())
    return f"<dl>\n{rows}</dl>\n"


def _contents(turns: list[TranscriptTurn]) -> Iterator[str]:
    if len(turns) < 2:  # noqa: PLR2004 - a single turn needs no list
        return
    yield "<nav>\n<details>\n<summary>Turns</summary>\n<ol>\n"
    for turn in turns:
        first = next(turn.messages, None)
        text = shorten(one_line(first.text)) if first else ""
        yield f'<li><a href="#turn-{turn.number}" dir="auto">{_escape(text or "…")}</a></li>\n'
    yield "</ol>\n</details>\n</nav>\n"


def _turn(turn: TranscriptTurn, transcript: Transcript) -> Iterator[str]:
    anchor = f"turn-{turn.number}"
    yield (
        f'<section id="{anchor}">\n<h2><a href="#{anchor}">Turn {turn.number}</a> '
        f"{_time(turn.at_us)}</h2>\n"
    )
    yield from _items(turn, transcript.terminals)
    yield "</section>\n"


def _items(turn: TranscriptTurn, terminals: Terminals) -> Iterator[str]:
    for item in turn.items:
        for block in blocks_of(item):
            yield from _block(block, terminals)
    if end := ending(turn):
        kind = "problem" if end.is_problem else "note"
        yield f'<p class="{kind}">{_escape(end.text)}</p>\n'


def _block(block: Block, terminals: Terminals) -> Iterator[str]:
    match block:
        case Speech():
            yield from _speech(block)
        case ToolUse(call):
            yield from _tool_call(call, terminals)
        case Checklist(steps):
            yield '<ul class="plan">\n'
            for step in steps:
                kind, mark = ("done", "☑") if step.is_done else ("open", "☐")
                yield f'<li class="{kind}" dir="auto">{mark} {_escape(step.text)}</li>\n'
            yield "</ul>\n"
        case Remark(text, is_problem):
            yield f'<p class="{"problem" if is_problem else "note"}">{_escape(text)}</p>\n'
        case SubConversation(title, turns, own_terminals):
            yield f'<details class="subagent"><summary>{_escape(title)}</summary>\n'
            for turn in turns:
                yield from _items(turn, own_terminals)
            yield "</details>\n"
        case RawUpdate(title, update):
            yield f'<details class="other"><summary>{_escape(title)}</summary>\n'
            yield f"{_part(Code(pretty(update)))}</details>\n"


def _speech(speech: Speech) -> Iterator[str]:
    parts = list(block_parts(speech.blocks))
    match speech.role:
        case Role.USER:
            yield '<div class="user" dir="auto">\n'
            for part in parts:
                # Users write plain text, which must not be rendered as Markdown.
                is_text = isinstance(part, Prose)
                yield f'<div class="text">{_escape(part.text)}</div>\n' if is_text else _part(part)
            yield "</div>\n"
        case Role.THOUGHT:
            yield '<details class="thought"><summary>Thought</summary>\n<div dir="auto">\n'
            yield from map(_part, parts)
            yield "</div>\n</details>\n"
        case Role.AGENT:
            yield '<div class="agent" dir="auto">\n'
            yield from map(_part, parts)
            yield "</div>\n"


def _tool_call(call: ToolCallLike, terminals: Terminals) -> Iterator[str]:
    shown = summarize(call)
    status = shown.status if shown.status in _STATUSES else "other"
    about = f" <small>{_escape(shown.about)}</small>" if shown.about else ""
    title = f'<span class="mark">{shown.mark}</span> {_escape(shown.title)}{about}'
    parts = list(call_parts(call, terminals))
    if parts:
        yield f'<details class="call {status}"><summary>{title}</summary>\n'
        yield from map(_part, parts)
        yield "</details>\n"
    else:
        yield f'<p class="call {status}">{title}</p>\n'


def _part(part: Part) -> str:
    match part:
        case Prose():
            return render_markdown(part.text)
        case Code():
            return f"<pre><code>{_escape(part.text)}</code></pre>\n"
        case Diff():
            return f'<pre class="diff"><code>{"".join(_lines(part))}</code></pre>\n'
        case Picture():
            return f'<p><img alt="" src="data:{part.mime};base64,{part.data}"></p>\n'
        case LinkPart():
            return _link(part)
        case Note():
            return f'<p class="note">{_escape(part.text)}</p>\n'


def _link(link: LinkPart) -> str:
    opening, closing = link_tags(link.uri)
    # The reader sees the address even if the link is not active.
    uri = f" <code>{_escape(link.uri)}</code>" if link.uri != link.name else ""
    return f'<p class="note">{opening}{_escape(link.name)}{closing}{uri}</p>\n'


def _lines(diff: Diff) -> Iterator[str]:
    is_head = True
    for line in diff.text.split("\n"):
        is_head = (is_head or line.startswith("diff ")) and not line.startswith("@@")
        is_about = is_head or line.startswith("@@")
        kind = "at" if is_about else {"+": "add", "-": "del"}.get(line[:1])
        yield f'<span class="{kind}">{_escape(line)}</span>\n' if kind else f"{_escape(line)}\n"


def _time(at_us: int) -> str:
    return f'<time datetime="{iso(at_us)}">{utc_label(at_us)}</time>'
