"""Turns samples into figures, holds them against the bars, and writes both down."""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import apsw

SETUPS = ("direct", "cat", "rekindle")

Samples = dict[str, list[float]]
"""For each set-up, one figure a round."""

_HOW_TO_READ = """\
## How to read it

Only ratios mean anything: the figures themselves are those of one machine on one day. The
set-ups took turns (direct, cat, rekindle, direct, …). A figure is the median of its rounds,
a ratio that of two medians; in brackets are the least and the greatest that any one round
gave.

- **direct**: the client and the agent, joined by pipes. Both are fakes that do next to
  nothing with a line, so this is the speed of pipes, not of agents.
- **cat**: `cat | agent | cat`, two processes that only copy bytes: the least that anything
  between a client and an agent can cost. A stream may even gain, for more pipes hold more.
- **rekindle**: `rekindle run -- agent`, recording into a fresh store on disk.

Chunks are `agent_message_chunk` updates with 60 bytes of text, each flushed by the agent as a
streaming agent does; as fast as a pipe goes, they are written in blocks that were made
beforehand. Tool results are `tool_call_update`s with 20 kB. A round trip goes from the agent
to the client and back, timed by the agent: `fs/read_text_file`, which is not recorded, and
`session/request_permission`, of which both the question and the answer are on record before
they are passed on. The bar is on the former, which agents make by themselves; the latter is
beyond it, and waits for a person anyway. The client and the agent have a core each, so that
each message wakes an idle core, as between programs that wait for each other; on one core that
falls away, and what is left is the work. A start lasts from starting the processes to the
answer to `initialize`. Memory is that of the rekindle process alone; MB are 1,000,000 bytes.
A load is of a session of five turns with chunks of 40 bytes, by an agent that does not know it; a
page is what the store needs for it, the slowest of four kinds of pages. `rekindle list` is timed
from the start of its process to its end, the interpreter's own start included.
What is translated goes from an agent of one version to a client of the other, and is held against
the same stream between two of the agent's version, both through Rekindle and to the turn's end.
Messages that are searched have 41 words each, as unevenly common as those of a language, of 50,000
that share many beginnings; a search is measured with the index open and up to date, snippets
included.
Every byte that the client received, and every update in the store, was compared with what the
agent sent.
"""


@dataclass(frozen=True)
class Bar:
    """What a figure must be, and what it is."""

    demand: str
    found: str
    is_met: bool

    @property
    def verdict(self) -> str:
        """Pass or fail, and by how much."""
        return f"{'pass' if self.is_met else '**fail**'}: {self.found}"


@dataclass(frozen=True)
class Row:
    """A figure for each set-up that has it."""

    what: str
    samples: Samples
    bar: Bar | None = None

    def cells(self) -> list[str]:
        """Return the row of the table."""
        is_compared = "direct" in self.samples
        return [
            self.what,
            *(_middle(self.samples.get(setup)) for setup in SETUPS),
            *(_ratio(self.samples, setup) if is_compared else "" for setup in SETUPS[1:]),
            self.bar.demand if self.bar else "",
            self.bar.verdict if self.bar else "",
        ]


def ratio(samples: Samples, setup: str) -> float:
    """Return a set-up's figure in terms of direct's."""
    return median(samples[setup]) / median(samples["direct"])


def number(value: float) -> str:
    """Write as many digits as mean something."""
    if value < 10:  # noqa: PLR2004
        return f"{value:.2g}" if value < 0.1 else f"{value:.2f}"  # noqa: PLR2004
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004


def spread(middle: float, rounds: Sequence[float], unit: str = "") -> str:
    """Write a figure, and the range in which the rounds gave it."""
    return f"{number(middle)}{unit} ({number(min(rounds))} to {number(max(rounds))})"


def compose(rows: Sequence[Row], extent: str) -> str:
    """Write the report."""
    header = ("", *SETUPS, "cat / direct", "rekindle / direct", "bar", "")
    table = [header, ["---"] * len(header), *(row.cells() for row in rows)]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    bars = "\n".join(
        f"- {row.what}: {row.bar.demand}; {row.bar.verdict}." for row in rows if row.bar
    )
    return f"""\
# What Rekindle costs

{time.strftime("%Y-%m-%d")}, Python {platform.python_version()}, \
SQLite {apsw.sqlite_lib_version()}, {platform.system()}, {os.cpu_count()} cores.
{extent} Written by `make bench`.

{lines}

## Bars

{bars}

{_HOW_TO_READ}"""


def _middle(samples: Sequence[float] | None) -> str:
    return number(median(samples)) if samples else ""


def _ratio(samples: Samples, setup: str) -> str:
    rounds = zip(samples[setup], samples["direct"], strict=True)
    return spread(ratio(samples, setup), [mine / direct for mine, direct in rounds])
