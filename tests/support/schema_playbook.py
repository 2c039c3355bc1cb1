"""A playbook in which the published schemas judge what the relay writes.

Judged are the lines that the relay made or changed. Those that it passes on as they came are
their author's affair.
"""

import json
from typing import Any

from playbook import Playbook
from rekindle.model import Side
from rekindle.proxy.journal import side_of
from rekindle.proxy.step import Peer
from schema import Judge


class JudgedPlaybook(Playbook):
    """A playbook that keeps a list of complaints."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.made_up: set[str] = set()
        super().__init__()

    def start(self) -> None:
        """Begin with connections on which nothing was said."""
        super().start()
        self.judges = {side: Judge() for side in Side}
        for judge in self.judges.values():
            judge.kinds = self.made_up  # what an agent makes up may be passed on, or told again
        self.received: set[bytes] = set()

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Hear what one read brings."""
        side = side_of(peer)
        whole = [complete(line) for line in lines]
        for line in whole:
            self.received.add(line.encode())
            for message in messages(line):
                self.received.add(json.dumps(message).encode())
                self.judges[side].hear(side, message)
        super().receive(peer, whole)

    def sent(self, to: Peer, line: bytes) -> None:
        """Judge a line, unless it is passed on as it came."""
        if line not in self.received and not messages(line.decode()):
            self.complaints.append(f"no JSON in {line.decode()}")
        side = side_of(to)
        for message in messages(line.decode()):
            if line in self.received:
                self.judges[side].hear(side.peer, message)
            else:
                wrong = self.judges[side].complaints(side.peer, message)
                self.complaints += [f"{it} in {line.decode()}" for it in wrong]


def messages(line: str) -> list[Any]:
    """Return what a line says; some agents say several things in one."""
    try:
        said = json.loads(line)
    except ValueError:
        return []
    return said if isinstance(said, list) else [said]


def complete(line: str) -> str:
    """Return a line with what scripts leave out, because it would only make them longer."""
    said = messages(line)
    whole = [with_frame(it) for it in said]
    if whole == said:
        return line
    return json.dumps(whole if line.startswith("[") else whole[0])


def with_frame(message: object) -> object:
    """Return a message with all of its frame, and all that is in it."""
    if not isinstance(message, dict) or not message.keys() & {"id", "method"}:
        return message
    return {"jsonrpc": "2.0"} | {key: with_names(it) for key, it in message.items()}


def with_names(value: object) -> object:
    """Return a value in which modes and configuration options are whole."""
    match value:
        case list():
            return [with_names(it) for it in value]
        case {"id": _, "currentValue": bool()}:
            return {"name": "An option", "type": "boolean", **value}
        case {"id": "model"} | {"id": _, "currentValue": _}:
            select = {"type": "select", "currentValue": "", "options": []}
            return {"name": "An option", **select, **value}
        case {"id": str()} if value.keys() == {"id"}:
            return {"name": "A mode", **value}
        case dict():
            return {key: with_names(it) for key, it in value.items()}
    return value
