"""Changes of files, as Git writes them."""

import difflib
import re

from rekindle.example_agent.rpc import Json

_UNUSUAL = re.compile(rb"[^ !#-\[\]-~]")  # what Git quotes: quotes, backslashes, beyond ASCII
_SHORT_ESCAPES = {b'"': b'\\"', b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r"}


def diff(path: str, old: str, new: str) -> Json:
    """Return the tool call content that shows a file being modified."""
    return {
        "type": "diff",
        "changes": [{"operation": "modify", "path": path}],
        "patch": {"format": "git_patch", "text": _patch(path, old, new)},
    }


def _patch(path: str, old: str, new: str) -> str:
    """Return a patch whose paths are absolute and have no prefix. Both texts end in a newline."""
    name = _quoted(path)
    in_header = f"{name}\t" if " " in name else name  # as Git ends a name that has spaces
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    lines = difflib.unified_diff(before, after, in_header, in_header)
    return "".join([f"diff --git {name} {name}\n", *lines])


def _quoted(path: str) -> str:
    raw = path.encode(errors="surrogatepass")
    if not _UNUSUAL.search(raw):
        return path
    return f'"{_UNUSUAL.sub(_escape, raw).decode()}"'


def _escape(found: re.Match[bytes]) -> bytes:
    return _SHORT_ESCAPES.get(found[0], b"\\%03o" % found[0][0])
