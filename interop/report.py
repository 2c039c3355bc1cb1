"""The text of docs/reference/interop.md, and the table in README.md."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from interop.agents import ACPX, AGENTS, CODECOMPANION, NEOVIM, Package, agent_named
from interop.outcome import (
    ACPX_STEPS,
    FORMS,
    IMPORT_STEPS,
    METHODS,
    MOMENTS,
    NEOVIM_STEPS,
    SHARING_STEPS,
    STEPS,
    Form,
    MemoryOutcome,
    Method,
    Outcome,
    Result,
)
from rekindle import __version__

_TITLES: dict[Form, str] = {
    "bare": "bare",
    "v1": "behind Rekindle, v1 client",
    "v2": "behind Rekindle, v2 client",
}
_SHORT_LABELS = {
    "turn": "tool calls",
    "load memory": "memory after load",
    "agent killed": "memory after a kill of the agent alone",
    "resume memory": "memory after resume",
    "cut off": "memory of an interrupted turn",
    "fork memory": "memory in a fork",
    "rewind memory": "memory after a rewind",
}
_HANDOVERS = {
    "load memory": "after load",
    "agent killed": "after a kill of the agent alone",
    "resume memory": "after resume",
    "cut off": "after an interrupted turn",
    "fork memory": "in a fork",
    "rewind memory": "after a rewind",
}
_BEGIN, _END = "<!-- interop: written by make interop -->", "<!-- /interop -->"

_HEAD = """\
# Real agents, bare and behind Rekindle

Written by `make interop` with Rekindle {version}; do not edit it. Pinned releases of real agents
ran with a fake model. The model reports its input: the number of earlier messages of the
user, the tasks in them, and the content of a note that a tool has read. So *remembers* means that
the model received the messages, not that the agent claims it.

Each agent went through the life of a session: a turn with a tool call and a second one; `kill -9`
of everything; a new start with the same home: list, load, a prompt; behind Rekindle, `kill -9` of
the agent alone and a prompt; a prompt, and `kill -9` of everything in the middle of its answer;
resume, two prompts, a fork and a prompt in it, a prompt in the original, close, load; a title,
archive and unarchive; a rewind to the second answer and a prompt; delete. Bare agents were used
with version 1 of the protocol. Everything ran in a network namespace with loopback only.

✓ passed · ✗ failed, with the reason in a note · *not offered*: the agent does not advertise it ·
— not reached, because it depends on an earlier step · *by itself*: the agent restored it from its
own files · *with history*: Rekindle sent the history, or the interrupted turn, with the prompt.
"""

_ACPX_HEAD = """\
## With a real client: acpx

{release}, with each agent behind Rekindle. acpx has a process of its own in the background, which
was killed with the others. It silently starts a new session if one cannot be resumed, so the store
was checked at the end: all three turns must be in one session.
"""

_NEOVIM_HEAD = """\
## With a real client: CodeCompanion in Neovim

{release}, headless, with each agent behind Rekindle. Each prompt had a Neovim of its own, which was
killed after the answer. The next one resumed the latest session with `/resume`: it lists the
sessions and loads the first. The chat must show the earlier answers, and the model must know them.
"""

_SHARING_HEAD = """\
## Two clients, and an editor that is killed

Each agent ran behind `rekindle run --detach`. A second client opened the session in the middle of a
turn, and had the same messages at its end. In the next turn, the first client's user did not answer
the agent's permission request, and the second client did. Then the process that the first editor
had started was killed in the middle of an answer: the turn had to end whole in the record, and the
next editor continued the session.
"""

_MEMORY_HEAD = """\
## The memory of a killed agent

Each session had two turns, a clean restart, and two more turns. Then everything was killed: in the
middle of the answer to a fifth prompt, at the moment of the fourth answer, or some time after it.
After a restart, the session was loaded or resumed behind Rekindle, and the model received one more
prompt. ✓ means that this request had the prompt and the answer of each of the four turns once: in
the agent's own history, or in the text that Rekindle sent with the prompt.

