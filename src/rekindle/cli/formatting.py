"""Turning values into words that are safe and short enough for a terminal."""

import sys
import time
from contextlib import suppress
from pathlib import Path, PurePath

from rekindle.model import AgentIdentity, Session
from rekindle.text.sanitize import spelled_out as printable
from rekindle.text.times import in_utc

_A_THOUSAND = 1000
_MINUTE = 60
_AGES = ((60, "s"), (60, "min"), (24, "h"), (7, "d"), (52, "w"))


def one_line(text: str) -> str:
    """Put a text on one line."""
    return printable(" ".join(text.split()))


def print_json(value: object) -> None:
    """Print JSON for people and programs; escaped where the terminal cannot show it."""
    from rekindle.export.json_depth import write_json

    # There is no stdout where the caller has closed it.
    encoding: str = getattr(sys.stdout, "encoding", None) or "ascii"
    print(write_json(value, is_ascii=encoding.lower().replace("-", "") != "utf8"))


def age(at_us: int) -> str:
    """Say how long ago something was."""
    amount = max(0.0, time.time() - at_us / 1e6)
    for most, unit in _AGES:
        if amount < most:
            return f"{int(amount)} {unit}"
        amount /= most
    return f"{int(amount)} y"


def clock(at_us: int) -> str:
    """Write a time as people here do."""
    told = in_utc(at_us)
    # Where clocks are ahead of UTC, the calendar ends some hours before.
    with suppress(OverflowError, ValueError, OSError):
        told = told.astimezone()
    return told.strftime("%Y-%m-%d %H:%M")


def lasting(duration_us: int) -> str:
    """Say how long something took; nothing if that is not worth a word."""
    seconds = duration_us // 1_000_000
    if seconds < _MINUTE:
        return f"{seconds} s" if seconds > 0 else ""
    minutes, seconds = divmod(seconds, _MINUTE)
    return f"{minutes} min {seconds} s"


def agent_name(agent: AgentIdentity) -> str:
    """Name an agent by what it says of itself, else by its command."""
    return one_line(agent.name or agent.program or "unknown")


def size(count: int) -> str:
    """Say how many bytes there are."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < _A_THOUSAND:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _A_THOUSAND
    return f"{amount:.1f} TB"


def several(count: int, what: str) -> str:
    """Say how many of something there are."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def folder(session: Session) -> str:
    """Name a session's folder, with the home folder as ~."""
    return "?" if session.cwd is None else short_path(session.cwd)


def short_path(name: str) -> str:
    """Name a folder, with the home folder as ~."""
    path, home = PurePath(name), Path.home()
    return one_line(f"~/{path.relative_to(home)}" if home in path.parents else name)


def title(session: Session) -> str:
    """Return the session's title, or words in its place."""
    return one_line(session.title) if session.title else "(no title)"
