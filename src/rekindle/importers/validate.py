"""What a file says to be called: taken over only if it is such as tools give."""

import hashlib
import re

_SOUND = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_NAME = 100
_PATH = re.compile(r"/|[A-Za-z]:[/\\]")
_LONGEST_PATH = 4096


def is_sound(told: str, longest: int = _LONGEST_NAME) -> bool:
    """Tell whether something is such a name."""
    return len(told) <= longest and _SOUND.fullmatch(told) is not None


def sound_name(told: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name that a record gives, or one made of it, if it is none that is given."""
    if is_sound(told, longest):
        return told
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def sound_folder(told: str | None) -> str | None:
    """Return the folder that a record names, if it can be one."""
    if told is None or len(told) > _LONGEST_PATH or not told.isprintable():
        return None
    return told if _PATH.match(told) else None
