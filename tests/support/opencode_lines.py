"""OpenCode sessions in memory, made from lines, so that a test can build one from any bytes."""

from collections.abc import Iterator

from msgspec.structs import replace

from opencode_files import OpenCode, words
from rekindle.importers.opencode.records import (
    OpenCodeRevert,
    OpenCodeSession,
    OpenCodeTimes,
    StoredMessage,
    read_session,
)


class LinesSession:
    """A session made from lines. The first byte of a line decides what the line is."""

    is_damaged = False

    def __init__(self, data: bytes) -> None:
        self.session = OpenCodeSession(id="ses_x", time=OpenCodeTimes(created=1.0))
        self._messages: list[tuple[str, bytes, list[bytes]]] = []
        for line in data.split(b"\n"):
            kind, rest = line[:1], line[1:]
            if kind == b"s":
                given = read_session(rest) or OpenCodeSession()
                self.session = OpenCodeSession(id="ses_x", revert=given.revert, title=given.title)
            elif kind == b"r":
                revert = OpenCodeRevert(message_id=f"msg_{len(self._messages)}")
                self.session = replace(self.session, revert=revert)
            elif kind == b"m":
                self._messages.append(("", rest, []))
            elif kind == b"e":
                name, _, message = rest.partition(b" ")
                self._messages.append((name.decode("utf-8", "replace") or "?", message, []))
            elif self._messages:
                self._messages[-1][2].append(rest)

    def messages(self) -> Iterator[StoredMessage]:
        for number, (kind, data, parts) in enumerate(self._messages):
            named = [(f"prt_{number}-{position}", part) for position, part in enumerate(parts)]
            yield StoredMessage(f"msg_{number}", kind, data, lambda named=named: iter(named))

    def todos(self) -> list[tuple[str, str, str]]:
        return []


def as_lines(session: OpenCode) -> bytes:
    """Return a session as lines."""
    lines = [f"s{words(session.fields)}"]
    for message in session.messages:
        lines += [
            f"m{words(message.data)}",
            *(f"p{words(part)}" for part in message.parts.values()),
        ]
    lines += [f"e{kind} {words(data)}" for _, kind, _, data in session.events]
    return "\n".join(lines).encode("utf-8", "replace")
