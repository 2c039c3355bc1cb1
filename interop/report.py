"""Writes docs/interop.md from the results."""

from collections.abc import Sequence

from interop.agents import ACPX, AGENTS
from interop.outcome import ACPX_STEPS, FORMS, STEPS, Form, Outcome, Result
from interop.report_of_imports import imports
from interop.tables import Notes, release, table
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


def compose(results: Sequence[Result]) -> str:
    """Return the document."""
    parts = [_HEAD.format(version=__version__), _summary(results)]
    parts += [_agent(result) for result in results]
    parts += [_acpx(results), imports(results)]
    return "\n".join(parts)


def short(results: Sequence[Result]) -> str:
    """Return the table for README: what each agent lacks bare, and has behind Rekindle."""
    rows = [(release(it), _lacks(it), _has(it)) for it in results]
    return table(("agent", "bare, it lacks", "behind Rekindle"), rows)


def in_readme(readme: str, results: Sequence[Result]) -> str:
    """Return README with the table in its place. Raises ValueError if there is none for it."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"README.md has no {_BEGIN} and {_END}")
    return f"{before}{begin}\n{short(results)}\n{end}{after}"


def _summary(results: Sequence[Result]) -> str:
    return "\n".join(["## In short", "", short(results), ""])


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
        told = [_TOLD[step] for step in _TOLD if any(it[step].remark == "told" for it in behind)]
        return f"all of it; told the record {', '.join(told)}" if told else "all of it"
    failing = dict.fromkeys(
        _step(step) for steps in behind for step, it in steps.items() if it.status != "ok"
    )
    others = {"what acpx needs": result.acpx, "what is imported from it": result.imports}
    failing |= dict.fromkeys(
        words for words, steps in others.items() if any(it.status != "ok" for it in steps.values())
    )
    return f"all but {', '.join(failing)}"


def _step(step: str) -> str:
    """Return a step in a few words."""
    return _IN_SHORT.get(step, step)


def _agent(result: Result) -> str:
    spec = next(spec for spec in AGENTS if spec.name == result.agent)
    lines = [f"## {result.agent}", "", f"{', '.join(f'`{it}`' for it in result.releases)}"]
    if result.says:
        lines[-1] += f", which calls itself {result.says}"
    lines[-1] += "."
    if spec.remark:
        lines.append(f"{spec.remark[0].upper()}{spec.remark[1:]}.")
    lines.append("")
    if result.not_run:
        return "\n".join([*lines, f"**Not run**: {result.not_run}.", ""])
    notes = Notes()
    rows = [
        (STEPS[step], *(notes.cell(result.forms.get(form, {}).get(step)) for form in FORMS))
        for step in STEPS
    ]
    lines.append(table(("", *(_TITLES[form] for form in FORMS)), rows))
    return "\n".join([*lines, "", *notes.lines])


def _acpx(results: Sequence[Result]) -> str:
    notes = Notes()
    ran = [it for it in results if it.acpx]
    rows = [
        (it.agent, *(notes.cell(it.acpx.get(step, Outcome("not reached"))) for step in ACPX_STEPS))
        for it in ran
    ]
    release = ", ".join(f"`{it}`" for it in ACPX.releases)
    head = _OF_ACPX.format(release=release)
    return "\n".join([head, table(("", *ACPX_STEPS.values()), rows), "", *notes.lines])
