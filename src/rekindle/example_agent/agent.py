"""The agent's side of ACP v1: which method does what to which session."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rekindle import __version__
from rekindle.example_agent import scenes
from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.memory import Memory
from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.params import (
    check_servers,
    invalid,
    read_cwd,
    read_prompt,
    read_session_id,
)
from rekindle.example_agent.rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    Connection,
    Json,
    Request,
    RpcError,
    as_rpc_error,
    decode,
)
from rekindle.example_agent.turn import CancelledError, Session, Turn

# How long turns may take to end once the client has hung up.
_GRACE_SECONDS = 1.0

_MODES: list[Json] = [
    {"id": "ask", "name": "Ask", "description": "Talk about the code"},
    {"id": "code", "name": "Code", "description": "Change the code"},
]
_COMMANDS: list[Json] = [
    {"name": "plan", "description": "Make a plan and go through it"},
    {"name": "count", "description": "Count out loud", "input": {"hint": "to 10"}},
]


class Agent:
    """Answers one client. One thread calls `receive`; every turn has a thread of its own."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._memory = Memory(options.memory)
        self._sessions: dict[str, Session] = {}
        self._methods: dict[str, Callable[[Request], None]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
        }
        lifecycle = (self._load, self._resume, self._list, self._close, self._delete, self._fork)
        for name, handler in zip(LIFECYCLE, lifecycle, strict=True):
            if name in options.offers:
                self._methods[f"session/{name}"] = handler

    def receive(self, line: bytes) -> None:
        """Handle one line of the client's. Whatever it holds, it raises only BrokenPipeError."""
        if not line.strip():
            return
        try:
            message = decode(line)
        except ValueError as error:
            self._complain(RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        match message:
            case {"method": str(), "id": request_id} if not _is_id(request_id):
                self._complain(RpcError(INVALID_REQUEST, "an id is a string, a number or null"))
            case {"method": str(), "id": _}:
                self._serve(Request(self._connection, message))
            case {"method": "session/cancel", "params": {"sessionId": str(session_id)}}:
                if session := self._sessions.get(session_id):
                    session.cancel()
            case {"method": str()}:
                pass  # a notification we do not know
            case {"result": _} | {"error": _}:
                self._connection.settle(message)
            case _:
                self._complain(RpcError(INVALID_REQUEST, "not a JSON-RPC message"))

    def stop(self) -> None:
        """Cancel every turn, and wait a moment for them to end."""
        for session in self._sessions.values():
            session.cancel()
        deadline = time.monotonic() + _GRACE_SECONDS
        for session in self._sessions.values():
            session.settle(max(0.0, deadline - time.monotonic()))

    def _complain(self, error: RpcError) -> None:
        self._connection.send({"jsonrpc": "2.0", "id": None, "error": error.as_json()})

    def _serve(self, request: Request) -> None:
        try:
            self._methods.get(request.method, _refuse)(request)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets an answer, never a traceback
            request.answer(as_rpc_error(error))

    # What every agent does.

    def _initialize(self, request: Request) -> None:
        session_methods = [name for name in LIFECYCLE if name != "load"]
        offers = self._options.offers
        request.answer(
            {
                "protocolVersion": 1,
                "agentInfo": {
                    "name": "example-agent",
                    "title": "Example Agent",
                    "version": __version__,
                },
                "agentCapabilities": {
                    "loadSession": "load" in offers,
                    "sessionCapabilities": {name: {} for name in session_methods if name in offers},
                    "promptCapabilities": {"embeddedContext": True},
                },
                "authMethods": [],
            }
        )

    def _new(self, request: Request) -> None:
        cwd = read_cwd(request.params)
        check_servers(request.params, required=True)
        session = self._open(Conversation(_new_session_id(), cwd))
        self._memory.save(session.conversation)
        answer = {"sessionId": session.conversation.session_id, "modes": _modes(session)}
        commands: Json = {
            "sessionUpdate": "available_commands_update",
            "availableCommands": _COMMANDS,
        }
        if self._options.early_updates:
            session.send(commands)
            request.answer(answer)
        else:
            request.answer(answer)
            session.send(commands)

    def _set_mode(self, request: Request) -> None:
        session = self._opened(request.params)
        mode = request.params.get("modeId")
        if mode not in [known["id"] for known in _MODES]:
            raise invalid("modeId", f"{mode!r} is no mode of this session")
        session.conversation.mode = str(mode)
        self._memory.save(session.conversation)
        session.send({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        request.answer({})

    def _prompt(self, request: Request) -> None:
        session = self._opened(request.params)
        blocks = read_prompt(request.params)
        _check_idle(session)
        turn = session.turn = Turn(session, blocks)
        threading.Thread(target=self._run, args=(request, turn), daemon=True).start()

    def _run(self, request: Request, turn: Turn) -> None:
        outcome = self._outcome(turn)
        turn.is_running = False  # before the answer: the client may prompt again at once
        with suppress(OSError):  # the client may be gone
            request.answer(outcome)
        turn.answered.set()

    def _outcome(self, turn: Turn) -> Json | RpcError:
        try:
            return {"stopReason": self._play(turn)}
        except Exception as error:  # noqa: BLE001 - the client gets an answer, never a traceback
            return as_rpc_error(error)

    def _play(self, turn: Turn) -> str:
        turn.begin()
        self._keep(turn.conversation)
        try:
            scenes.play(turn)
        except CancelledError:
            turn.fail_open_calls()
            return "cancelled"
        else:
            return "end_turn"
        finally:
            self._keep(turn.conversation)

    def _keep(self, conversation: Conversation) -> None:
        conversation.touch()
        self._memory.save(conversation)

    # The lifecycle, as far as it is offered.

    def _load(self, request: Request) -> None:
        check_servers(request.params, required=True)
        session = self._revive(request.params)
        _check_idle(session)
        for update in session.conversation.replay():
            session.send(update)
        request.answer({"modes": _modes(session)})

    def _resume(self, request: Request) -> None:
        check_servers(request.params, required=False)
        session = self._revive(request.params)
        request.answer({"modes": _modes(session)})

    def _list(self, request: Request) -> None:
        params = request.params
        cwd = None if params.get("cwd") is None else read_cwd(params)
        if params.get("cursor") is not None:
            raise invalid("cursor", "is unknown: there is only one page")
        found = {kept.session_id: kept for kept in self._memory}
        found.update((key, session.conversation) for key, session in self._sessions.items())
        matching = [kept for kept in found.values() if cwd in (None, kept.cwd)]
        matching.sort(key=lambda kept: kept.updated_at, reverse=True)
        request.answer({"sessions": [_info(kept) for kept in matching]})

    def _close(self, request: Request) -> None:
        session_id = self._known(request.params).session_id
        if session := self._sessions.get(session_id):
            session.cancel()
            session.settle()
            del self._sessions[session_id]
        request.answer({})

    def _delete(self, request: Request) -> None:
        session_id = read_session_id(request.params)
        if session := self._sessions.pop(session_id, None):
            session.cancel()
            session.settle()
        self._memory.forget(session_id)
        request.answer({})

    def _fork(self, request: Request) -> None:
        cwd = read_cwd(request.params)
        check_servers(request.params, required=False)
        copy = self._known(request.params).fork(_new_session_id(), cwd)
        self._memory.save(copy)
        session = self._open(copy)
        request.answer({"sessionId": copy.session_id, "modes": _modes(session)})

    # Finding sessions.

    def _open(self, conversation: Conversation) -> Session:
        session = Session(self._connection, conversation, self._options)
        self._sessions[conversation.session_id] = session
        return session

    def _opened(self, params: Json) -> Session:
        """Return a session that the client has open."""
        session_id = read_session_id(params)
        if session := self._sessions.get(session_id):
            return session
        raise _unknown(session_id)

    def _known(self, params: Json) -> Conversation:
        """Return what is remembered of a session, open or not."""
        session_id = read_session_id(params)
        if session := self._sessions.get(session_id):
            return session.conversation
        if kept := self._memory.find(session_id):
            return kept
        raise _unknown(session_id)

    def _revive(self, params: Json) -> Session:
        """Open a session again, in the folder that the client names now."""
        cwd = read_cwd(params)
        conversation = self._known(params)
        conversation.cwd = cwd
        return self._sessions.get(conversation.session_id) or self._open(conversation)


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _refuse(request: Request) -> None:
    data = {"method": request.method}
    raise RpcError(METHOD_NOT_FOUND, f"no method {request.method!r}", data)


def _check_idle(session: Session) -> None:
    if session.is_busy:
        session_id = session.conversation.session_id
        raise RpcError(
            INVALID_REQUEST,
            f"session {session_id!r} has a running turn: cancel it or wait for its answer",
            {"sessionId": session_id},
        )


def _new_session_id() -> str:
    return f"example-{os.urandom(16).hex()}"


def _modes(session: Session) -> Json:
    return {"currentModeId": session.conversation.mode, "availableModes": _MODES}


def _info(kept: Conversation) -> Json:
    return {
        "sessionId": kept.session_id,
        "cwd": kept.cwd,
        "title": kept.title,
        "updatedAt": kept.updated_at,
    }


def _unknown(session_id: str) -> RpcError:
    return RpcError(RESOURCE_NOT_FOUND, f"no session {session_id!r}", {"sessionId": session_id})
