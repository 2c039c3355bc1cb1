"""OpenCode's records one a line, in memory: for who makes them of any bytes."""

from collections.abc import Iterator

from opencode_files import OpenCode, words
from rekindle.importers.opencode.records import Revert, Session, Stored, Times, read_session


class Lines:
    """A session made of lines: what each is, is told by how it begins."""

    is_damaged = False

    def __init__(self, data: bytes) -> None:
        self.session = Session(id="ses_x", time=Times(created=1.0))
        self._messages: list[tuple[str, bytes, list[bytes]]] = []
        for line in data.split(b"\n"):
            kind, words = line[:1], line[1:]
            if kind == b"s":
                told = read_session(words) or Session()
                self.session = Session(id="ses_x", revert=told.revert, title=told.title)
            elif kind == b"r":
                self.session.revert = Revert(message_id=f"msg_{len(self._messages)}")
            elif kind == b"m":
                self._messages.append(("", words, []))
            elif kind == b"e":
                name, _, rest = words.partition(b" ")
                self._messages.append((name.decode("utf-8", "replace") or "?", rest, []))
            elif self._messages:
                self._messages[-1][2].append(words)

    def messages(self) -> Iterator[Stored]:
        for number, (kind, data, parts) in enumerate(self._messages):
            named = [(f"prt_{number}-{place}", it) for place, it in enumerate(parts)]
            yield Stored(f"msg_{number}", kind, data, lambda named=named: iter(named))

    def todos(self) -> list[tuple[str, str, str]]:
        return []


def as_lines(it: OpenCode) -> bytes:
    """Write a session down in lines."""
    lines = [f"s{words(it.fields)}"]
    for message in it.messages:
        lines += [
            f"m{words(message.data)}",
            *(f"p{words(part)}" for part in message.parts.values()),
        ]
    lines += [f"e{kind} {words(data)}" for _, kind, _, data in it.events]
    return "\n".join(lines).encode("utf-8", "replace")
