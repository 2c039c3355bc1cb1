"""An engine with a client and an agent that a test plays message by message."""

import json
from typing import Any

from playbook import CLIENT, Playbook
from rekindle.proxy.peers import AGENT, Peer

Json = dict[str, Any]


class EnginePair(Playbook):
    """A playbook whose events return the messages that they caused."""

    def request(self, request_id: int, method: str, **params: object) -> "Sent":
        """Let the client send a request."""
        return self.send(CLIENT, {"id": request_id, "method": method, "params": params})

    def from_client(self, message: Json) -> "Sent":
        """Let the client send any message."""
        return self.send(CLIENT, message)

    def from_agent(self, message: Json) -> "Sent":
        """Let the agent send any message."""
        return self.send(AGENT, message)

    def reply(self, request_id: object, result: object) -> "Sent":
        """Let the agent answer a request."""
        return self.send(AGENT, {"id": request_id, "result": result})

    def fail(self, request_id: object, code: int = -32603, message: str = "no") -> "Sent":
        """Let the agent refuse a request."""
        error = {"code": code, "message": message}
        return self.send(AGENT, {"id": request_id, "error": error})

    def update(self, session_id: str, kind: str, **fields: object) -> "Sent":
        """Let the agent send an update."""
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": session_id, "update": update}
        return self.send(AGENT, {"method": "session/update", "params": params})

    def exit(self) -> "Sent":
        """Let the agent's process end."""
        self.out.clear()
        self.do_ended("1")
        return Sent(self.out)

    def wait(self, seconds: float) -> "Sent":
        """Let time pass."""
        self.out.clear()
        self.do_wait(str(seconds))
        return Sent(self.out)

    def send(self, peer: Peer, message: Json) -> "Sent":
        """Let a peer send a message; return what that caused."""
        self.out.clear()
        self.receive(peer, [json.dumps(message, separators=(",", ":"))])
        return Sent(self.out)


class Sent:
    """The messages and records that one event caused."""

    def __init__(self, out: list[str]) -> None:
        self.to_client = [json.loads(line[3:]) for line in out if line.startswith("<c ")]
        self.to_agent = [json.loads(line[3:]) for line in out if line.startswith("<a ")]
        self.recorded = [line[3:] for line in out if line.startswith("#  ")]

    @property
    def response(self) -> Json:
        """The only message to the client."""
        (message,) = self.to_client
        return message

    @property
    def result(self) -> Json:
        """The result of the only message to the client."""
        return self.response["result"]

    @property
    def error(self) -> Json:
        """The error of the only message to the client."""
        return self.response["error"]

    @property
    def call(self) -> Json:
        """The only message to the agent."""
        (message,) = self.to_agent
        return message


def recorded_session(*methods: str, turns: int = 1) -> EnginePair:
    """Return an engine that was started again after a session `s1` was recorded.

    The agent has been initialized, and offers `methods`.
    """
    pair = EnginePair()
    agent = " ".join(["Fake", *methods])
    pair.do_agent(agent)
    pair.do_open("s1")
    for number in range(turns):
        pair.do_said(f"s1 Hello {number} | Hi")
    pair.do_killed("")
    pair.do_agent(agent)
    return pair
