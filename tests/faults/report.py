"""The output of a run: a line for each failure, a final table, and the page about reliability."""

import inspect
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from . import checks, damage, endurance, resource_usage
from .episodes import Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md"
_STRUCK = ("Rekindle", "the agent", "the client")
_BLOWS = ("kill", "pause")
_CHECKS: tuple[Callable[..., object], ...] = (
    checks.check_record,
    checks.check_replay,
    checks.check_leases,
    checks.check_no_internal_errors,
    resource_usage.check_resource_usage,
)
_INTRODUCTION = """\
# Reliability

*Written by `make torture` with the seeds and seconds of this table, one seed after the other, each
with some episodes at once; do not edit.*

This page shows whether anything was lost. Clients, Rekindle and agents run as separate processes,
and faults hit them many times, at moments that a seed decides. Every message of an agent carries
a number, and the client process notes each byte that it receives. So the expected content of the
store is known exactly. Three in ten of the clients and agents speak version 2 of the protocol.
"""
_MEANING = """\
**kill** is SIGKILL. **pause** is SIGSTOP for up to 0.15 s, then SIGCONT. The other processes must
then exit, or continue. After a kill of the agent, Rekindle starts it again and the next turn
works. After a kill of Rekindle or the client, no process is left. Rekindle is mostly forked from
a process that has already imported it; in one of 20 cases, it is started as editors start it.
"""
_OTHERS = """\
**Damage.** {damage}

**Endurance.** {endurance}

**Failing disks.** A preloaded library lets writes and syncs of Rekindle fail with EIO and ENOSPC:
for the log, the store, the shared memory, pending files and their folder. The data of a failed
sync are in the file nevertheless. `tests/runtime/test_uncertain_write.py` does the same in any
order, and checks the store in the state that a kill would leave at that moment.

**Loss of power** cannot be produced by killing processes. `tests/store/sqlite/test_power_loss.py`
and `tests/runtime/test_power_loss.py` put SQLite and pending files on a simulated disk, which
loses any part of the unsynced data, names of files included. They stop at any write: finished
turns are there, once and in order, and the store is sound. The tests assume that disks keep
synced data.

**Mutations** show whether the tests notice a fault in the source. Four mutations that the tests
had missed are caught now: a folder that is not synced before a pending file is forgotten, the
name of a pending file that is never synced, a late answer that is accepted twice, and a pause
between two attempts that does not grow. Of 52 further mutations, drawn at random from `proxy`,
`store`, `runtime` and `transfer`, the tests caught 44 at once. Four more mattered, and each has a
test now. Three change nothing. One closes a descriptor later, which breaks no promise.

**Not covered:** systems other than Linux.
"""


@dataclass(frozen=True)
class Run:
    """The outcomes of one seed."""

    seed: int
    seconds: float
    outcomes: list[Outcome]

    @property
    def faults(self) -> Counter[str]:
        return sum((outcome.faults for outcome in self.outcomes), Counter())

    @property
    def broken(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.violation]

    def figures(self) -> dict[str, int]:
        updates = sum(outcome.updates for outcome in self.outcomes)
        sessions = sum(outcome.sessions for outcome in self.outcomes)
        return {
            "seconds": round(self.seconds),
            "episodes": len(self.outcomes),
            "faults": self.faults.total(),
            "sessions": sessions,
            "updates checked": updates,
            "promises broken": len(self.broken),
        }


def failure(outcome: Outcome, root: Path) -> str:
    """Describe a failed episode, and how to repeat it."""
    again = f"make torture SEED={outcome.seed} EPISODE={outcome.number}"
    kept = root / f"{outcome.seed}-{outcome.number}"
    return (
        f"\nepisode {outcome.number} ({outcome.kind}): {outcome.violation}\n"
        f"  its folder is kept: {kept}\n"
        f"  to run it again: {again}"
    )


def progress(run: Run) -> str:
    return f"\r{run.seconds:.0f} s: {len(run.outcomes)} episodes, {run.faults.total()} faults "


def summary(run: Run) -> str:
    """Return the table of faults, and the totals."""
    faults = run.faults
    width = max(map(len, faults), default=0)
    rows = [f"{name:{width}}  {count:6}" for name, count in sorted(faults.items())]
    skipped = [f"not possible here: {name}: {why}" for name, why in _skipped([run]).items()]
    figures = ", ".join(f"{number} {what}" for what, number in run.figures().items())
    return "\n".join([*rows, *skipped, f"seed {run.seed}: {figures}"])


def write(runs: list[Run]) -> None:
    """Write the document."""
    DOCUMENT.write_text("\n".join(_document(runs)), encoding="utf-8")


def _document(runs: list[Run]) -> Iterator[str]:
    faults = sum((run.faults for run in runs), Counter[str]())
    yield _INTRODUCTION
    yield from _table(
        ["seed", *runs[0].figures()], ([str(run.seed), *run.figures().values()] for run in runs)
    )
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    python, sqlite = platform.python_version(), apsw.sqlite_lib_version()
    yield f"On {system}, Python {python}, SQLite {sqlite}.\n"
    yield from _broken(runs)
    yield "## What is checked\n"
    yield "After every fault, for the sessions and processes that it has touched:\n"
    yield from (f"- {_in_one_line(check)}" for check in _CHECKS)
    yield "- No process is left behind, which a variable in its environment shows."
    yield "- Every request is answered, and the next turn works.\n"
    yield "At the end of every episode (some faults on one store), for all its sessions:\n"
    yield f"- {_in_one_line(checks.check_integrity)}\n"
    yield "## Killed and paused processes\n"
    yield from _table(["", *_strikes_header()], _strikes(faults))
    yield _MEANING
    yield "## Other faults\n"
    others = {name: count for name, count in faults.items() if not _is_strike(name)}
    yield from _table(["fault", "times"], sorted(others.items()))
    yield from (f"- Not possible here: {name}: {why}." for name, why in _skipped(runs).items())
    yield _OTHERS.format(damage=_in_one_line(damage), endurance=_in_one_line(endurance))


def _broken(runs: list[Run]) -> Iterator[str]:
    for run in runs:
        for outcome in run.broken:
            where = f"episode {outcome.number} of seed {run.seed}"
            yield f"- **Broken** in {where}: {outcome.violation}\n"


def _is_strike(name: str) -> bool:
    return name.startswith(_BLOWS) and ", " in name


def _strikes_header() -> list[str]:
    return [f"{blow} {who}" for blow in _BLOWS for who in _STRUCK]


def _strikes(faults: Counter[str]) -> Iterator[list[object]]:
    for moment in sorted({name.partition(", ")[2] for name in faults if _is_strike(name)}):
        yield [moment, *(faults[f"{struck}, {moment}"] for struck in _strikes_header())]


def _table(header: list[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(f'{it:,}' if isinstance(it, int) else str(it) for it in row)} |"
    yield ""


def _skipped(runs: list[Run]) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in runs:
        for outcome in run.outcomes:
            found |= outcome.skipped
    return found


def _in_one_line(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())
