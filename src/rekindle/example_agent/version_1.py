"""The example agent in version 1 of the protocol: its handlers, and the format of its updates."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rekindle.example_agent.handlers import COMMANDS, INFO, MODES, Handlers
from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.params import (
    check_servers,
    invalid,
    read_prompt,
    read_session_id,
)
from rekindle.example_agent.rpc import INVALID_REQUEST, Json, Request, RpcError, as_rpc_error
from rekindle.example_agent.session import Session, SessionRegistry, Turn
from rekindle.example_agent.updates import chunk, text_block


class UpdateFormatV1:
    """Sends messages in chunks and terminals as text. Version 1 has no states."""

    withdraws_requests = False

    def __init__(self, *, message_ids: bool) -> None:
        self._message_ids = message_ids

    def live(self, update: Json) -> Iterator[Json]:
        """Yield the messages for an update."""
        for translated in _translate(update):
            if not self._message_ids:
                translated.pop("messageId", None)
            yield translated

    def replay(self, updates: Iterable[Json]) -> Iterator[Json]:
        """Yield the messages of a replay: the same as when it happened."""
        for update in updates:
            yield from self.live(update)

    def state(self, state: str) -> Json | None:  # noqa: ARG002 - as in version 2
        """Return nothing: version 1 has no states."""
        return None

    def permission_request(self, call: Json, options: list[Json]) -> Json:
        """Return the parameters of a permission request."""
        translated = _call(call)
        del translated["sessionUpdate"]
        return {"toolCall": translated, "options": options}


def _translate(update: Json) -> Iterator[Json]:
    match update:
        case {"sessionUpdate": "state_update"}:
            pass
        case {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}:
            for block in blocks:
                yield chunk("user_message_chunk", message_id, block)
        case {"toolCallId": _}:
            yield _call(update)
        case _:
            yield dict(update)


def _call(update: Json) -> Json:
    translated = dict(update)
    if "content" in update:
        translated["content"] = [_content(item) for item in update["content"]]
    if update.get("status") == "cancelled":
        translated["status"] = "failed"
    return translated


def _content(item: Json) -> Json:
    match item:
        case {"type": "terminal", "output": str(output)}:
            return {"type": "content", "content": text_block(output)}
        case _:
            return item


class HandlersV1(Handlers):
    """Handles the lifecycle methods that the options select."""

    def __init__(self, sessions: SessionRegistry, options: Options) -> None:
        super().__init__(sessions, options)
        self._format = UpdateFormatV1(message_ids=options.message_ids)
        self.methods = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
        }
        lifecycle = (
            self._load,
            self._resume,
            self._list,
            self._close,
            self.delete,
            self._fork,
        )
        for name, handler in zip(LIFECYCLE, lifecycle, strict=True):
            if name in options.offers:
                self.methods[f"session/{name}"] = handler
        self.methods.update(self.info.methods())
        self.methods.update(self.rewinding.methods())

    # -- required methods --

    def _initialize(self, request: Request) -> None:
        match request.params:
            case {"clientCapabilities": {"subagents": dict()}} | {"protocolVersion": 2}:
                # Every version 2 client knows sub-agents.
                self.sessions.takes_subagents = True
            case _:
                self.sessions.takes_subagents = False
        session_methods = [name for name in LIFECYCLE if name != "load"]
        offers = self.options.offers
        session: Json = {name: {} for name in session_methods if name in offers}
        request.respond(
            {
                "protocolVersion": 1,
                "agentInfo": INFO,
                "agentCapabilities": {
                    "loadSession": "load" in offers,
                    "sessionCapabilities": session
                    | self.info.capabilities()
                    | self.rewinding.capabilities(),
                    "promptCapabilities": {"embeddedContext": True},
                },
                "authMethods": [],
            }
        )

    def _new(self, request: Request) -> None:
        check_servers(request.params, required=True)
        session = self.sessions.create(request.params, self._format)
        result = {"sessionId": session.conversation.session_id, "modes": _modes(session)}
        if self.options.early_updates:
            session.send_update(_commands())
            request.respond(result)
        else:
            request.respond(result)
            session.send_update(_commands())

    def _set_mode(self, request: Request) -> None:
        session = self.sessions.get_open(request.params)
        mode = request.params.get("modeId")
        if mode not in [known.mode_id for known in MODES]:
            raise invalid("modeId", f"{mode!r} is no mode of this session")
        self.change_mode(session.conversation, str(mode))
        session.send_update({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        request.respond({})

    def _prompt(self, request: Request) -> None:
        session = self.sessions.get_open(request.params)
        blocks = read_prompt(request.params)
        _check_idle(session)
        if turn := session.start_turn(request, blocks):
            threading.Thread(target=self._run, args=(request, turn), daemon=True).start()

    def _run(self, request: Request, turn: Turn) -> None:
        outcome = self._outcome(turn)
        turn.is_running = False  # before the response, because the client may prompt again at once
        with suppress(OSError):  # the client may have disconnected
            request.respond(outcome)
        turn.has_ended.set()

    def _outcome(self, turn: Turn) -> Json | RpcError:
        try:
            if self.options.echo:
                turn.session.send_update(turn.prompt)
            return {"stopReason": self.play(turn)}
        except Exception as error:  # noqa: BLE001 - the client receives an error response
            return as_rpc_error(error)

    # -- optional methods --

    def _load(self, request: Request) -> None:
        check_servers(request.params, required=True)
        session = self.sessions.reopen(request.params, self._format)
        _check_idle(session)
        session.replay()
        request.respond({"modes": _modes(session)})

    def _resume(self, request: Request) -> None:
        check_servers(request.params, required=False)
        session = self.sessions.reopen(request.params, self._format)
        request.respond({"modes": _modes(session)})

    def _list(self, request: Request) -> None:
        request.respond({"sessions": self.list_sessions(request)})

    def _close(self, request: Request) -> None:
        self.sessions.check_known(request.params)
        self.sessions.close(read_session_id(request.params))
        request.respond({})

    def _fork(self, request: Request) -> None:
        check_servers(request.params, required=False)
        session = self.sessions.fork(request.params, self._format)
        request.respond({"sessionId": session.conversation.session_id, "modes": _modes(session)})


def _check_idle(session: Session) -> None:
    if session.is_busy:
        session_id = session.conversation.session_id
        raise RpcError(
            INVALID_REQUEST,
            f"session {session_id!r} has a running turn: cancel it or wait for its answer",
            {"sessionId": session_id},
        )


def _modes(session: Session) -> Json:
    modes = [{"id": it.mode_id, "name": it.name, "description": it.description} for it in MODES]
    return {"currentModeId": session.conversation.mode, "availableModes": modes}


def _commands() -> Json:
    commands: list[Json] = []
    for it in COMMANDS:
        command: Json = {"name": it.name, "description": it.description}
        if it.hint:
            command["input"] = {"hint": it.hint}
        commands.append(command)
    return {"sessionUpdate": "available_commands_update", "availableCommands": commands}
