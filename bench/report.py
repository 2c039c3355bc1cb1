"""The report: figures from samples, compared with the bars, and the file with the results.

`make bench` writes the first part of the file, and `make load` the rest.
"""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import apsw

FOLDER = Path(__file__).parent
_PATH = FOLDER / "RESULTS.md"
_BETWEEN = "<!-- What follows is written by `make load`. -->\n"
SETUPS = ("direct", "cat", "rekindle")

Samples = dict[str, list[float]]
"""For each set-up, one figure per round."""

_HOW_TO_READ = """\
## How to read it

Only the ratios are meaningful: the figures come from one machine on one day. The set-ups were
measured in turn (direct, cat, rekindle, direct, …). A figure is the median of its rounds, and a
ratio is the quotient of two medians. Brackets contain the smallest and the largest value of any
round.

- **direct**: the client and the agent, connected by pipes. Both are fakes that do almost nothing
  with a line, so this is the speed of pipes, not of agents.
- **cat**: `cat | agent | cat`, two processes that only copy bytes: the minimum cost of any process
  between a client and an agent. A stream can even be faster, because more pipes buffer more.
- **rekindle**: `rekindle run -- agent`, recording into a new store on disk.

Chunks are `agent_message_chunk` updates with 60 bytes of text. The agent flushes each of them, as
a streaming agent does; "as fast as a pipe goes" means that it writes them in prepared blocks. Tool
results are `tool_call_update`s with 20 kB. The agent times a round trip from itself to the client
and back: `fs/read_text_file`, which is not recorded, and `session/request_permission`, whose
request and answer are recorded before Rekindle forwards them. The bar applies to the former, which
agents send on their own; the latter exceeds it, but waits for a person anyway. The client and the
agent have one core each, so each message wakes an idle core, as between programs that wait for
each other. On one core there is no such wake-up, and only the work remains. A start lasts from
starting the processes to the answer to `initialize`. Memory is that of the rekindle process alone;
1 MB is 1,000,000 bytes.
A load is of a session of five turns with chunks of 40 bytes, and the agent does not know the
session. A page is the time that the store needs for it, the slowest of four kinds of pages.
`rekindle list` is timed from the start of its process to its end, including the start of the
interpreter.
A translated stream goes from an agent of one version to a client of the other. It is compared with
the same stream between two peers of the agent's version. Both go through Rekindle and are timed to
the end of the turn.
The attached clients are processes of their own on the socket of the host, as other `rekindle run`
processes are. The bar compares the processor time that each of them costs the host with that of the
whole work for one client, which includes recording. In the host with many clients, each session has
a turn that all of its clients read.
Searched messages have 41 words each, from a vocabulary of 50,000 words that share many prefixes and
have the frequencies of a natural language. A search is timed with the index open and up to date,
and includes the snippets.
Every byte that the client received, and every update in the store, was compared with the bytes that
the agent sent.
"""


@dataclass(frozen=True)
class Bar:
    """The required value of a figure, and the measured one."""

    demand: str
    found: str
    is_met: bool

    @property
    def verdict(self) -> str:
        """Pass or fail, with the measured value."""
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
            *(_median(self.samples.get(setup)) for setup in SETUPS),
            *(_ratio(self.samples, setup) if is_compared else "" for setup in SETUPS[1:]),
            self.bar.demand if self.bar else "",
            self.bar.verdict if self.bar else "",
        ]


def ratio(samples: Samples, setup: str) -> float:
    """Return the quotient of a set-up's figure and that of direct."""
    return median(samples[setup]) / median(samples["direct"])


def number(value: float) -> str:
    """Format a number with three significant digits."""
    if value < 10:  # noqa: PLR2004
        return f"{value:.2g}" if value < 0.1 else f"{value:.2f}"  # noqa: PLR2004
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004


def spread(middle: float, rounds: Sequence[float], unit: str = "") -> str:
    """Format a figure with the range of its rounds."""
    return f"{number(middle)}{unit} ({number(min(rounds))} to {number(max(rounds))})"


def compose(rows: Sequence[Row], extent: str) -> str:
    """Return the report."""
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


def _median(samples: Sequence[float] | None) -> str:
    return number(median(samples)) if samples else ""


def _ratio(samples: Samples, setup: str) -> str:
    rounds = zip(samples[setup], samples["direct"], strict=True)
    return spread(ratio(samples, setup), [mine / direct for mine, direct in rounds])


# -- the file -------------------------------------------------------------------------------


def write_costs(report: str) -> None:
    """Write the part of `make bench`, and keep the rest."""
    _, mark, load = _read()
    _PATH.write_text(f"{report.rstrip()}\n\n{mark}{load}", encoding="utf-8")


def write_load(head: str, sections: dict[str, str]) -> None:
    """Write the sections of `make load` by title, and keep those that were not measured now."""
    costs, _, load = _read()
    former = {part.partition("\n")[0]: f"## {part.strip()}" for part in load.split("\n## ")[1:]}
    report = "\n\n".join([head, *{**former, **sections}.values()])
    _PATH.write_text(f"{costs.rstrip()}\n\n{_BETWEEN}\n{report}\n", encoding="utf-8")


def _read() -> tuple[str, str, str]:
    return _PATH.read_text(encoding="utf-8").partition(_BETWEEN)
