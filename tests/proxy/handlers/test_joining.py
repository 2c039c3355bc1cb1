"""A client joins a session that goes on while the history is read."""

import json

from engine_pair import EnginePair
from rekindle.proxy.flow import LoadTranscript
from rekindle.proxy.peers import AGENT
from rekindle.proxy.step import PendingQuery, Step

PROMPT = [{"type": "text", "text": "Hello"}]


class SlowReader(EnginePair):
    """A playbook in which the agent goes on while a transcript is read for a join."""

    def apply_step(self, step: Step, received: list[bytes]) -> None:
        """Let the agent and the first client act between the query and its answer."""
        shared = [it for it in step.queries if isinstance(it.query, LoadTranscript)]
        if not (shared and shared[0].query == LoadTranscript("s1", is_shared=True)):
            super().apply_step(step, received)
            return
        (pending,) = step.queries
        step.queries = []
        super().apply_step(step, received)
        self.meanwhile(pending)

    def meanwhile(self, pending: PendingQuery) -> None:
        """Read the transcript, then receive one more chunk, then give the engine the answer."""
        answer = self.query_handler.answer(pending.query)
        self.say("late")
        self.out.append("-- the transcript is read")
        super().apply_step(self.engine.answer(pending.flow, answer, self.now), [])

    def say(self, text: str) -> None:
        """Let the agent send a chunk."""
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        line = {"method": "session/update", "params": {"sessionId": "s1", "update": chunk}}
        self.receive(AGENT, [json.dumps(line)])


def texts(lines: list[str], client: str) -> str:
    """Return the text of all chunks of the agent that a client received."""
    received = [json.loads(it.split(" ", 1)[1]) for it in lines if it.startswith(f"<{client} ")]
    updates = [it["params"]["update"] for it in received if it.get("method") == "session/update"]
    chunks = [it for it in updates if it["sessionUpdate"] == "agent_message_chunk"]
    return " ".join(it["content"]["text"] for it in chunks)


def test_a_client_that_joins_receives_each_chunk_once() -> None:
    pair = SlowReader()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.request(1, "session/prompt", sessionId="s1", prompt=PROMPT)
    pair.say("early")
    pair.do_comes("d 1")
    pair.out.clear()
    load = {"sessionId": "s1", "cwd": "/p", "mcpServers": []}
    pair.play(f"d> {json.dumps({'id': 1, 'method': 'session/load', 'params': load})}")
    pair.say("after")
    assert texts(pair.out, "c") == "late after"
    assert texts(pair.out, "d") == "earlylate after"


def test_the_other_client_can_act_meanwhile() -> None:
    class Cancelling(SlowReader):
        def say(self, text: str) -> None:
            """Let the first client cancel the turn, and the joining one prompt."""
            del text
            cancel = {"method": "session/cancel", "params": {"sessionId": "s1"}}
            self.receive(self.clients["c"], [json.dumps(cancel)])
            params = {"sessionId": "s1", "prompt": PROMPT}
            prompt = {"id": 2, "method": "session/prompt", "params": params}
            self.receive(self.clients["d"], [json.dumps(prompt)])

    pair = Cancelling()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.request(1, "session/prompt", sessionId="s1", prompt=PROMPT)
    pair.do_comes("d 1")
    pair.out.clear()
    load = {"sessionId": "s1", "cwd": "/p", "mcpServers": []}
    pair.play(f"d> {json.dumps({'id': 1, 'method': 'session/load', 'params': load})}")
    read = pair.out.index("-- the transcript is read")
    assert any("session/cancel" in line for line in pair.out[:read] if line.startswith("<a"))
    # The prompt of the joining client waits for the end of the join, and then for the turn.
    assert not any("session/prompt" in line for line in pair.out if line.startswith("<a"))
    pair.reply(1, {"stopReason": "cancelled"})
    assert any("session/prompt" in line for line in pair.out if line.startswith("<a"))


def test_a_session_is_freed_if_its_turn_ends_while_an_observer_joins() -> None:
    class LastingTurn(SlowReader):
        def say(self, text: str) -> None:
            """Let the first client leave, and the turn end."""
            del text
            self.run_step(self.engine.remove_client(self.clients.pop("c"), self.now), [])
            self.reply(1, {"stopReason": "end_turn"})

    pair = LastingTurn()
    pair.do_with("lasting")
    pair.do_agent("Fake close")
    pair.do_open("s1")
    pair.request(1, "session/prompt", sessionId="s1", prompt=PROMPT)
    pair.do_comes("d 1")
    pair.out.clear()
    meta = {"rekindle": {"role": "observer"}}
    load = {"sessionId": "s1", "cwd": "/p", "mcpServers": [], "_meta": meta}
    pair.play(f"d> {json.dumps({'id': 1, 'method': 'session/load', 'params': load})}")
    assert any("session/close" in line for line in pair.out if line.startswith("<a"))
