"""One session, an agent, and any number of clients of both versions, checked message by message.

Every client model keeps the view that an editor would show. Wrong messages fail at once: an answer
that a client did not ask for, an update of a session that it does not have open, a second outcome
of a permission request, an approval that no client has given.
"""

import json
from typing import Any

from client_model_v1 import Editor
from client_model_v2 import EditorV2
from playbook import Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.proxy.flow import LoadTranscript
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import Step, TurnEventKind

Json = dict[str, Any]
SESSION = "s"
_ANSWERED_LATER = {"session/close", "session/resume", "session/list"}
_LONGEST_PAUSE_US = 100_000
"""The longest of those waits of the engine that are no limits for an answer."""


class ClientModel:
    """One client: its requests without an answer, its questions, and its view."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.requests: dict[int, str] = {}
        """The methods of the requests without an answer."""
        self.questions: set[object] = set()
        """The permission requests that it may answer."""
        self.view: Editor | EditorV2 = self.new_view()
        self.is_attached = False
        self.is_observer = False
        self.last_id = 0

    def new_view(self) -> Editor | EditorV2:
        """Return an empty view."""
        return Editor() if self.version == 1 else EditorV2()

    @property
    def is_opening(self) -> bool:
        """Whether it waits for the response that opens the session."""
        return any(it in {"session/load", "session/resume"} for it in self.requests.values())

    def receive(self, message: Json) -> None:
        """Check and apply one message."""
        method = message.get("method")
        if method == "session/update":
            assert self.is_attached or self.is_opening, message
            self.view.apply(message["params"]["update"])
        elif method == "session/request_permission":
            assert self.is_attached, message
            assert not self.is_observer, message
            assert message["id"] not in self.questions
            self.questions.add(message["id"])
        elif method == "$/cancel_request":
            assert message["params"]["requestId"] in self.questions
            self.questions.discard(message["params"]["requestId"])
        else:
            assert method is None, message
            method = self.requests.pop(message["id"])
            if method in {"session/load", "session/resume"} and "result" in message:
                # An observer of a session that no process uses receives only the record.
                ours = message["result"].get("_meta", {}).get("rekindle", {})
                self.is_attached = ours.get("restored") != "record"
            elif method == "session/close":
                self.is_attached = False
                self.questions.clear()


class SharedSession(Playbook):
    """A session `s` of an agent of one version, and its clients."""

    is_ready = False

    def __init__(self, agent: int, *, is_lasting: bool = False) -> None:
        super().__init__()
        self.ends: list[str] = []
        """The reasons with which the agent has ended turns."""
        self.events: dict[TurnEventKind, list[str]] = {kind: [] for kind in TurnEventKind}
        """The reasons of the events in turns, by kind."""
        self.question_count = 0
        self.do_with("hooks lasting" if is_lasting else "hooks")
        # Ids made from the time must differ from ids made from seqs.
        self.now = 1_700_000_000_000_000
        self.models: dict[str, ClientModel] = {}
        self.unanswered: set[object] = set()
        """The permission requests without an outcome."""
        self.approved: set[object] = set()
        """The permission requests that a client has approved."""
        self.prompts: list[tuple[object, list[Json]]] = []
        """The prompts that the agent has not answered, by id."""
        self.calls: list[str] = []
        """The tool calls that have not ended."""
        self.is_working = False
        self.opened_or_closed: list[Json] = []
        """The requests to open, close or list the session that the agent has not answered."""
        self.history: list[Json] = []
        """The updates with which an agent of version 2 replays the session."""
        self.reads_later = False
        """Whether the history for clients that join is read in a thread, and arrives later."""
        self.read: list[tuple[int, object]] = []
        """The flows that wait for such a history, with what was read."""
        self.count = 0
        self.do_speaks(f"{agent} {agent}")
        self.do_agent("Fake")
        self.do_open(SESSION)
        self.models["c"] = ClientModel("c", agent)
        self.models["c"].is_attached = True
        self.is_ready = True

    # -- what the engine sends ----------------------------------------------------------------

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Check a message of the engine."""
        if not self.is_ready:
            return
        message = json.loads(line)
        if to != AGENT:
            (name,) = [name for name, peer in self.clients.items() if peer == to]
            self.models[name].receive(message)
        elif message.get("method") == "session/prompt":
            blocks = message["params"]["prompt"]
            self.prompts.append((message["id"], blocks))
            self.show_own_prompt(blocks)
        elif message.get("method") in _ANSWERED_LATER:
            self.opened_or_closed.append(message)
        elif "method" not in message and message["id"] in self.unanswered:
            self.unanswered.discard(message["id"])
            outcome = message.get("result", {}).get("outcome", {})
            if outcome.get("outcome") == "selected":
                assert message["id"] in self.approved, "approved by no client"
        else:
            assert message.get("method") is not None or "result" in message, message
            assert message.get("method") is not None, "a second outcome"

    def show_own_prompt(self, blocks: list[Json]) -> None:
        """Let a version 1 client show its own prompt, which it does not receive."""
        name = blocks[0]["text"].split()[0]
        model = self.models.get(name)
        if model is not None and isinstance(model.view, Editor) and model.is_attached:
            model.view.prompt(blocks)

    def apply_step(self, step: Step, received: list[bytes]) -> None:
        """Note the events of a step."""
        for event in step.events:
            assert event.session_id == SESSION
            models = [it for it in self.models.values() if not it.is_observer]
            attached = sum(it.is_attached for it in models)
            opening = sum(it.is_opening and not it.is_attached for it in models)
            assert attached <= event.clients <= attached + opening
            self.events[event.kind].append(event.reason)
        if self.is_ready and self.reads_later:
            self._read_in_thread(step)
        super().apply_step(step, received)

    def _read_in_thread(self, step: Step) -> None:
        """Read the history for clients that join, and keep it back."""
        queries, step.queries = step.queries, []
        for posed in queries:
            if isinstance(posed.query, LoadTranscript) and posed.query.is_shared:
                self.read.append((posed.flow, self.query_handler.answer(posed.query)))
            else:
                step.queries.append(posed)

    def finish_reading(self) -> None:
        """Give the engine the histories that were read."""
        while self.read:
            flow, answer = self.read.pop(0)
            self.now += 1
            self.run_step(self.engine.answer(flow, answer, self.now), [])

    # -- clients --------------------------------------------------------------------------------

    def come(self, version: int) -> None:
        """Let another client connect."""
        self.count += 1
        name = f"c{self.count + 1}"
        model = ClientModel(name, version)
        model.requests[0] = "initialize"
        self.models[name] = model
        self.do_comes(f"{name} {version}")

    def from_client(self, name: str, method: str, **params: object) -> None:
        """Let a client send a request about the session."""
        model = self.models[name]
        model.last_id += 1
        model.requests[model.last_id] = method
        message = {"id": model.last_id, "method": method}
        message["params"] = {"sessionId": SESSION, **params}
        self.receive(self.clients[name], [json.dumps(message)])

    def open(self, name: str, ours: Json) -> None:
        """Let a client open the session with a whole replay."""
        model = self.models[name]
        model.view = model.new_view()
        model.is_observer = ours.get("role") == "observer"
        meta = {"_meta": {"rekindle": ours}}
        if model.version == 1:
            self.from_client(name, "session/load", cwd="/p", mcpServers=[], **meta)
        else:
            cursor = {"type": "start"}
            self.from_client(name, "session/resume", cwd="/p", replayFrom=cursor, **meta)

    def prompt(self, name: str) -> None:
        """Let a client send a prompt that begins with its name."""
        self.count += 1
        text = f"{name} asks {self.count}"
        self.from_client(name, "session/prompt", prompt=[{"type": "text", "text": text}])

    def cancel(self, name: str) -> None:
        """Let a client cancel the turn, and answer its questions as version 1 requires it."""
        params = {"sessionId": SESSION}
        line = json.dumps({"method": "session/cancel", "params": params})
        self.receive(self.clients[name], [line])
        for question in sorted(self.models[name].questions, key=str):
            self.answer(name, question, {"result": {"outcome": {"outcome": "cancelled"}}})

    def answer(self, name: str, question: object, response: Json) -> None:
        """Let a client answer a permission request."""
        model = self.models[name]
        model.questions.discard(question)
        if response.get("result", {}).get("outcome", {}).get("outcome") == "selected":
            self.approved.add(question)
        line = json.dumps({"id": question, **response})
        self.receive(self.clients[name], [line])

    def leave(self, name: str) -> None:
        """Let a client close its connection."""
        del self.models[name]
        self.now += 1
        self.run_step(self.engine.remove_client(self.clients.pop(name), self.now), [])

    # -- the agent --------------------------------------------------------------------------------

    def update(self, update: Json) -> None:
        """Let the agent send an update."""
        self.history.append(update)
        self.receive(AGENT, [update_line(SESSION, update).decode()])

    def ask(self) -> None:
        """Let the agent ask for permission for a tool call that it has announced."""
        self.count += 1
        call = {"toolCallId": f"t{self.count}", "title": "T", "status": "in_progress"}
        self.calls.append(call["toolCallId"])
        kind = "tool_call" if self.agent_version == 1 else "tool_call_update"
        self.update({"sessionUpdate": kind, **call})
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params: Json = {"sessionId": SESSION, "options": options}
        if self.agent_version == 1:
            params["toolCall"] = {"toolCallId": call["toolCallId"]}
        else:
            subject = {"type": "tool_call", "toolCall": {"toolCallId": call["toolCallId"]}}
            params |= {"title": "T", "subject": subject}
        question = self.count * 1000
        self.question_count += 1
        self.unanswered.add(question)
        message = {"id": question, "method": "session/request_permission", "params": params}
        self.receive(AGENT, [json.dumps(message)])

    def open_or_close(self) -> None:
        """Let the agent open or close the session, as the engine has asked it to."""
        while self.opened_or_closed or self.is_pausing:
            if self.opened_or_closed:
                self._answer_later(self.opened_or_closed.pop(0))
            else:
                # A restored agent may still replay the session.
                self.do_wait(str(_LONGEST_PAUSE_US / 1e6))

    def _answer_later(self, request: Json) -> None:
        if request["params"].get("replayFrom") is not None:
            for update in self.history:
                self.receive(AGENT, [update_line(SESSION, update).decode()])
        listed = {"sessions": [{"sessionId": SESSION, "cwd": "/p"}]}
        result = listed if request["method"] == "session/list" else {}
        self.receive(AGENT, [json.dumps({"id": request["id"], "result": result})])

    @property
    def is_pausing(self) -> bool:
        """Whether the engine waits for something that no message announces."""
        return self.wake_us is not None and self.wake_us - self.now <= _LONGEST_PAUSE_US

    def acknowledge(self) -> None:
        """Let a version 2 agent accept the prompts that it has received."""
        prompts, self.prompts = self.prompts, []
        for prompt_id, blocks in prompts:
            self.count += 1
            message_id = f"u{self.count}"
            answer = {"id": prompt_id, "result": {"messageId": message_id}}
            self.receive(AGENT, [json.dumps(answer)])
            echo = {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}
            self.update(echo)
            self.update({"sessionUpdate": "state_update", "state": "running"})
            self.is_working = True

    def end_turn(self, reason: str) -> None:
        """Let the agent end its tool calls, and its turn."""
        if self.agent_version == 1 or self.is_working:
            self.ends.append(reason)
        calls, self.calls = self.calls, []
        for call_id in calls:
            ended = {"toolCallId": call_id, "status": "completed"}
            self.update({"sessionUpdate": "tool_call_update", **ended})
        if self.agent_version == 1:
            prompts, self.prompts = self.prompts, []
            for prompt_id, _ in prompts:
                answer = {"id": prompt_id, "result": {"stopReason": reason}}
                self.receive(AGENT, [json.dumps(answer)])
        elif self.is_working:
            self.is_working = False
            self.update({"sessionUpdate": "state_update", "state": "idle", "stopReason": reason})

    @property
    def has_turn(self) -> bool:
        """Whether the agent works on a prompt."""
        return bool(self.prompts) or self.is_working

    # -- judgement --------------------------------------------------------------------------------

    def check_events(self) -> None:
        """Check that each question, and each end of a turn, has led to one event."""
        assert self.events[TurnEventKind.END] == self.ends
        assert len(self.events[TurnEventKind.WAITING]) == self.question_count

    def check_views(self) -> None:
        """Compare the view of each client with that of a client that opens the session now."""
        for name, model in list(self.models.items()):
            if not model.is_attached:
                continue
            self.come(model.version)
            self.reads_later = False
            fresh = f"c{self.count + 1}"
            self.open(fresh, {"role": "observer"})
            self.open_or_close()
            assert self.models[fresh].view.shown() == model.view.shown(), name
            self.leave(fresh)
