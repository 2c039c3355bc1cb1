"""A session as one HTML file that needs nothing else, and can do nothing but be read.

No script, nothing from elsewhere: the file says so to the browser itself. All that was said is
escaped; Markdown of the agent's is made into HTML by `rendering`, which knows a few tags only.
"""

import html
from collections.abc import Iterable, Iterator

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
from rekindle.export.markdown_html import link_ends, rendered
from rekindle.export.stylesheet import STYLESHEET
from rekindle.model import Session
from rekindle.text.times import iso
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
    """Yield the document."""
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
    told = {
        "Agent": _escape(agent(session.agent)),
        "Folder": f"<code>{_escape(one_line(session.cwd or '?'))}</code>",
        "Session": f"<code>{_escape(one_line(session.id))}</code>",
        "Time": f"{_time(session.created_us)} to {_time(session.updated_us)}",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{words}</dd>\n" for name, words in told.items())
    return f"<dl>\n{rows}</dl>\n"


def _contents(turns: list[TranscriptTurn]) -> Iterator[str]:
    if len(turns) < 2:  # noqa: PLR2004 - one needs no list
        return
    yield "<nav>\n<details>\n<summary>Turns</summary>\n<ol>\n"
    for turn in turns:
        first = next((item for item in turn.items if isinstance(item, TranscriptMessage)), None)
        words = shorten(one_line(first.text)) if first else ""
        yield f'<li><a href="#turn-{turn.number}" dir="auto">{_escape(words or "…")}</a></li>\n'
    yield "</ol>\n</details>\n</nav>\n"


def _turn(turn: TranscriptTurn, transcript: Transcript) -> Iterator[str]:
    anchor = f"turn-{turn.number}"
    yield (
        f'<section id="{anchor}">\n<h2><a href="#{anchor}">Turn {turn.number}</a> '
        f"{_time(turn.at_us)}</h2>\n"
    )
    for item in turn.items:
        yield from _item(item, transcript)
    if end := ending(turn):
        kind = "problem" if end.is_problem else "note"
        yield f'<p class="{kind}">{_escape(end.words)}</p>\n'
    yield "</section>\n"


def _item(item: TranscriptItem, transcript: Transcript) -> Iterator[str]:
    match item:
        case TranscriptMessage():
            yield from _message(item)
        case ToolCallItem():
            yield from _call(item, transcript)
        case PlanItem():
            yield '<ul class="plan">\n'
            for step in steps(item):
                kind, mark = ("done", "☑") if step.is_done else ("open", "☐")
                yield f'<li class="{kind}" dir="auto">{mark} {_escape(step.words)}</li>\n'
            yield "</ul>\n"
        case OtherItem():
            kind = _escape(one_line(str(item.update.get("sessionUpdate"))))
            yield f'<details class="other"><summary>{kind}</summary>\n'
            yield f"{_part(Code(pretty(item.update)))}</details>\n"
        case HandoverItem():
            yield f'<p class="note">{HANDOVER}</p>\n'
        case ReminderItem():
            yield f'<p class="note">{REMINDER}</p>\n'
        case GapItem():
            yield f'<p class="problem">{item}</p>\n'


def _message(message: TranscriptMessage) -> Iterator[str]:
    parts = list(message_parts(message))
    match message.role:
        case Role.USER:
            yield '<div class="user" dir="auto">\n'
            for part in parts:
                # People write text, and would not want it to be read as Markdown.
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


def _call(call: ToolCallItem, transcript: Transcript) -> Iterator[str]:
    shown = summary(call)
    status = shown.status if shown.status in _STATUSES else "other"
    about = f" <small>{_escape(shown.about)}</small>" if shown.about else ""
    title = f'<span class="mark">{shown.mark}</span> {_escape(shown.title)}{about}'
    parts = list(call_parts(call, transcript.terminals))
    if parts:
        yield f'<details class="call {status}"><summary>{title}</summary>\n'
        yield from map(_part, parts)
        yield "</details>\n"
    else:
        yield f'<p class="call {status}">{title}</p>\n'


def _part(part: Part) -> str:
    match part:
        case Prose():
            return rendered(part.text)
        case Code():
            return f"<pre><code>{_escape(part.text)}</code></pre>\n"
        case Diff():
            return f'<pre class="diff"><code>{"".join(_lines(part))}</code></pre>\n'
        case Picture():
            return f'<p><img alt="" src="data:{part.mime};base64,{part.data}"></p>\n'
        case Link():
            return _link(part)
        case Note():
            return f'<p class="note">{_escape(part.text)}</p>\n'


def _link(link: Link) -> str:
    opening, closing = link_ends(link.uri)
    # Where no link leads, the reader is to see where it would.
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
    return f'<time datetime="{iso(at_us)}">{stamp(at_us)}</time>'
