"""See whether all is well: the store, who uses it, the agents seen, what editors are told.

Ends with 1 if there is a problem, and with 0 if there is none; a warning is none.

example:
  rekindle doctor
  rekindle doctor --fix
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from rekindle.cli.doctor import SAVE, Finding, Level
from rekindle.cli.formatting import one_line, print_json
from rekindle.cli.store_access import add_store_option
from rekindle.errors import RekindleError, StoreDamaged
from rekindle.store.address import asked_for, usual_path

_STYLES = {"ok": "green", "fixed": "cyan", "warning": "yellow", "problem": "bold red"}
_WORTH_A_WORD = 500_000_000
_NARROW = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--full", action="store_true", help="read everything, which takes a while if there is much"
    )
    parser.add_argument(
        "--fix", action="store_true", help="repair what can be repaired without losing anything"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print what was found."""
    asked = asked_for(arguments.store)
    path = asked or usual_path()
    findings: list[Finding] = []
    for finding in _examine(path, is_asked_for=asked is not None, full=arguments.full):
        is_damaged = any(it.is_damage and it.level is Level.PROBLEM for it in findings)
        findings.append(_mended(finding, is_damaged=is_damaged) if arguments.fix else finding)
        if not arguments.json:
            _print(findings[-1])
    is_well = all(finding.level is not Level.PROBLEM for finding in findings)
    if arguments.json:
        described = [_describe(finding) for finding in findings]
        print_json({"ok": is_well, "store": str(path), "findings": described})
    return 0 if is_well else 1


def _examine(path: Path, *, is_asked_for: bool, full: bool) -> Iterator[Finding]:
    from rekindle.cli.doctor.database import check_sqlite
    from rekindle.cli.doctor.editors import check_editors
    from rekindle.cli.doctor.location import (
        check_disk,
        check_permissions,
        check_store,
        check_writable,
    )
    from rekindle.cli.doctor.pending import check_pending
    from rekindle.cli.doctor.quarantine import check_damage

    yield from _safely(path, "damage", lambda: check_damage(path))
    is_ours = _is_ours(path)
    yield from _safely(
        path, "store", lambda: check_store(path, is_ours=is_ours, is_asked_for=is_asked_for)
    )
    if is_ours:
        yield from _safely(path, "permissions", lambda: check_permissions(path))
    yield from _safely(path, "access", lambda: check_writable(path))
    yield from _safely(path, "disk", lambda: check_disk(path))
    yield from check_sqlite()
    if is_ours:
        yield from _safely(path, "store", lambda: _examine_database(path, full=full))
    # Last of what concerns the store: it has to be sound.
    yield from _safely(path, "pending", lambda: check_pending(path))
    yield from _safely(path, "editors", check_editors)


def _is_ours(path: Path) -> bool:
    from rekindle.store.sqlite.inspect import is_store

    try:
        return path.is_file() and is_store(path)
    except OSError:
        # What cannot be read is nothing to change; that it cannot be is told of.
        return False


def _examine_database(path: Path, *, full: bool) -> Iterator[Finding]:
    from rekindle.cli.doctor import agents, database, leases, search_index
    from rekindle.cli.main import COMMANDS
    from rekindle.store.sqlite.inspect import NEWEST_SCHEMA, Examination

    if path.stat().st_size > _WORTH_A_WORD:
        print("rekindle: this is a large store; looking at it takes a while", file=sys.stderr)
    with Examination(path) as store:
        yield from database.check_schema(store)
        if (store.schema() or 0) > NEWEST_SCHEMA:
            return
        # What finds damage comes first, because nothing is mended after that.
        checks: dict[str, Callable[[], Iterator[Finding]]] = {
            "integrity": lambda: database.check_integrity(store, path, full=full),
            "sessions": lambda: database.check_sessions(store, path),
            "journal": lambda: database.check_journal(store, path),
            "size": lambda: database.check_size(store, path, can_compact="compact" in COMMANDS),
            "leases": lambda: leases.check_holders(store.leases(), path),
            "leftovers": lambda: leases.check_leftovers(path),
            "index": lambda: search_index.check_index(path),
            "agents": lambda: agents.check_agents(store),
        }
        for name, check in checks.items():
            yield from _safely(path, name, check)


def _safely(path: Path, name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Do a check; that it cannot be done is a finding, and the next one is done regardless."""
    from rekindle.cli.doctor.quarantine import save_what_can_be_read

    try:
        yield from check()
    except StoreDamaged as error:
        yield Finding(
            check=name,
            level=Level.PROBLEM,
            what=one_line(str(error)),
            remedy=SAVE,
            mend=lambda: save_what_can_be_read(path),
            is_damage=True,
        )
    except (RekindleError, OSError) as error:
        yield Finding(
            check=name,
            level=Level.PROBLEM,
            what=one_line(str(error)),
            remedy="try again when nobody uses the store" if "locked" in str(error) else "",
        )


def _mended(finding: Finding, *, is_damaged: bool) -> Finding:
    if finding.mend is None:
        return finding
    if is_damaged:
        return replace(finding, remedy="not repaired, because the store is damaged")
    try:
        told = finding.mend()
    except (RekindleError, OSError) as error:
        return replace(finding, remedy=f"could not be repaired: {one_line(str(error))}")
    return replace(finding, level=Level.FIXED, remedy=told if isinstance(told, str) else "")


def _print(finding: Finding) -> None:
    if not sys.stdout.isatty():
        words = (finding.level, finding.check, finding.what, finding.remedy)
        print("\t".join(map(one_line, words)))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(highlight=False)
    head = Text.assemble((f"{finding.level:8}", _STYLES[finding.level]), f" {finding.check:12}")
    rest = Text(one_line(finding.what))
    if finding.remedy:
        rest.append(f"\n→ {one_line(finding.remedy)}", style="dim")
    if console.width < _NARROW:
        console.print(head, Padding(rest, (0, 0, 0, 2)), sep="\n")
        return
    side_by_side = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1))
    side_by_side.add_row(head, rest)
    console.print(side_by_side)


def _describe(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "level": finding.level,
        "what": finding.what,
        "remedy": finding.remedy or None,
        "facts": finding.facts,
    }
