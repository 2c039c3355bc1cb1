"""Writes docs/interop.md from the results."""

import re
from collections.abc import Iterable, Iterator, Sequence

from interop.agents import ACPX, AGENTS, agent_named
from interop.outcome import ACPX_STEPS, FORMS, IMPORT_STEPS, STEPS, Form, Outcome, Result
from rekindle import __version__

_TITLES: dict[Form, str] = {
    "bare": "bare",
    "v1": "behind Rekindle, v1 client",
    "v2": "behind Rekindle, v2 client",
}
_IN_SHORT = {
    "turn": "tool calls",
    "load memory": "memory after load",
    "agent killed": "memory when killed alone",
    "resume memory": "memory after resume",
    "cut off": "memory of a turn that was cut off",
    "fork memory": "memory in a fork",
}
_TOLD = {
    "load memory": "after load",
    "agent killed": "when killed alone",
    "resume memory": "after resume",
    "cut off": "of a turn that was cut off",
    "fork memory": "in a fork",
}
_BEGIN, _END = "<!-- interop: written by make interop -->", "<!-- /interop -->"

_HEAD = """\
# Real agents, bare and behind Rekindle

Written by `make interop` with Rekindle {version}; do not edit it. Pinned releases of real agents
ran with a fake model behind them, which answers with what it was shown: how many earlier messages
of the user, which tasks it has heard of, what stood in a note that a tool had read. So *remembers*
is what the model was shown, and not what an agent says.

Each agent went through the life of a session: a turn with a tool call and a second one; `kill -9`
of everything; started anew with the same home: list, load, a prompt; behind Rekindle, `kill -9` of
the agent alone and a prompt; a prompt, and `kill -9` of everything in the middle of its answer;
resume, two prompts, a fork and a prompt in it, the original once more, close, load, delete. Bare
agents were spoken to in version 1 of the protocol. All of it ran in a network namespace that has
nothing but loopback.

✓ it did what it should · ✗ it did not; the note says what happened · *not offered*: the agent does
not say that it can · — not reached, because it depends on something before it · *by itself*: the
agent brought it back from its own files · *told*: Rekindle told it the record, or the turn that was
cut off, with the prompt.
"""

_OF_ACPX = """\
## With a real client: acpx

{release}, before Rekindle and each agent. acpx keeps a process of its own in the background, which
was killed with the rest. It begins a new session without a word when one cannot be resumed, so the
store was asked in the end: all three turns must be in one session.
"""

_IMPORTS_HEAD = """\
## Imported from the tools themselves

Each tool made a session without Rekindle: it read a note, thought, changed a word of the note, and
failed to read a file that is not there. What its agent told meanwhile was kept. Then `rekindle
import` read the tool's own files into an empty store, which was loaded over ACP: through an agent
that has no sessions, through the agent of another tool, and through the one that made it, with its
files as they were.

What load tells was compared with what was seen live: the words of the user and of the agent, the
thoughts, their order, and of each tool call its kind, status, title, files, text and diff. It is
the same, but for what is listed below with its reason; anything else would be an ✗.
"""
_MARKS = {"ok": "✓", "not offered": "not offered", "failed": "✗", "not reached": "—"}
_MEANS = {"native": "by itself", "told": "told"}


# -- tables ---------------------------------------------------------------------------------


def release_label(result: Result) -> str:
    """Return the agent's name and version."""
    name, _, more = result.agent.partition(",")
    version = re.split("@|==", result.releases[0])[-1]
    return f"{name} {version}{',' * bool(more)}{more}"


class FailureNotes:
    """Cells of a table, and the notes below it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cell(self, outcome: Outcome | None) -> str:
        """Return what a table shows of an outcome."""
        if outcome is None:
            return "—"
        mark = _MARKS[outcome.status]
        if outcome.status != "failed":
            means = _MEANS.get(outcome.remark)
            return f"{mark} {means}" if means else mark
        number = self._numbers.setdefault(outcome.remark, len(self._numbers) + 1)
        return f"{mark} ({number})"

    @property
    def lines(self) -> list[str]:
        """The notes, each with the number that cells have."""
        notes = [f"{number}. {remark}" for remark, number in self._numbers.items()]
        return [*notes, ""] if notes else []


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# -- the document ---------------------------------------------------------------------------


def compose(results: Sequence[Result]) -> str:
    """Return the document."""
    parts = [_HEAD.format(version=__version__), _summary(results)]
    parts += [_agent(result) for result in results]
    parts += [_acpx(results), imports_section(results)]
    return "\n".join(parts)


def summary_table(results: Sequence[Result]) -> str:
    """Return the table for README: what each agent lacks bare, and has behind Rekindle."""
    rows = [(release_label(result), _lacks(result), _has(result)) for result in results]
    return markdown_table(("agent", "bare, it lacks", "behind Rekindle"), rows)


def update_readme(readme: str, results: Sequence[Result]) -> str:
    """Return README with the table in its place. Raises ValueError if there is none for it."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"README.md has no {_BEGIN} and {_END}")
    return f"{before}{begin}\n{summary_table(results)}\n{end}{after}"