*native*: the agent restored the session from its own files; *+ n*: Rekindle found that n turns were
missing there, and sent them; *handover*: Rekindle sent the whole history.
"""

_IMPORTS_HEAD = """\
## Imported from the tools themselves

Each tool created a session without Rekindle: it read a note, thought, changed a word of the note,
and failed to read a missing file. The updates of its agent were kept. Then `rekindle import` read
the tool's own files into an empty store. The session was loaded over ACP with an agent without
sessions, with the agent of another tool, and with the tool's own agent and its unchanged files.

The replay was compared with the live session: the text of the user and of the agent, the thoughts,
their order, and the kind, status, title, files, text and diff of each tool call. They are equal,
except for the differences below with their reasons. Any other difference would be an ✗.
"""
_MARKS = {"ok": "✓", "not offered": "not offered", "failed": "✗", "not reached": "—"}
_MEANS = {"native": "by itself", "told": "with history"}


# -- tables ---------------------------------------------------------------------------------


def release_label(result: Result) -> str:
    """Return the agent's name and version."""
    name, _, more = result.agent.partition(",")
    version = re.split("@|==", result.releases[0])[-1]
    return f"{name} {version}{',' * bool(more)}{more}"


class FailureNotes:
    """The cells of a table, and the numbered notes on failures below it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cell(self, outcome: Outcome | None) -> str:
        """Return the cell of an outcome."""
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
        """The notes, with the numbers of the cells."""
        notes = [f"{number}. {remark}" for remark, number in self._numbers.items()]
        return [*notes, ""] if notes else []


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# -- the document ---------------------------------------------------------------------------


def compose(results: Sequence[Result]) -> str:
    """Return the document."""
    parts = [_HEAD.format(version=__version__), _summary(results)]
    parts += [_agent(result) for result in results]
    parts += [_memory(results), _acpx(results), _neovim(results)]
    parts += [_sharing(results), imports_section(results)]
    return "\n".join(parts)


def summary_table(results: Sequence[Result]) -> str:
    """Return the table for README: the features of each agent, bare and behind Rekindle."""
    rows = [(release_label(result), _lacks(result), _has(result)) for result in results]
    return markdown_table(("agent", "bare, it lacks", "behind Rekindle"), rows)


def update_readme(readme: str, results: Sequence[Result]) -> str:
    """Return README with the table replaced. Raises ValueError if its marks are missing."""
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
    missing = [_step(step) for step, found in steps.items() if found.status == "not offered"]
    failing = [_step(step) for step, found in steps.items() if found.status == "failed"]
    parts = [", ".join(missing)] if missing else []
    parts += [f"does not work: {', '.join(failing)}"] if failing else []
    return "; ".join(parts) or "nothing"


def _has(result: Result) -> str:
    if result.not_run:
        return "not run"
    behind = [result.forms.get(form, {}) for form in FORMS if form != "bare"]
    if result.is_as_expected:
        sent = [
            _HANDOVERS[step]
            for step in _HANDOVERS
            if any(step in item and item[step].remark == "told" for item in behind)
        ]
        more = f"; Rekindle sends the history {', '.join(sent)}" if sent else ""
        return f"everything{more}"
    failing = dict.fromkeys(
        _step(step) for steps in behind for step, found in steps.items() if found.status != "ok"
    )
    if not all(outcome.is_ok for outcome in result.memory):
        failing["memory of all turns after a kill"] = None
    others = {
        "what acpx needs": result.acpx,
        "what Neovim needs": result.neovim,
        "shared sessions": {
            step: it for step, it in result.sharing.items() if it.status != "not offered"
        },
        "what is imported from it": result.imports,
    }
    failing |= dict.fromkeys(
        label
        for label, steps in others.items()
        if any(found.status != "ok" for found in steps.values())
    )
    return f"everything but {', '.join(failing)}"


def _step(step: str) -> str:
    """Return the short label of a step."""
    return _SHORT_LABELS.get(step, step)


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


def memory_table(results: Sequence[Result]) -> str:
    """Return the table of the turns that the model was shown after each kill."""
    return "\n".join(_memory_lines(results))


def _memory(results: Sequence[Result]) -> str:
    return "\n".join([_MEMORY_HEAD, *_memory_lines(results), ""])


def _memory_lines(results: Sequence[Result]) -> list[str]:
    notes = FailureNotes()
    rows = [
        (result.agent, method, *(_memory_cell(notes, result, moment, method) for moment in MOMENTS))
        for result in results
        if result.memory
        for method in METHODS
    ]
    table = markdown_table(("", "", *MOMENTS.values()), rows)
    return [table, "", *notes.lines]


def _memory_cell(notes: FailureNotes, result: Result, moment: str, method: Method) -> str:
    found = (it for it in result.memory if (it.moment, it.method) == (moment, method))
    outcome = next(found, None)
    if outcome is None:
        return "—"
    more = f" + {outcome.missing_turns}" if outcome.missing_turns else ""
    if outcome.is_ok:
        return f"✓ {outcome.restored}{more}"
    failed = notes.cell(Outcome("failed", _memory_failure(outcome)))
    return f"{failed} {outcome.restored}{more}".strip()


def _memory_failure(outcome: MemoryOutcome) -> str:
    if outcome.error:
        return outcome.error
    parts = [f"without {', '.join(outcome.missing)}"] if outcome.missing else []
    parts += [f"with {', '.join(outcome.doubled)} more than once"] if outcome.doubled else []
    return f"the model was shown the session {' and '.join(parts)}"


def _acpx(results: Sequence[Result]) -> str:
    rows = [(result.agent, result.acpx) for result in results if result.acpx]
    head = _ACPX_HEAD.format(release=_releases(ACPX))
    return _client(head, ACPX_STEPS, rows)


def _neovim(results: Sequence[Result]) -> str:
    rows = [(result.agent, result.neovim) for result in results if result.neovim]
    head = _NEOVIM_HEAD.format(release=f"{_releases(CODECOMPANION)} in {_releases(NEOVIM)}")
    return _client(head, NEOVIM_STEPS, rows)


def _sharing(results: Sequence[Result]) -> str:
    rows = [(result.agent, result.sharing) for result in results if result.sharing]
    return _client(_SHARING_HEAD, SHARING_STEPS, rows)


def _client(
    head: str, steps: Mapping[str, str], rows: Sequence[tuple[str, Mapping[str, Outcome]]]
) -> str:
    """Return the part about a real client."""
    if not rows:
        return f"{head}\n**Not run**: it is not installed.\n"
    notes = FailureNotes()
    cells = [
        (agent, *(notes.cell(found.get(step, Outcome("not reached"))) for step in steps))
        for agent, found in rows
    ]
    return "\n".join([head, markdown_table(("", *steps.values()), cells), "", *notes.lines])


def _releases(package: Package) -> str:
    return ", ".join(f"`{release}`" for release in package.releases)


def imports_section(results: Sequence[Result]) -> str:
    """Return the part about imported sessions."""
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
    is_sent = step == "other" and outcome is not None and outcome.status == "ok"
    return f"{cell}: {agent_named(result.agent).successor}" if is_sent else cell


def _differences(result: Result) -> Iterator[tuple[str, ...]]:
    tool = agent_named(result.agent).tool
    for explained in result.differences:
        found = explained.difference
        yield tool, found.of, _quoted(found.live), _quoted(found.later), explained.reason


def _quoted(text: str) -> str:
    """Return a text as a cell of a table."""
    line = text.replace("\n", "⏎").replace("|", "\\|")
    # Two backticks, because the texts of tools have one or three.
    return f"`` {line} ``" if line else "—"
