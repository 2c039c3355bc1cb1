"""Validate session ids and folders that are read from files of other tools."""

import hashlib
import re

_VALID_ID = re.compile(r"[A-Za-z0-9._-]+")
_MAX_ID_LENGTH = 100
_PATH = re.compile(r"/|[A-Za-z]:[/\\]")
_MAX_PATH_LENGTH = 4096


def is_valid_id(given: str, max_length: int = _MAX_ID_LENGTH) -> bool:
    """Return whether an id has only the characters and the length that tools use."""
    return len(given) <= max_length and _VALID_ID.fullmatch(given) is not None


def valid_id(given: str, max_length: int = _MAX_ID_LENGTH) -> str:
    """Return the id, or a hash of it if it is not valid."""
    if is_valid_id(given, max_length):
        return given
    return hashlib.sha256(given.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def valid_folder(given: str | None) -> str | None:
    """Return the folder; None if it cannot be the absolute path of one."""
    if given is None or len(given) > _MAX_PATH_LENGTH or not given.isprintable():
        return None
    return given if _PATH.match(given) else None
