"""The part of the report on what tools have written themselves."""

from collections.abc import Iterator, Sequence

from interop.agents import agent_named
from interop.outcome import IMPORT_STEPS, Result
from interop.tables import Notes, release, table

_HEAD = """\
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


def imports(results: Sequence[Result]) -> str:
    """Return that part."""
    tools = [it for it in results if agent_named(it.agent).tool]
    lines = [_HEAD, *_not_run(tools)]
    ran = [it for it in tools if it.imports]
    notes = Notes()
    rows = [(name, *(_cell(notes, it, step) for it in ran)) for step, name in IMPORT_STEPS.items()]
    if ran:
        lines += [table(("", *map(release, ran)), rows), "", *notes.lines]
    differing = [row for it in ran for row in _differences(it)]
    if differing:
        lines += [table(("", "of", "live", "imported", "because"), differing), ""]
    return "\n".join(lines)


def _not_run(tools: Sequence[Result]) -> list[str]:
    lines = [f"**{it.agent} was not run**: {it.not_run}." for it in tools if it.not_run]
    return [*lines, ""] if lines else []


def _cell(notes: Notes, result: Result, step: str) -> str:
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
