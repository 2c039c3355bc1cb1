"""An ACP v1 agent without a model that imitates the behaviour of a real one.

usage: agent_imitations.py NAME MEMORY_DIR

`AGENTS` has the names. All of them send the same text (see `Agent._answers`), so that one test can
run the session lifecycle with each of them. This file uses only the standard library.
"""

import itertools
import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

Json = dict[str, Any]
Respond = Callable[[object], None]


class Fault(NamedTuple):
    """An error response. `{id}` is replaced by the session id."""

    code: int
    message: str
    data: object = None


NOT_FOUND = Fault(-32002, "Resource not found", {"sessionId": "{id}"})
OPENCODE_LOST = Fault(-32603, "Internal error: OpenCode service failure", {"service": "session"})
CODEX_LOST = Fault(-32603, "Internal error", {"details": "no rollout found for thread id {id}"})
GEMINI_LOST = Fault(-32603, "Internal error", {"details": 'Invalid session identifier "{id}".'})


class Refused(Exception):
    """The error response to a request."""

    def __init__(self, fault: Fault, session_id: str = "") -> None:
        super().__init__(fault.message)
        error = {key: value for key, value in fault._asdict().items() if value is not None}
        self.error = json.loads(json.dumps(error).replace("{id}", json.dumps(session_id)[1:-1]))


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of an agent. By default it supports only `session/load`, and without faults."""

    advertises: str | None = "load"  # methods; None: it sends no capabilities
    _: KW_ONLY
    unadvertised: str = ""  # methods that work without being advertised
    broken: str = ""  # advertised methods that fail with -32601
    embeds: bool = True  # `embeddedContext`
    # -- process --
    keeps: Literal["every turn", "on clean exit", "nothing"] = "every turn"
    numbers_sessions: bool = False  # s1, s2... from the start in every process
    prints_banner: bool = False
    outlives_input: bool = False  # it exits only on a signal
    echoes_version: bool = False  # accepts any `protocolVersion`, but uses version 1
    needs_capabilities: bool = False
    needs_login: bool = False
    auth_status: Literal["never", "after initialize", "around initialize"] = "never"
    # -- errors --
    no_servers: int = -32602  # the code if `mcpServers` is missing
    unknown: Fault = NOT_FOUND
    unknown_prompted: Fault | Literal["refusal"] | None = None  # None: the same as `unknown`
    unknown_closed: Fault | None = None  # for close and delete; None: no error
    live_loaded: Fault | None = None
    # -- sessions --
    load_replays: Literal["before", "after", "one chunk", "nothing"] = "before"  # the response
    load_forgets: bool = False
    load_answers: Literal["{}", "null", "id"] = "{}"
    load_of_unknown: Literal["error", "{}", "empty session"] = "error"
    resume_replays: bool = False
    resume_of_unknown: Literal["error", "other session", "other session, told"] = "error"
    fork_replays: bool = False  # with new message ids
    fork_marks_title: bool = False
    close_does_nothing: bool = False
    delete_archives: bool = False
    prompt_restores: bool = False
    list_answers: Literal["sessions", "null", "error", "never"] = "sessions"
    null_cursor: bool = False
    no_zone: bool = False  # in `updatedAt`
    # -- updates --
    ids: bool = False  # message ids, the same live and in a replay
    early_updates: bool = False  # before the response with the session id
    late_title: bool = False  # after the response to a prompt
    echoes_prompt: bool = False
    warns: bool = False  # in an agent_message_chunk without an id
    empty_chunks: bool = False  # with the usage in `_meta`
    asks_mid_turn: bool = False  # sends a request, and does not wait for the response
    replays_context: bool = False  # replays hidden context and tool results as user messages
    updates_calls: bool = True
    leaks: bool = False  # sends each update under the ids of all other sessions too
    new_call_ids: bool = False  # in a replay
    new_call_titles: bool = False  # and other locations, in a replay


ALL = "load close delete fork list resume"
# Short rows, so that they can be compared.
# fmt: off
AGENTS: dict[str, Behaviour] = {
    # -- real agents --
    "opencode": Behaviour("load close fork list resume", ids=True, early_updates=True,
        fork_replays=True, new_call_titles=True, unknown=OPENCODE_LOST,
        unknown_prompted=Fault(-32602, "Invalid params: session not found: {id}")),
    "codex": Behaviour(f"{ALL} title", ids=True, early_updates=True, warns=True, null_cursor=True,
        delete_archives=True, auth_status="after initialize", unknown=CODEX_LOST,
        unknown_prompted=Fault(-32002, "Session {id} not found", {"sessionId": "{id}"})),
    "claude": Behaviour(f"{ALL} additionalDirectories", ids=True, load_answers="id",
        late_title=True, fork_marks_title=True, auth_status="after initialize"),
    "claude-old": Behaviour(f"{ALL} additionalDirectories", ids=True, late_title=True,
        fork_marks_title=True, unknown_closed=Fault(-32603, "Internal error")),
    "gemini": Behaviour("load", load_replays="after", replays_context=True, no_servers=-32603,
        unknown=GEMINI_LOST, unknown_prompted=Fault(-32602, "Session not found: {id}")),
    "qwen": Behaviour("load list resume", empty_chunks=True, asks_mid_turn=True, no_servers=-32603),
    "copilot": Behaviour("load close list", early_updates=True, unknown_closed=NOT_FOUND,
        live_loaded=Fault(-32602, "Session {id} is already loaded")),
    "pi": Behaviour("load list delete", embeds=False, early_updates=True, prompt_restores=True,
        null_cursor=True, unknown=Fault(-32602, "Invalid params", "Unknown sessionId: {id}")),
    "vibe": Behaviour("load list fork close", unadvertised="resume", ids=True, early_updates=True,
        late_title=True, echoes_prompt=True, updates_calls=False,
        unknown=Fault(-32602, "Session not found: {id}")),
    "hermes": Behaviour("load fork list resume", unadvertised="close", close_does_nothing=True,
        load_of_unknown="{}", resume_of_unknown="other session", resume_replays=True,
        unknown_prompted="refusal", late_title=True, new_call_ids=True),
    "fast-agent": Behaviour("load list resume", echoes_version=True, resume_replays=True,
        early_updates=True, no_zone=True),
    "agentao": Behaviour("load", keeps="on clean exit", embeds=False, needs_capabilities=True,
        unknown=Fault(-32600, "unknown sessionId: {id}")),
    "bare-sdk": Behaviour(None, unadvertised="load list", keeps="nothing", load_replays="nothing",
        load_of_unknown="empty session", list_answers="null"),
    "pydantic": Behaviour("load close fork list resume", broken="close fork resume", ids=True,
        early_updates=True),
    "deepagents": Behaviour("", keeps="nothing", echoes_version=True),
    "droid": Behaviour("load", leaks=True),
    # -- one unusual behaviour each --
    "early-updates": Behaviour(ALL, early_updates=True, late_title=True),
    "echo": Behaviour(ALL, echoes_prompt=True),
    "banner": Behaviour(ALL, prints_banner=True),
    "traffic": Behaviour(ALL, auth_status="around initialize", asks_mid_turn=True),
    "renumbering": Behaviour("", keeps="nothing", numbers_sessions=True),
    "silent-list": Behaviour(ALL, list_answers="never"),
    "error-list": Behaviour(ALL, list_answers="error"),
    "no-exit": Behaviour(ALL, outlives_input=True),
    "amnesia": Behaviour("load", keeps="nothing", load_replays="nothing", load_forgets=True,
        load_of_unknown="empty session"),
    "one-chunk": Behaviour("load", load_replays="one chunk", load_forgets=True,
        unknown=GEMINI_LOST),
    "wrong-session": Behaviour("resume", keeps="nothing", resume_of_unknown="other session, told"),
    "zone": Behaviour(ALL, no_zone=True, load_answers="null",
        unknown=Fault(-32603, "Internal error", "no session {id}")),
    "auth": Behaviour(ALL, unadvertised="authenticate", needs_login=True),
}
# fmt: on

LATE_REPLAY_SECONDS = 0.1
REPLAYED_BEFORE_ANSWER = {"before": None, "after": 1, "one chunk": 1, "nothing": 0}
LISTED = ("sessionId", "cwd", "title", "updatedAt")
AUTH_STATUS: Json = {"authStatus": {"kind": "api_key", "label": "API key"}}
COMMANDS: Json = {"sessionUpdate": "available_commands_update", "availableCommands": []}


def unique(noun: str) -> str:
    return f"{noun}_{uuid.uuid4().hex}"


def chunk(role: str, text: str, turn_id: str | None = None) -> Json:
    content = {"type": "text", "text": text}
    update: Json = {"sessionUpdate": f"{role}_message_chunk", "content": content}
    return update | ({"messageId": f"{turn_id}_{role}"} if turn_id else {})


def tool_call(call_id: str, cwd: str) -> Json:
    call: Json = {"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending"}
    locations = [{"path": f"{cwd}/notes.txt", "line": 1}]
    return call | {"title": "Read a file", "kind": "read", "locations": locations}


HIDDEN_CONTEXT = chunk("user", "<session_context>\nToday is Sunday.\n</session_context>")
TOOL_RESPONSE = chunk("user", "[Function Response: read_file]")
USAGE = chunk("agent", "") | {"_meta": {"usage": {"inputTokens": 100, "outputTokens": 10}}}
FILE_TEXT: Json = {"type": "content", "content": {"type": "text", "text": "file text"}}
COMPLETED: Json = {"status": "completed", "content": [FILE_TEXT]}


def read_prompt(blocks: list[Json]) -> tuple[list[str], str]:
    """Return the prompts in a handover, if any, and the text of the prompt."""
    own = max(index for index, block in enumerate(blocks) if block["type"] == "text")
    sources = [block.get("resource", block) for block in blocks[:own]]
    lines = "\n".join(source.get("text", "") for source in sources).split("\n")
    earlier = [line.removeprefix("User: ") for line in lines if line.startswith("User: ")]
    return earlier, blocks[own]["text"]


class Session:
    """An open session. `saved` is its file content."""

    def __init__(self, session_id: str, cwd: str, saved: Json | None = None) -> None:
        self.id = session_id
        self.saved: Json = {"title": "", "isArchived": False, "handedOver": [], "turns": []}
        self.saved |= (saved or {}) | {"sessionId": session_id, "cwd": cwd}
        self.cancelled = threading.Event()
        self.turn: threading.Thread | None = None

    def user_texts(self) -> list[str]:
        return [*self.saved["handedOver"], *(turn["user"] for turn in self.saved["turns"])]

    def end_turn(self) -> None:
        self.cancelled.set()
        if self.turn:
            self.turn.join()


class Agent:
    """Serves one client. One thread calls `receive`; every turn has its own thread."""

    def __init__(self, name: str, memory: Path) -> None:
        self._name = name
        self._behaviour = AGENTS[name]
        self._memory = memory
        self._sessions: dict[str, Session] = {}
        self._next_ids = itertools.count()
        self._is_logged_in = not self._behaviour.needs_login
        self._writing = threading.Lock()

    def receive(self, line: bytes) -> None:
        message: Json = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "session/cancel" and params["sessionId"] in self._sessions:
            self._sessions[params["sessionId"]].cancelled.set()
        elif method and "id" in message:  # responses are ignored
            try:
                handle = self._handler(method, params)
                handle(params, lambda result: self._send(id=message["id"], result=result))
            except Refused as refused:
                self._send(id=message["id"], error=refused.error)

    def stop(self) -> None:
        for session in self._sessions.values():
            session.end_turn()
            self._save(session, "on clean exit")

    def _handler(self, method: str, params: Json) -> Callable[[Json, Respond], None]:
        behaviour, name = self._behaviour, method.removeprefix("session/")
        known = f"initialize new prompt {behaviour.advertises} {behaviour.unadvertised}".split()
        known += ["set_title"] if "title" in known else []
        handler = getattr(self, f"on_{name}", None)
        if not handler or name not in known or name in behaviour.broken.split():
            raise Refused(Fault(-32601, "Method not found", {"method": method}))
        if name in {"new", "load", "resume"} and not self._is_logged_in:
            raise Refused(Fault(-32000, "Authentication required"))
        if name in {"new", "load"} and "mcpServers" not in params:
            raise Refused(Fault(behaviour.no_servers, "mcpServers is missing"))
        return handler

    def _send(self, **message: object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing, suppress(BrokenPipeError):
            os.write(1, line)

    def _send_updates(self, session: Session, *updates: Json) -> None:
        for update in updates:
            receivers = [*self._sessions] if self._behaviour.leaks else [session.id]
            for session_id in receivers:
                params = {"sessionId": session_id, "update": update}
                self._send(method="session/update", params=params)

    def on_initialize(self, params: Json, respond: Respond) -> None:
        behaviour = self._behaviour
        if behaviour.needs_capabilities and not isinstance(params.get("clientCapabilities"), dict):
            raise Refused(Fault(-32602, "clientCapabilities must be a JSON object"))
        version = params["protocolVersion"] if behaviour.echoes_version else 1
        result: Json = {"protocolVersion": version}
        if behaviour.advertises is not None:
            result["agentInfo"] = {"name": self._name, "version": "0"}
            result["authMethods"] = [{"id": "login", "name": "Log in"}] * behaviour.needs_login
            result["agentCapabilities"] = {
                "loadSession": "load" in behaviour.advertises,
                "promptCapabilities": {"embeddedContext": behaviour.embeds},
                "sessionCapabilities": {
                    it: {} for it in behaviour.advertises.split() if it != "load"
                },
            }
        if behaviour.auth_status == "around initialize":
            self._send(method="_auth/status_update", params=AUTH_STATUS)
        respond(result)
        if behaviour.auth_status != "never":
            self._send(method="_auth/status_update", params=AUTH_STATUS)

    def on_authenticate(self, _: Json, respond: Respond) -> None:
        self._is_logged_in = True
        respond({})

    # -- sessions --

    def on_new(self, params: Json, respond: Respond) -> None:
        respond({"sessionId": self._open(Session(self._new_id(), params["cwd"])).id})

    def on_load(self, params: Json, respond: Respond) -> None:
        behaviour, session_id = self._behaviour, params["sessionId"]
        if behaviour.live_loaded and session_id in self._sessions:
            raise Refused(behaviour.live_loaded, session_id)
        session = self._find_session(session_id)
        if not session and behaviour.load_of_unknown == "{}":
            respond({})
            return
        if not session and behaviour.load_of_unknown == "empty session":
            session = Session(session_id, params["cwd"])
        session = self._open(session or self._refuse_unknown(session_id))
        replay = self._replay(session)
        if behaviour.load_forgets:
            session.saved |= {"handedOver": [], "turns": []}
        self._send_updates(session, *replay[: REPLAYED_BEFORE_ANSWER[behaviour.load_replays]])
        respond({"{}": {}, "null": None, "id": {"sessionId": session_id}}[behaviour.load_answers])
        if behaviour.load_replays == "after":
            threading.Timer(LATE_REPLAY_SECONDS, self._send_updates, (session, *replay[1:])).start()

    def on_resume(self, params: Json, respond: Respond) -> None:
        behaviour, session = self._behaviour, self._find_session(params["sessionId"])
        if not session and behaviour.resume_of_unknown != "error":
            session = Session(self._new_id(), params["cwd"])
        session = self._open(session or self._refuse_unknown(params["sessionId"]))
        self._send_updates(session, *self._replay(session) * behaviour.resume_replays)
        is_announced = behaviour.resume_of_unknown == "other session, told"
        respond({"sessionId": session.id} if is_announced else {})

    def on_fork(self, params: Json, respond: Respond) -> None:
        origin = self._find_session(params["sessionId"]) or self._refuse_unknown(
            params["sessionId"]
        )
        saved = json.loads(json.dumps(origin.saved))
        saved["title"] += " (fork)" * self._behaviour.fork_marks_title
        if self._behaviour.fork_replays:
            saved["turns"] = [turn | {"id": unique("msg")} for turn in saved["turns"]]
        session = self._open(Session(self._new_id(), params["cwd"], saved))
        self._send_updates(session, *self._replay(session) * self._behaviour.fork_replays)
        self._save(session, "every turn")
        respond({"sessionId": session.id})

    def on_close(self, params: Json, respond: Respond) -> None:
        session = self._sessions.get(params["sessionId"])
        if not session and self._behaviour.unknown_closed:
            raise Refused(self._behaviour.unknown_closed, params["sessionId"])
        if session and not self._behaviour.close_does_nothing:
            session.end_turn()
            del self._sessions[session.id]
        respond({})

    def on_delete(self, params: Json, respond: Respond) -> None:
        session_id = params["sessionId"]
        session = self._sessions.pop(session_id, None) or self._read_saved().get(session_id)
        if session:
            session.end_turn()
            session.saved["isArchived"] = True
            self._save(session, "every turn")
            if not self._behaviour.delete_archives:
                (self._memory / f"{session_id}.json").unlink(missing_ok=True)
        elif self._behaviour.unknown_closed:
            raise Refused(self._behaviour.unknown_closed, session_id)
        respond({})

    def on_set_title(self, params: Json, respond: Respond) -> None:
        title, session_id = (params.get("title") or "").strip(), params["sessionId"]
        session = self._sessions.get(session_id) or self._read_saved().get(session_id)
        if not session:
            raise Refused(NOT_FOUND, session_id)
        if not title:
            raise Refused(Fault(-32602, "the title is empty"))
        session.saved["title"] = title
        self._save(session, "every turn")
        respond({"title": title})

    def on_list(self, params: Json, respond: Respond) -> None:
        behaviour, cwd = self._behaviour, params.get("cwd")
        if behaviour.list_answers == "error":
            raise Refused(Fault(-32603, "Internal error", ["the list", "is broken"]))
        saved = [it.saved for it in self._read_saved().values() if not it.saved["isArchived"]]
        saved.sort(key=lambda it: it["updatedAt"], reverse=True)
        listed = [{key: it[key] for key in LISTED} for it in saved if cwd in (None, it["cwd"])]
        result: Json = {"sessions": listed} | (
            {"nextCursor": None} if behaviour.null_cursor else {}
        )
        if behaviour.list_answers != "never":
            respond(None if behaviour.list_answers == "null" else result)

    def _new_id(self) -> str:
        number = len(self._sessions) + 1
        return f"s{number}" if self._behaviour.numbers_sessions else unique("ses")

    def _open(self, session: Session) -> Session:
        self._sessions[session.id] = session
        self._send_updates(session, *[COMMANDS] * self._behaviour.early_updates)
        return session

    def _find_session(self, session_id: str) -> Session | None:
        session = self._sessions.get(session_id) or self._read_saved().get(session_id)
        if session and session.saved["isArchived"]:
            details = {"details": "session {id} is archived."}
            raise Refused(Fault(-32603, "Internal error", details), session_id)
        return session

    def _refuse_unknown(self, session_id: str) -> NoReturn:
        raise Refused(self._behaviour.unknown, session_id)

    def _read_saved(self) -> dict[str, Session]:
        files = (json.loads(path.read_bytes()) for path in self._memory.glob("*.json"))
        return {
            saved["sessionId"]: Session(saved["sessionId"], saved["cwd"], saved) for saved in files
        }

    def _save(self, session: Session, occasion: str) -> None:
        if occasion == self._behaviour.keeps and session.saved["turns"]:
            path = self._memory / f"{session.id}.json"
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(session.saved), encoding="utf-8")
            unfinished.replace(path)

    def _replay(self, session: Session) -> list[Json]:
        behaviour = self._behaviour
        replay = [HIDDEN_CONTEXT] * behaviour.replays_context
        for turn in session.saved["turns"]:
            replay.append(chunk("user", turn["user"], turn["id"]))
            if turn["call"]:
                call = tool_call(turn["call"], session.saved["cwd"]) | COMPLETED
                call |= {"toolCallId": unique("call")} if behaviour.new_call_ids else {}
                call |= {"title": "notes.txt", "locations": []} if behaviour.new_call_titles else {}
                replay += [call, *[TOOL_RESPONSE] * behaviour.replays_context]
            replay.append(chunk("agent", turn["agent"], turn["id"]))
            replay += [USAGE] * behaviour.empty_chunks
        return replay

    # -- turns --

    def on_prompt(self, params: Json, respond: Respond) -> None:
        behaviour, session_id = self._behaviour, params["sessionId"]
        session = self._sessions.get(session_id)
        if not session and behaviour.prompt_restores:
            session = self._find_session(session_id)
        if session:
            self._sessions[session_id] = session
            session.cancelled = threading.Event()
            turn = (session, params["prompt"], respond)
            session.turn = threading.Thread(target=self._run_turn, args=turn)
            session.turn.start()
        elif behaviour.unknown_prompted == "refusal":
            respond({"stopReason": "refusal"})
        else:
            raise Refused(behaviour.unknown_prompted or behaviour.unknown, session_id)

    def _run_turn(self, session: Session, blocks: list[Json], respond: Respond) -> None:
        behaviour, saved = self._behaviour, session.saved
        earlier, text = read_prompt(blocks)
        if not session.user_texts():
            saved["handedOver"] = earlier
        turn: Json = {"user": text, "agent": "", "call": None}
        turn["id"] = unique("msg") if behaviour.ids else None
        self._start_turn(session, turn)
        for piece in self._answers(session, turn):
            turn["agent"] += piece
            self._send_updates(session, chunk("agent", piece, turn["id"]))
        self._send_updates(session, *[USAGE] * behaviour.empty_chunks)
        now = datetime.now(UTC)
        saved["turns"].append(turn)
        saved["title"] = saved["title"] or text
        saved["updatedAt"] = (now.replace(tzinfo=None) if behaviour.no_zone else now).isoformat()
        self._save(session, "every turn")
        respond({"stopReason": "cancelled" if session.cancelled.is_set() else "end_turn"})
        if behaviour.late_title:
            self._send_updates(
                session, {"sessionUpdate": "session_info_update", "title": saved["title"]}
            )

    def _start_turn(self, session: Session, turn: Json) -> None:
        if turn["user"] == "crash":
            os._exit(3)
        if self._behaviour.echoes_prompt:
            self._send_updates(session, chunk("user", turn["user"], turn["id"]))
        if self._behaviour.warns:
            self._send_updates(session, chunk("agent", "Warning: this model is not known.\n\n"))
        if self._behaviour.asks_mid_turn:
            params = {"sessionId": session.id}
            self._send(id=next(self._next_ids), method="craft/drainMidTurnQueue", params=params)

    def _answers(self, session: Session, turn: Json) -> Iterator[str]:
        """Run the action of the prompt, and yield the chunks of the answer."""
        before = session.user_texts()
        match turn["user"]:
            case "what did I say first?":
                yield f"You said first: {before[0] if before else 'nothing'}"
            case "how many prompts?":
                yield f"{len(before)} prompts before this one"
            case "tool":
                self._use_tool(session, turn)
                yield "Done."
            case "slow":
                yield "Working…"
                session.cancelled.wait()
            case text:
                yield from ("Heard: ", text)

    def _use_tool(self, session: Session, turn: Json) -> None:
        turn["call"] = unique("call")
        call = tool_call(turn["call"], session.saved["cwd"])
        update = {"sessionUpdate": "tool_call_update", "toolCallId": turn["call"], **COMPLETED}
        self._send_updates(
            session, *([call, update] if self._behaviour.updates_calls else [call | COMPLETED])
        )


def main() -> None:
    name, memory = sys.argv[1:]
    if AGENTS[name].prints_banner:
        os.write(1, b"Welcome! This line is not JSON.\n")
    Path(memory).mkdir(parents=True, exist_ok=True)
    agent = Agent(name, Path(memory))
    for line in sys.stdin.buffer:
        agent.receive(line)
    while AGENTS[name].outlives_input:
        signal.alarm(60)  # a test that kills Rekindle leaves this process running
        signal.pause()
    agent.stop()


if __name__ == "__main__":
    main()
