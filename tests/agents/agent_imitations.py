"""An ACP v1 agent without a model that imitates the behaviour of a real one.

usage: agent_imitations.py NAME MEMORY_DIR

`AGENTS` has the names. All of them send the same text (see `Agent._play`), so that one test can run
the session lifecycle with each of them. This file uses only the standard library.
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
Answer = Callable[[object], None]


class Fault(NamedTuple):
    """An error to answer with. `{id}` stands for the session's id."""

    code: int
    message: str
    data: object = None


NOT_FOUND = Fault(-32002, "Resource not found", {"sessionId": "{id}"})
OPENCODE_LOST = Fault(-32603, "Internal error: OpenCode service failure", {"service": "session"})
CODEX_LOST = Fault(-32603, "Internal error", {"details": "no rollout found for thread id {id}"})
GEMINI_LOST = Fault(-32603, "Internal error", {"details": 'Invalid session identifier "{id}".'})


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, fault: Fault, session_id: str = "") -> None:
        super().__init__(fault.message)
        error = {key: value for key, value in fault._asdict().items() if value is not None}
        self.error = json.loads(json.dumps(error).replace("{id}", json.dumps(session_id)[1:-1]))


@dataclass(frozen=True)
class Quirks:
    """How an agent behaves. By default it only loads, and does that well."""

    advertises: str | None = "load"  # methods; None: it tells of no capabilities at all
    _: KW_ONLY
    unadvertised: str = ""  # what works all the same
    broken: str = ""  # advertised, but -32601
    embeds: bool = True  # `embeddedContext`
    # The process.
    keeps: Literal["every turn", "on clean exit", "nothing"] = "every turn"
    numbers_sessions: bool = False  # s1, s2... anew in every process
    prints_banner: bool = False
    outlives_input: bool = False  # only a signal ends it
    echoes_version: bool = False  # any `protocolVersion`, with a body of version 1
    needs_capabilities: bool = False
    needs_login: bool = False
    auth_status: Literal["never", "after initialize", "around initialize"] = "never"
    # Errors.
    no_servers: int = -32602  # the code where `mcpServers` is missing
    unknown: Fault = NOT_FOUND
    unknown_prompted: Fault | Literal["refusal"] | None = None  # None: as `unknown`
    unknown_closed: Fault | None = None  # closed or deleted; None: no error
    live_loaded: Fault | None = None
    # Sessions.
    load_replays: Literal["before", "after", "one chunk", "nothing"] = "before"  # its answer
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
    # Updates.
    ids: bool = False  # messages have ids, the same live and replayed
    early_updates: bool = False  # before the answer that names the session
    late_title: bool = False  # after the answer to a prompt
    echoes_prompt: bool = False
    warns: bool = False  # in an agent_message_chunk without id
    empty_chunks: bool = False  # with the usage in `_meta`
    asks_mid_turn: bool = False  # a request of its own; it does not wait for the answer
    replays_context: bool = False  # hidden context and tool results, as if the user had said them
    updates_calls: bool = True
    new_call_ids: bool = False  # in a replay
    new_call_titles: bool = False  # and locations, in a replay


