"""Turning values into words that are safe and short enough for a terminal."""

import sys
import time
from pathlib import Path, PurePath

from rekindle.model import AgentIdentity, Session
from rekindle.text import times
from rekindle.text.sanitize import one_line, spelled_out

printable = spelled_out

_A_THOUSAND = 1000
_MINUTE = 60


def print_json(value: object) -> None:
    """Print JSON for people and programs; escaped where the terminal cannot show it."""
    from rekindle.export.json_depth import write_json

    # There is no stdout where the caller has closed it.
    encoding: str = getattr(sys.stdout, "encoding", None) or "ascii"
    print(write_json(value, is_ascii=encoding.lower().replace("-", "") != "utf8"))


def age(at_us: int) -> str:
    """Say how long ago something was."""
    return times.age(at_us, time.time_ns() // 1000)


def clock(at_us: int) -> str:
    """Write a time as people here do."""
    return times.local_time(at_us)


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
