"""Say how many sessions, turns and agents there are, how large the store is, and how it grows.

Weeks begin on Monday, in UTC, and count the sessions that were begun in them.

example:
  rekindle stats
  rekindle stats --weeks 26 --json
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rekindle.cli.arguments import count
from rekindle.cli.formatting import clock, one_line, print_json, several, size
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import columns, paint, pick
from rekindle.errors import UsageError
from rekindle.model import Overview, SessionTotals
from rekindle.text.times import WEEK_US, in_utc, iso, week_of
from rekindle.text.widths import cut, pad, width

_MOST_WEEKS = 520
_RECENT_WEEKS = 4
_MOST_AGENTS = 10
_LONGEST_NAME = 24
_LONGEST_BAR = 40
_GAP = "  "


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--weeks", type=count, default=12, metavar="N", help="how many to show (default: 12)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: see docs/json.md")


def main(arguments: argparse.Namespace) -> int:
    """Print the figures."""
    if not 1 <= arguments.weeks <= _MOST_WEEKS:
        raise UsageError(f"--weeks must be from 1 to {_MOST_WEEKS}")
    with open_for_reading(arguments.store) as store:
        found = store.overview()
    weeks = _last(found, arguments.weeks)
    if arguments.json:
        print_json(describe(found, weeks))
    elif not found.whole.sessions:
        print("rekindle: no sessions", file=sys.stderr)
    else:
        for line in _lines(found, weeks):
            print(line)
    return 0


def describe(found: Overview, weeks: dict[int, SessionTotals]) -> dict[str, Any]:
    """Return the figures as `--json` prints them."""
    return {
        **_sum(found.whole),
        "archived": found.archived,
        "deleted": found.deleted,
        "firstAt": iso(found.first_us) if found.first_us is not None else None,
        "lastAt": iso(found.last_us) if found.last_us is not None else None,
        "bytes": found.size,
        "unusedBytes": found.unused,
        "bytesPerWeek": _growth(found),
        "agents": [{"name": name or None, **_sum(of)} for name, of in _agents(found)],
        "weeks": [{"from": _day(week), **_sum(of)} for week, of in weeks.items()],
    }


def _sum(of: SessionTotals) -> dict[str, int]:
    return {"sessions": of.sessions, "turns": of.turns, "messages": of.messages}


def _agents(found: Overview) -> list[tuple[str, SessionTotals]]:
    return sorted(found.agents.items(), key=lambda item: (-item[1].sessions, item[0]))


def _last(found: Overview, number: int) -> dict[int, SessionTotals]:
    """Return the last weeks, the latest last, also those in which nothing was begun."""
    this = week_of(now_us())
    weeks = (this - back * WEEK_US for back in reversed(range(number)))
    return {week: found.weeks.get(week, SessionTotals()) for week in weeks}


def _growth(found: Overview) -> int:
    """Estimate by how many bytes the store grew a week of late, by the share of turns."""
    recent = sum(of.turns for of in _last(found, _RECENT_WEEKS).values())
    used = found.size - found.unused
    return used * recent // max(found.whole.turns, 1) // _RECENT_WEEKS


def _lines(found: Overview, weeks: dict[int, SessionTotals]) -> Iterator[str]:
    whole = found.whole
    yield _fact("sessions", f"{whole.sessions:,}{_aside(found)}")
    yield _fact("turns", f"{whole.turns:,}")
    yield _fact("messages", f"{whole.messages:,}")
    unused = f", {size(found.unused)} of it unused" if found.unused else ""
    yield _fact("size", f"{size(found.size)}{unused}")
    yield _fact("growth", f"about {size(_growth(found))} a week in the last {_RECENT_WEEKS}")
    yield _fact("since", clock(found.first_us or 0))
    yield _fact("last used", clock(found.last_us or 0))
    yield ""
    yield paint("sessions and turns by agent", "bold")
    yield from _chart([(one_line(name) or "unknown", of) for name, of in _agents(found)])
    yield ""
    yield paint("sessions and turns by week", "bold")
    yield from _chart([(_day(week), of) for week, of in weeks.items()], is_whole=True)


def _fact(name: str, words: str) -> str:
    return f"{paint(pad(name, 10), 'dim')}{words}"


def _aside(found: Overview) -> str:
    parts = [f"{found.archived:,} archived"] * bool(found.archived)
    parts += [f"{found.deleted:,} deleted besides"] * bool(found.deleted)
    return f" ({', '.join(parts)})" if parts else ""


def _chart(bars: list[tuple[str, SessionTotals]], *, is_whole: bool = False) -> Iterator[str]:
    """Draw a bar for each name, as long as its share of the greatest one."""
    shown = bars if is_whole else bars[:_MOST_AGENTS]
    names = [cut(name, _LONGEST_NAME) for name, _ in shown]
    figures = [(f"{of.sessions:,}", f"{of.turns:,}") for _, of in shown]
    cells = [names, *zip(*figures, strict=True)]
    of_name, of_sessions, of_turns = (max(map(width, column)) for column in cells)
    room = min(_LONGEST_BAR, columns() - of_name - of_sessions - of_turns - 3 * len(_GAP))
    most = max(of.sessions for _, of in shown)
    for name, (sessions, turns), (_, of) in zip(names, figures, shown, strict=True):
        parts = (
            pad(name, of_name),
            pad(sessions, of_sessions, to_right=True),
            pad(turns, of_turns, to_right=True),
            paint(_bar(of.sessions / max(most, 1), room), "cyan"),
        )
        yield _GAP.join(parts).rstrip()
    if len(shown) < len(bars):
        yield f"… and {several(len(bars) - len(shown), 'agent')} more"


def _bar(share: float, room: int) -> str:
    # What there is is seen, however little it is beside the rest.
    return pick("█", "#") * max(round(share * room), int(share > 0 and room > 0))


def _day(at_us: int) -> str:
    return in_utc(at_us).date().isoformat()