ALL = "load close delete fork list resume"
# A row takes a line or two, to be compared with the others.
# fmt: off
AGENTS: dict[str, Quirks] = {
    # Real agents.
    "opencode": Quirks("load close fork list resume", ids=True, early_updates=True,
        fork_replays=True, new_call_titles=True, unknown=OPENCODE_LOST,
        unknown_prompted=Fault(-32602, "Invalid params: session not found: {id}")),
    "codex": Quirks(f"{ALL} title", ids=True, early_updates=True, warns=True, null_cursor=True,
        delete_archives=True, auth_status="after initialize", unknown=CODEX_LOST,
        unknown_prompted=Fault(-32002, "Session {id} not found", {"sessionId": "{id}"})),
    "claude": Quirks(f"{ALL} additionalDirectories", ids=True, load_answers="id", late_title=True,
        fork_marks_title=True, auth_status="after initialize"),
    "claude-old": Quirks(f"{ALL} additionalDirectories", ids=True, late_title=True,
        fork_marks_title=True, unknown_closed=Fault(-32603, "Internal error")),
    "gemini": Quirks("load", load_replays="after", replays_context=True, no_servers=-32603,
        unknown=GEMINI_LOST, unknown_prompted=Fault(-32602, "Session not found: {id}")),
    "qwen": Quirks("load list resume", empty_chunks=True, asks_mid_turn=True, no_servers=-32603),
    "copilot": Quirks("load close list", early_updates=True, unknown_closed=NOT_FOUND,
        live_loaded=Fault(-32602, "Session {id} is already loaded")),
    "pi": Quirks("load list delete", embeds=False, early_updates=True, prompt_restores=True,
        null_cursor=True, unknown=Fault(-32602, "Invalid params", "Unknown sessionId: {id}")),
    "vibe": Quirks("load list fork close", unadvertised="resume", ids=True, early_updates=True,
        late_title=True, echoes_prompt=True, updates_calls=False,
        unknown=Fault(-32602, "Session not found: {id}")),
    "hermes": Quirks("load fork list resume", unadvertised="close", close_does_nothing=True,
        load_of_unknown="{}", resume_of_unknown="other session", resume_replays=True,
        unknown_prompted="refusal", late_title=True, new_call_ids=True),
    "fast-agent": Quirks("load list resume", echoes_version=True, resume_replays=True,
        early_updates=True, no_zone=True),
    "agentao": Quirks("load", keeps="on clean exit", embeds=False, needs_capabilities=True,
        unknown=Fault(-32600, "unknown sessionId: {id}")),
    "bare-sdk": Quirks(None, unadvertised="load list", keeps="nothing", load_replays="nothing",
        load_of_unknown="empty session", list_answers="null"),
    "pydantic": Quirks("load close fork list resume", broken="close fork resume", ids=True,
        early_updates=True),
    "deepagents": Quirks("", keeps="nothing", echoes_version=True),
    # One quirk each.
    "early-updates": Quirks(ALL, early_updates=True, late_title=True),
    "echo": Quirks(ALL, echoes_prompt=True),
    "banner": Quirks(ALL, prints_banner=True),
    "traffic": Quirks(ALL, auth_status="around initialize", asks_mid_turn=True),
    "renumbering": Quirks("", keeps="nothing", numbers_sessions=True),
    "silent-list": Quirks(ALL, list_answers="never"),
    "error-list": Quirks(ALL, list_answers="error"),
    "no-exit": Quirks(ALL, outlives_input=True),
    "amnesia": Quirks("load", keeps="nothing", load_replays="nothing", load_forgets=True,
        load_of_unknown="empty session"),
    "one-chunk": Quirks("load", load_replays="one chunk", load_forgets=True, unknown=GEMINI_LOST),
    "wrong-session": Quirks("resume", keeps="nothing", resume_of_unknown="other session, told"),
    "zone": Quirks(ALL, no_zone=True, load_answers="null",
        unknown=Fault(-32603, "Internal error", "no session {id}")),
    "auth": Quirks(ALL, unadvertised="authenticate", needs_login=True),
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
    """Return what the user said earlier, by a history handed over, and what they say now."""
    own = max(index for index, block in enumerate(blocks) if block["type"] == "text")
    sources = [block.get("resource", block) for block in blocks[:own]]
    lines = "\n".join(source.get("text", "") for source in sources).split("\n")
    earlier = [line.removeprefix("User: ") for line in lines if line.startswith("User: ")]
    return earlier, blocks[own]["text"]


class Session:
    """A session in use. `kept` is what is written to disk."""

    def __init__(self, session_id: str, cwd: str, kept: Json | None = None) -> None:
        self.id = session_id
        self.kept: Json = {"title": "", "isArchived": False, "handedOver": [], "turns": []}
        self.kept |= (kept or {}) | {"sessionId": session_id, "cwd": cwd}
        self.cancelled = threading.Event()
        self.turn: threading.Thread | None = None

    def user_texts(self) -> list[str]:
        return [*self.kept["handedOver"], *(turn["user"] for turn in self.kept["turns"])]

    def end_turn(self) -> None:
        self.cancelled.set()
        if self.turn:
            self.turn.join()


class Agent:
    """Answers one client. One thread calls `receive`; every turn has a thread of its own."""

    def __init__(self, name: str, memory: Path) -> None:
        self._name = name
        self._quirks = AGENTS[name]
        self._memory = memory
        self._sessions: dict[str, Session] = {}
        self._asked = itertools.count()
        self._is_logged_in = not self._quirks.needs_login
        self._writing = threading.Lock()

    def receive(self, line: bytes) -> None:
        message: Json = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "session/cancel" and params["sessionId"] in self._sessions:
            self._sessions[params["sessionId"]].cancelled.set()
        elif method and "id" in message:  # what is left are answers, for which nothing waits
            try:
                handle = self._handler(method, params)
                handle(params, lambda result: self._send(id=message["id"], result=result))
            except Refused as refused:
                self._send(id=message["id"], error=refused.error)

    def stop(self) -> None:
        for session in self._sessions.values():
            session.end_turn()
            self._save(session, "on clean exit")

    def _handler(self, method: str, params: Json) -> Callable[[Json, Answer], None]:
        quirks, name = self._quirks, method.removeprefix("session/")
        words = f"initialize new prompt {quirks.advertises} {quirks.unadvertised}".split()
        handler = getattr(self, f"on_{name}", None)
        if not handler or name not in words or name in quirks.broken.split():
            raise Refused(Fault(-32601, "Method not found", {"method": method}))
        if name in {"new", "load", "resume"} and not self._is_logged_in:
            raise Refused(Fault(-32000, "Authentication required"))
        if name in {"new", "load"} and "mcpServers" not in params:
            raise Refused(Fault(quirks.no_servers, "mcpServers is missing"))
        return handler

    def _send(self, **message: object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing, suppress(BrokenPipeError):
            os.write(1, line)

    def _tell(self, session: Session, *updates: Json) -> None:
        for update in updates:
            self._send(method="session/update", params={"sessionId": session.id, "update": update})

    def on_initialize(self, params: Json, answer: Answer) -> None:
        quirks = self._quirks
        if quirks.needs_capabilities and not isinstance(params.get("clientCapabilities"), dict):
            raise Refused(Fault(-32602, "clientCapabilities must be a JSON object"))
        version = params["protocolVersion"] if quirks.echoes_version else 1
        result: Json = {"protocolVersion": version}
        if quirks.advertises is not None:
            result["agentInfo"] = {"name": self._name, "version": "0"}
            result["authMethods"] = [{"id": "login", "name": "Log in"}] * quirks.needs_login
            result["agentCapabilities"] = {
                "loadSession": "load" in quirks.advertises,
                "promptCapabilities": {"embeddedContext": quirks.embeds},
                "sessionCapabilities": {it: {} for it in quirks.advertises.split() if it != "load"},
            }
        if quirks.auth_status == "around initialize":
            self._send(method="_auth/status_update", params=AUTH_STATUS)
        answer(result)
        if quirks.auth_status != "never":
            self._send(method="_auth/status_update", params=AUTH_STATUS)

    def on_authenticate(self, _: Json, answer: Answer) -> None:
        self._is_logged_in = True
        answer({})

    # Sessions.

    def on_new(self, params: Json, answer: Answer) -> None:
        answer({"sessionId": self._open(Session(self._new_id(), params["cwd"])).id})

    def on_load(self, params: Json, answer: Answer) -> None:
        quirks, session_id = self._quirks, params["sessionId"]
        if quirks.live_loaded and session_id in self._sessions:
            raise Refused(quirks.live_loaded, session_id)
        session = self._find(session_id)
        if not session and quirks.load_of_unknown == "{}":
            answer({})
            return
        if not session and quirks.load_of_unknown == "empty session":
            session = Session(session_id, params["cwd"])
        session = self._open(session or self._unknown(session_id))
        replay = self._replay(session)
        if quirks.load_forgets:
            session.kept |= {"handedOver": [], "turns": []}
        self._tell(session, *replay[: REPLAYED_BEFORE_ANSWER[quirks.load_replays]])
        answer({"{}": {}, "null": None, "id": {"sessionId": session_id}}[quirks.load_answers])
        if quirks.load_replays == "after":
            threading.Timer(LATE_REPLAY_SECONDS, self._tell, (session, *replay[1:])).start()

    def on_resume(self, params: Json, answer: Answer) -> None:
        quirks, session = self._quirks, self._find(params["sessionId"])
        if not session and quirks.resume_of_unknown != "error":
            session = Session(self._new_id(), params["cwd"])
        session = self._open(session or self._unknown(params["sessionId"]))
        self._tell(session, *self._replay(session) * quirks.resume_replays)
        is_told = quirks.resume_of_unknown == "other session, told"
        answer({"sessionId": session.id} if is_told else {})

    def on_fork(self, params: Json, answer: Answer) -> None:
        origin = self._find(params["sessionId"]) or self._unknown(params["sessionId"])
        kept = json.loads(json.dumps(origin.kept))
        kept["title"] += " (fork)" * self._quirks.fork_marks_title
        if self._quirks.fork_replays:
            kept["turns"] = [turn | {"id": unique("msg")} for turn in kept["turns"]]
        session = self._open(Session(self._new_id(), params["cwd"], kept))
        self._tell(session, *self._replay(session) * self._quirks.fork_replays)
        self._save(session, "every turn")
        answer({"sessionId": session.id})

    def on_close(self, params: Json, answer: Answer) -> None:
        session = self._sessions.get(params["sessionId"])
        if not session and self._quirks.unknown_closed:
            raise Refused(self._quirks.unknown_closed, params["sessionId"])
        if session and not self._quirks.close_does_nothing:
            session.end_turn()
            del self._sessions[session.id]
        answer({})

    def on_delete(self, params: Json, answer: Answer) -> None:
        session_id = params["sessionId"]
        session = self._sessions.pop(session_id, None) or self._saved().get(session_id)
        if session:
            session.end_turn()
            session.kept["isArchived"] = True
            self._save(session, "every turn")
            if not self._quirks.delete_archives:
                (self._memory / f"{session_id}.json").unlink(missing_ok=True)
        elif self._quirks.unknown_closed:
            raise Refused(self._quirks.unknown_closed, session_id)
        answer({})

    def on_list(self, params: Json, answer: Answer) -> None:
        quirks, cwd = self._quirks, params.get("cwd")
        if quirks.list_answers == "error":
            raise Refused(Fault(-32603, "Internal error", ["the list", "is broken"]))
        kept = [it.kept for it in self._saved().values() if not it.kept["isArchived"]]
        kept.sort(key=lambda it: it["updatedAt"], reverse=True)
        listed = [{key: it[key] for key in LISTED} for it in kept if cwd in (None, it["cwd"])]
        result: Json = {"sessions": listed} | ({"nextCursor": None} if quirks.null_cursor else {})
        if quirks.list_answers != "never":
            answer(None if quirks.list_answers == "null" else result)

    def _new_id(self) -> str:
        number = len(self._sessions) + 1
        return f"s{number}" if self._quirks.numbers_sessions else unique("ses")

    def _open(self, session: Session) -> Session:
        self._sessions[session.id] = session
        self._tell(session, *[COMMANDS] * self._quirks.early_updates)
        return session

    def _find(self, session_id: str) -> Session | None:
        session = self._sessions.get(session_id) or self._saved().get(session_id)
        if session and session.kept["isArchived"]:
            details = {"details": "session {id} is archived."}
            raise Refused(Fault(-32603, "Internal error", details), session_id)
        return session

    def _unknown(self, session_id: str) -> NoReturn:
        raise Refused(self._quirks.unknown, session_id)

    def _saved(self) -> dict[str, Session]:
        files = (json.loads(path.read_bytes()) for path in self._memory.glob("*.json"))
        return {kept["sessionId"]: Session(kept["sessionId"], kept["cwd"], kept) for kept in files}

    def _save(self, session: Session, occasion: str) -> None:
        if occasion == self._quirks.keeps and session.kept["turns"]:
            path = self._memory / f"{session.id}.json"
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(session.kept), encoding="utf-8")
            unfinished.replace(path)

    def _replay(self, session: Session) -> list[Json]:
        quirks = self._quirks
        replay = [HIDDEN_CONTEXT] * quirks.replays_context
        for turn in session.kept["turns"]:
            replay.append(chunk("user", turn["user"], turn["id"]))
            if turn["call"]:
                call = tool_call(turn["call"], session.kept["cwd"]) | COMPLETED
                call |= {"toolCallId": unique("call")} if quirks.new_call_ids else {}
                call |= {"title": "notes.txt", "locations": []} if quirks.new_call_titles else {}
                replay += [call, *[TOOL_RESPONSE] * quirks.replays_context]
            replay.append(chunk("agent", turn["agent"], turn["id"]))
            replay += [USAGE] * quirks.empty_chunks
        return replay

    # Turns.

    def on_prompt(self, params: Json, answer: Answer) -> None:
        quirks, session_id = self._quirks, params["sessionId"]
        session = self._sessions.get(session_id)
        if not session and quirks.prompt_restores:
            session = self._find(session_id)
        if session:
            self._sessions[session_id] = session
            session.cancelled = threading.Event()
            turn = (session, params["prompt"], answer)
            session.turn = threading.Thread(target=self._take_turn, args=turn)
            session.turn.start()
        elif quirks.unknown_prompted == "refusal":
            answer({"stopReason": "refusal"})
        else:
            raise Refused(quirks.unknown_prompted or quirks.unknown, session_id)

    def _take_turn(self, session: Session, blocks: list[Json], answer: Answer) -> None:
        quirks, kept = self._quirks, session.kept
        earlier, text = read_prompt(blocks)
        if not session.user_texts():
            kept["handedOver"] = earlier
        turn: Json = {"user": text, "agent": "", "call": None}
        turn["id"] = unique("msg") if quirks.ids else None
        self._begin(session, turn)
        for piece in self._play(session, turn):
            turn["agent"] += piece
            self._tell(session, chunk("agent", piece, turn["id"]))
        self._tell(session, *[USAGE] * quirks.empty_chunks)
        now = datetime.now(UTC)
        kept["turns"].append(turn)
        kept["title"] = kept["title"] or text
        kept["updatedAt"] = (now.replace(tzinfo=None) if quirks.no_zone else now).isoformat()
        self._save(session, "every turn")
        answer({"stopReason": "cancelled" if session.cancelled.is_set() else "end_turn"})
        if quirks.late_title:
            self._tell(session, {"sessionUpdate": "session_info_update", "title": kept["title"]})

    def _begin(self, session: Session, turn: Json) -> None:
        if turn["user"] == "crash":
            os._exit(3)
        if self._quirks.echoes_prompt:
            self._tell(session, chunk("user", turn["user"], turn["id"]))
        if self._quirks.warns:
            self._tell(session, chunk("agent", "Warning: this model is not known.\n\n"))
        if self._quirks.asks_mid_turn:
            params = {"sessionId": session.id}
            self._send(id=next(self._asked), method="craft/drainMidTurnQueue", params=params)

    def _play(self, session: Session, turn: Json) -> Iterator[str]:
        """Do what the user's words ask for, and yield what the agent says, piece by piece."""
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
        call = tool_call(turn["call"], session.kept["cwd"])
        update = {"sessionUpdate": "tool_call_update", "toolCallId": turn["call"], **COMPLETED}
        self._tell(session, *([call, update] if self._quirks.updates_calls else [call | COMPLETED]))


def main() -> None:
    name, memory = sys.argv[1:]
    if AGENTS[name].prints_banner:
        os.write(1, b"Welcome! This line is not JSON.\n")
    Path(memory).mkdir(parents=True, exist_ok=True)
    agent = Agent(name, Path(memory))
    for line in sys.stdin.buffer:
        agent.receive(line)
    while AGENTS[name].outlives_input:
        signal.alarm(60)  # a test that kills Rekindle leaves it behind
        signal.pause()
    agent.stop()


if __name__ == "__main__":
    main()
