"""A playbook that validates the lines of the engine with the published schemas.

It validates the lines that the engine wrote or changed, not those that it forwarded unchanged.
"""

import json
from typing import Any

from playbook import CLIENT, Playbook
from rekindle.proxy.journal import side_of
from rekindle.proxy.peers import Peer
from schema import ConnectionValidator


class ValidatedPlaybook(Playbook):
    """A playbook that collects the problems that the schemas find."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unknown_kinds: set[str] = set()
        super().__init__()

    def start(self) -> None:
        """Start with new connections."""
        super().start()
        self.validators: dict[Peer, ConnectionValidator] = {}
        self.received: set[bytes] = set()

    def validator(self, peer: Peer) -> ConnectionValidator:
        """Return the validator of the connection with a peer."""
        if peer not in self.validators:
            self.validators[peer] = ConnectionValidator()
            # The engine may forward and replay them.
            self.validators[peer].kinds = self.unknown_kinds
        return self.validators[peer]

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Let the engine receive the lines of one read, completed with `complete`."""
        side = side_of(peer)
        own = self.clients["c"] if peer == CLIENT else peer
        whole = [complete(line) for line in lines]
        for line in whole:
            self.received.add(line.encode())
            for message in messages(line):
                self.received.add(json.dumps(message).encode())
                self.validator(own).observe(side, message)
        super().receive(peer, whole)

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Validate a line, unless it was forwarded unchanged."""
        if line not in self.received and not messages(line.decode()):
            self.problems.append(f"no JSON in {line.decode()}")
        side = side_of(to)
        for message in messages(line.decode()):
            if line in self.received:
                self.validator(to).observe(side.peer, message)
            else:
                wrong = self.validator(to).problems(side.peer, message)
                self.problems += [f"{it} in {line.decode()}" for it in wrong]


def messages(line: str) -> list[Any]:
    """Return the messages of a line: some agents send several in one line."""
    try:
        said = json.loads(line)
    except ValueError:
        return []
    return said if isinstance(said, list) else [said]


def complete(line: str) -> str:
    """Return a line with the required fields that scripts omit for brevity."""
    said = messages(line)
    whole = [with_frame(it) for it in said]
    if whole == said:
        return line
    return json.dumps(whole if line.startswith("[") else whole[0])


def with_frame(message: object) -> object:
    """Return a message with its `jsonrpc` field and complete values."""
    if not isinstance(message, dict) or not message.keys() & {"id", "method"}:
        return message
    return {"jsonrpc": "2.0"} | {key: with_names(it) for key, it in message.items()}


def with_names(value: object) -> object:
    """Return a value in which modes and configuration options have all required fields."""
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