def _summary(results: Sequence[Result]) -> str:
    return "\n".join(["## In short", "", summary_table(results), ""])


def _lacks(result: Result) -> str:
    if result.not_run:
        return result.not_run
    steps = result.forms.get("bare", {})
    missing = [_step(step) for step, it in steps.items() if it.status == "not offered"]
    failing = [_step(step) for step, it in steps.items() if it.status == "failed"]
    words = [", ".join(missing)] if missing else []
    words += [f"does not work: {', '.join(failing)}"] if failing else []
    return "; ".join(words) or "nothing"


def _has(result: Result) -> str:
    if result.not_run:
        return "not run"
    behind = [result.forms.get(form, {}) for form in FORMS if form != "bare"]
    if result.is_as_expected:
        told = [
            _TOLD[step] for step in _TOLD if any(item[step].remark == "told" for item in behind)
        ]
        return f"all of it; told the record {', '.join(told)}" if told else "all of it"
    failing = dict.fromkeys(
        _step(step) for steps in behind for step, it in steps.items() if it.status != "ok"
    )
    others = {"what acpx needs": result.acpx, "what is imported from it": result.imports}
    failing |= dict.fromkeys(
        words
        for words, steps in others.items()
        if any(value.status != "ok" for value in steps.values())
    )
    return f"all but {', '.join(failing)}"


def _step(step: str) -> str:
    """Return a step in a few words."""
    return _IN_SHORT.get(step, step)


def _agent(result: Result) -> str:
    spec = next(spec for spec in AGENTS if spec.name == result.agent)
    lines = [f"## {result.agent}", "", f"{', '.join(f'`{item}`' for item in result.releases)}"]
    if result.says:
        lines[-1] += f", which calls itself {result.says}"
    lines[-1] += "."
    if spec.remark:
        lines.append(f"{spec.remark[0].upper()}{spec.remark[1:]}.")
    lines.append("")
    if result.not_run:
        return "\n".join([*lines, f"**Not run**: {result.not_run}.", ""])
    notes = FailureNotes()
    rows = [
        (STEPS[step], *(notes.cell(result.forms.get(form, {}).get(step)) for form in FORMS))
        for step in STEPS
    ]
    lines.append(markdown_table(("", *(_TITLES[form] for form in FORMS)), rows))
    return "\n".join([*lines, "", *notes.lines])


def _acpx(results: Sequence[Result]) -> str:
    notes = FailureNotes()
    ran = [result for result in results if result.acpx]
    rows = [
        (
            item.agent,
            *(notes.cell(item.acpx.get(step, Outcome("not reached"))) for step in ACPX_STEPS),
        )
        for item in ran
    ]
    release = ", ".join(f"`{item}`" for item in ACPX.releases)
    head = _OF_ACPX.format(release=release)
    return "\n".join([head, markdown_table(("", *ACPX_STEPS.values()), rows), "", *notes.lines])


def imports_section(results: Sequence[Result]) -> str:
    """Return that part."""
    tools = [result for result in results if agent_named(result.agent).tool]
    lines = [_IMPORTS_HEAD, *_not_run(tools)]
    ran = [item for item in tools if item.imports]
    notes = FailureNotes()
    rows = [
        (name, *(_import_cell(notes, item, step) for item in ran))
        for step, name in IMPORT_STEPS.items()
    ]
    if ran:
        lines += [markdown_table(("", *map(release_label, ran)), rows), "", *notes.lines]
    differing = [row for item in ran for row in _differences(item)]
    if differing:
        lines += [markdown_table(("", "of", "live", "imported", "because"), differing), ""]
    return "\n".join(lines)


def _not_run(tools: Sequence[Result]) -> list[str]:
    lines = [f"**{tool.agent} was not run**: {tool.not_run}." for tool in tools if tool.not_run]
    return [*lines, ""] if lines else []


def _import_cell(notes: FailureNotes, result: Result, step: str) -> str:
    outcome = result.imports.get(step)
    cell = notes.cell(outcome)
    is_told = step == "other" and outcome is not None and outcome.status == "ok"
    return f"{cell}: {agent_named(result.agent).successor}" if is_told else cell


def _differences(result: Result) -> Iterator[tuple[str, ...]]:
    tool = agent_named(result.agent).tool
    for it in result.differences:
        found = it.difference
        yield tool, found.of, _quoted(found.live), _quoted(found.later), it.reason


def _quoted(words: str) -> str:
    """Return words as a cell of a table can have them."""
    line = words.replace("\n", "⏎").replace("|", "\\|")
    # Two: what tools say has one backtick or three.
    return f"`` {line} ``" if line else "—"
