"""Values as short text that is safe to print on a terminal."""

import sys
import time
from pathlib import Path, PurePath

from rekindle.model import AgentIdentity, Session
from rekindle.text import times
from rekindle.text.redact.prefilter import mask_short
from rekindle.text.sanitize import one_line, spelled_out

printable = spelled_out

_KILO = 1000
_MINUTE = 60


def print_json(value: object) -> None:
    """Print a value as JSON, in ASCII if stdout is not in UTF-8."""
    from rekindle.export.json_depth import write_json

    # sys.stdout is None if the caller has closed it.
    encoding: str = getattr(sys.stdout, "encoding", None) or "ascii"
    print(write_json(value, is_ascii=encoding.lower().replace("-", "") != "utf8"))


def format_age(at_us: int) -> str:
    """Return the time since `at_us` in its largest unit, such as `3 d`."""
    return times.age(at_us, time.time_ns() // 1000)


def format_time(at_us: int) -> str:
    """Return a date and time in the local time zone."""
    return times.local_time(at_us)


def format_duration(duration_us: int) -> str:
    """Return a duration in minutes and seconds, empty below a second."""
    seconds = duration_us // 1_000_000
    if seconds < _MINUTE:
        return f"{seconds} s" if seconds > 0 else ""
    minutes, seconds = divmod(seconds, _MINUTE)
    return f"{minutes} min {seconds} s"


def format_size(count: int) -> str:
    """Return a number of bytes with a decimal unit, such as `1.5 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < _KILO:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KILO
    return f"{amount:.1f} TB"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `2 sessions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def agent_label(agent: AgentIdentity) -> str:
    """Return the agent's name, or its program if it has none."""
    return one_line(agent.name or agent.program or "unknown")


def folder_label(session: Session) -> str:
    """Return a session's folder, with the home folder as ~."""
    return "?" if session.cwd is None else short_path(session.cwd)


def short_path(name: str) -> str:
    """Return a path, with the home folder as ~."""
    path, home = PurePath(name), Path.home()
    return one_line(f"~/{path.relative_to(home)}" if home in path.parents else name)


def title_label(session: Session, *, redact: bool = True) -> str:
    """Return the session's title for people, or a placeholder. Secrets in it are masked.

    The title of a sub-agent names the session that it belongs to.
    """
    title = title_text(session.title, redact=redact)
    if session.is_subagent:
        return f"{title} (sub-agent of {one_line(str(session.parent_id))})"
    return title


def title_text(title: str | None, *, redact: bool = True) -> str:
    """Return a title for people, or a placeholder. Secrets in it are masked."""
    if not title:
        return "(no title)"
    return one_line(mask_short(title) if redact else title)
