"""Diagnose and repair problems.

It checks the store, the configuration file, the agents and the editors. The
exit code is 1 if there is a problem. Warnings do not change it.

example:
  rekindle doctor
  rekindle doctor --fix
"""

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain

from msgspec.structs import replace

from rekindle.cli.formatting import one_line, print_json
from rekindle.cli.messages import print_note
from rekindle.cli.progress import ProgressBar
from rekindle.cli.store_access import add_store_option
from rekindle.composition import HOOKS
from rekindle.errors import RekindleError
from rekindle.store.address import default_address, maintenance_for, requested_address
from rekindle.store.maintenance import Diagnosis, Progress, Severity

_STYLES = {"ok": "green", "fixed": "cyan", "warning": "yellow", "problem": "bold red"}
_NARROW = 60
_PROGRESS_STEPS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument("--full", action="store_true", help="read every entry, which takes longer")
    parser.add_argument(
        "--fix", action="store_true", help="repair problems where nothing can be lost"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print a diagnosis for each check; return 1 if there is a problem."""
    requested = requested_address(arguments.store)
    address = requested or default_address()
    checks = maintenance_for(address).diagnose(
        full=arguments.full,
        is_requested=requested is not None,
        hooks=HOOKS,
        report=print_note,
        progress=_recovery_progress,
    )
    diagnoses: list[Diagnosis] = []
    for diagnosis in chain(checks, _check_configuration(), _check_helpers(), _check_editors()):
        is_damaged = any(it.is_damage and it.severity is Severity.PROBLEM for it in diagnoses)
        diagnoses.append(
            _repaired(diagnosis, is_damaged=is_damaged) if arguments.fix else diagnosis
        )
        if not arguments.json:
            _print(diagnoses[-1])
    is_well = all(diagnosis.severity is not Severity.PROBLEM for diagnosis in diagnoses)
    if arguments.json:
        described = [_describe(diagnosis) for diagnosis in diagnoses]
        print_json({"ok": is_well, "store": str(address), "findings": described})
    return 0 if is_well else 1


def _check_configuration() -> Iterator[Diagnosis]:
    from rekindle.cli.configured import problems_of
    from rekindle.configuration.file import load_configuration

    configuration = load_configuration()
    if configuration is None:
        return
    is_well = True
    for problem in problems_of(configuration):
        is_well = False
        yield Diagnosis(
            check="configuration",
            severity=Severity.PROBLEM if problem.is_error else Severity.WARNING,
            text=one_line(problem.text),
            remedy="correct the file; `rekindle config` shows the settings in use",
        )
    if is_well:
        yield Diagnosis(check="configuration", severity=Severity.OK, text=configuration.path)


def _check_helpers() -> Iterator[Diagnosis]:
    from rekindle.process.agent_helpers import helpers_left_behind

    for helper in helpers_left_behind():
        yield Diagnosis(
            check="helper",
            severity=Severity.WARNING,
            text=f"an agent that has ended left {one_line(helper.program)} running",
            remedy=f"end it with `kill {helper.pid}`, unless you use it",
            facts={"pid": helper.pid, "program": helper.program},
        )


def _check_editors() -> Iterator[Diagnosis]:
    from rekindle.cli.editors.doctor_checks import check_editors

    try:
        yield from check_editors()
    except (RekindleError, OSError) as error:
        yield Diagnosis(check="editors", severity=Severity.PROBLEM, text=one_line(str(error)))


@contextmanager
def _recovery_progress() -> Generator[Progress]:
    with ProgressBar("recovering the store") as bar:
        yield lambda done: bar.update(round(done * _PROGRESS_STEPS), _PROGRESS_STEPS)


def _repaired(diagnosis: Diagnosis, *, is_damaged: bool) -> Diagnosis:
    if diagnosis.repair is None:
        return diagnosis
    if is_damaged:
        return replace(diagnosis, remedy="not repaired, because the store is damaged")
    try:
        result = diagnosis.repair()
    except (RekindleError, OSError) as error:
        return replace(diagnosis, remedy=f"the repair failed: {one_line(str(error))}")
    text = result if isinstance(result, str) else ""
    return replace(diagnosis, severity=Severity.FIXED, remedy=text)


def _print(diagnosis: Diagnosis) -> None:
    if not sys.stdout.isatty():
        fields = (diagnosis.severity, diagnosis.check, diagnosis.text, diagnosis.remedy)
        print("\t".join(map(one_line, fields)))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(highlight=False)
    head = Text.assemble(
        (f"{diagnosis.severity:8}", _STYLES[diagnosis.severity]), f" {diagnosis.check:12}"
    )
    rest = Text(one_line(diagnosis.text))
    if diagnosis.remedy:
        rest.append(f"\n→ {one_line(diagnosis.remedy)}", style="dim")
    if console.width < _NARROW:
        console.print(head, Padding(rest, (0, 0, 0, 2)), sep="\n")
        return
    side_by_side = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1))
    side_by_side.add_row(head, rest)
    console.print(side_by_side)


def _describe(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "check": diagnosis.check,
        "level": diagnosis.severity,
        "what": diagnosis.text,
        "remedy": diagnosis.remedy or None,
        "facts": diagnosis.facts,
    }
