"""Show the number of sessions, turns and agents, and the size of the store.

A week begins on Monday, in UTC. It counts the sessions that began in it.

example:
  rekindle stats
  rekindle stats --weeks 26 --json
"""

import argparse
from collections.abc import Iterator
from typing import Any

from rekindle.cli.arguments import count
from rekindle.cli.formatting import format_size, format_time, one_line, plural, print_json
from rekindle.cli.messages import print_note
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.cli.store_access import add_store_option, open_for_reading
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import columns, if_encodable, paint
from rekindle.errors import UsageError
from rekindle.model import Overview, SessionTotals
from rekindle.text.times import WEEK_US, in_utc, iso, week_of
from rekindle.text.widths import cut, pad, width

_MAX_WEEKS = 520
_RECENT_WEEKS = 4
_MAX_AGENTS = 10
_MAX_NAME = 24
_MAX_BAR = 40
_GAP = "  "


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "-n",
        "--weeks",
        type=count,
        default=12,
        metavar="N",
        help="the number of weeks to show (default: 12)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the figures."""
    if not 1 <= arguments.weeks <= _MAX_WEEKS:
        raise UsageError(f"--weeks must be from 1 to {_MAX_WEEKS}; this is {arguments.weeks}")
    with open_for_reading(arguments.store) as store:
        overview = store.overview()
    weeks = _last_weeks(overview, arguments.weeks)
    if arguments.json:
        print_json(describe(overview, weeks))
    elif not overview.whole.sessions:
        print_note(NO_SESSIONS_YET)
    else:
        for line in _lines(overview, weeks):
            print(line)
    return 0


def describe(overview: Overview, weeks: dict[int, SessionTotals]) -> dict[str, Any]:
    """Return the figures as `--json` prints them."""
    return {
        **_counts(overview.whole),
        "archived": overview.archived,
        "deleted": overview.deleted,
        "firstAt": iso(overview.first_us) if overview.first_us is not None else None,
        "lastAt": iso(overview.last_us) if overview.last_us is not None else None,
        "bytes": overview.size,
        "unusedBytes": overview.unused,
        "bytesPerWeek": _growth(overview),
        "agents": [{"name": name or None, **_counts(totals)} for name, totals in _agents(overview)],
        "weeks": [{"from": _day(week), **_counts(totals)} for week, totals in weeks.items()],
    }


def _counts(totals: SessionTotals) -> dict[str, int]:
    return {"sessions": totals.sessions, "turns": totals.turns, "messages": totals.messages}


def _agents(overview: Overview) -> list[tuple[str, SessionTotals]]:
    return sorted(overview.agents.items(), key=lambda item: (-item[1].sessions, item[0]))


def _last_weeks(overview: Overview, number: int) -> dict[int, SessionTotals]:
    """Return the totals of the last weeks in chronological order, with the empty weeks."""
    this_week = week_of(now_us())
    weeks = (this_week - back * WEEK_US for back in reversed(range(number)))
    return {week: overview.weeks.get(week, SessionTotals()) for week in weeks}


def _growth(overview: Overview) -> int:
    """Estimate the recent growth in bytes per week, from the recent share of all turns."""
    recent = sum(totals.turns for totals in _last_weeks(overview, _RECENT_WEEKS).values())
    used = overview.size - overview.unused
    return used * recent // max(overview.whole.turns, 1) // _RECENT_WEEKS


def _lines(overview: Overview, weeks: dict[int, SessionTotals]) -> Iterator[str]:
    whole = overview.whole
    yield _fact("sessions", f"{whole.sessions:,}{_not_listed(overview)}")
    yield _fact("turns", f"{whole.turns:,}")
    yield _fact("messages", f"{whole.messages:,}")
    unused = f", {format_size(overview.unused)} of it unused" if overview.unused else ""
    yield _fact("size", f"{format_size(overview.size)}{unused}")
    yield _fact(
        "growth", f"about {format_size(_growth(overview))} a week in the last {_RECENT_WEEKS}"
    )
    yield _fact("since", format_time(overview.first_us or 0))
    yield _fact("last used", format_time(overview.last_us or 0))
    yield ""
    yield paint("sessions and turns by agent", "bold")
    yield from _chart([(one_line(name) or "unknown", totals) for name, totals in _agents(overview)])
    yield ""
    yield paint("sessions and turns by week", "bold")
    yield from _chart([(_day(week), totals) for week, totals in weeks.items()], is_whole=True)


def _fact(name: str, text: str) -> str:
    return f"{paint(pad(name, 10), 'dim')}{text}"


def _not_listed(overview: Overview) -> str:
    parts = [f"{overview.archived:,} archived"] * bool(overview.archived)
    parts += [f"and {overview.deleted:,} deleted"] * bool(overview.deleted)
    return f" ({', '.join(parts)})" if parts else ""


def _chart(bars: list[tuple[str, SessionTotals]], *, is_whole: bool = False) -> Iterator[str]:
    """Yield a line with a bar for each name. The longest bar has the most sessions."""
    shown = bars if is_whole else bars[:_MAX_AGENTS]
    names = [cut(name, _MAX_NAME) for name, _ in shown]
    figures = [(f"{totals.sessions:,}", f"{totals.turns:,}") for _, totals in shown]
    cells = [names, *zip(*figures, strict=True)]
    name_width, sessions_width, turns_width = (max(map(width, column)) for column in cells)
    room = min(_MAX_BAR, columns() - name_width - sessions_width - turns_width - 3 * len(_GAP))
    largest = max(totals.sessions for _, totals in shown)
    for name, (sessions, turns), (_, totals) in zip(names, figures, shown, strict=True):
        parts = (
            pad(name, name_width),
            pad(sessions, sessions_width, to_right=True),
            pad(turns, turns_width, to_right=True),
            paint(_bar(totals.sessions / max(largest, 1), room), "cyan"),
        )
        yield _GAP.join(parts).rstrip()
    if len(shown) < len(bars):
        yield f"… and {plural(len(bars) - len(shown), 'agent')} more"


def _bar(share: float, room: int) -> str:
    # Any share above zero is visible.
    return if_encodable("█", "#") * max(round(share * room), int(share > 0 and room > 0))


def _day(at_us: int) -> str:
    return in_utc(at_us).date().isoformat()
