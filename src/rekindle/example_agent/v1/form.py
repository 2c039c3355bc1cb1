"""The agent's side of ACP v1: which method does what to which session."""

import threading
from contextlib import suppress

from rekindle.example_agent.form import COMMANDS, INFO, MODES, Form
from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.params import (
    check_servers,
    invalid,
    read_cwd,
    read_prompt,
    read_session_id,
)
from rekindle.example_agent.rpc import INVALID_REQUEST, Json, Request, RpcError, as_rpc_error
from rekindle.example_agent.sessions import Sessions
from rekindle.example_agent.turn import Session, Turn
from rekindle.example_agent.v1.dialect import DialectV1


class FormV1(Form):
    """Of the lifecycle, it has what it is told to offer."""

    def __init__(self, sessions: Sessions, options: Options) -> None:
        super().__init__(sessions, options)
        self._dialect = DialectV1(message_ids=options.message_ids)
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

    # What every agent does.

    def _initialize(self, request: Request) -> None:
        session_methods = [name for name in LIFECYCLE if name != "load"]
        offers = self.options.offers
        request.answer(
            {
                "protocolVersion": 1,
                "agentInfo": INFO,
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
        session = self.sessions.create(cwd, self._dialect)
        answer = {"sessionId": session.conversation.session_id, "modes": _modes(session)}
        if self.options.early_updates:
            session.tell(_commands())
            request.answer(answer)
        else:
            request.answer(answer)
            session.tell(_commands())

    def _set_mode(self, request: Request) -> None:
        session = self.sessions.opened(request.params)
        mode = request.params.get("modeId")
        if mode not in [known.mode_id for known in MODES]:
            raise invalid("modeId", f"{mode!r} is no mode of this session")
        self.change_mode(session.conversation, str(mode))
        session.tell({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        request.answer({})

    def _prompt(self, request: Request) -> None:
        session = self.sessions.opened(request.params)
        blocks = read_prompt(request.params)
        _check_idle(session)
        if turn := session.begin(request, blocks):
            threading.Thread(target=self._run, args=(request, turn), daemon=True).start()

    def _run(self, request: Request, turn: Turn) -> None:
        outcome = self._outcome(turn)
        turn.is_running = False  # before the answer: the client may prompt again at once
        with suppress(OSError):  # the client may be gone
            request.answer(outcome)
        turn.is_over.set()

    def _outcome(self, turn: Turn) -> Json | RpcError:
        try:
            if self.options.echo:
                turn.session.tell(turn.prompt)
            return {"stopReason": self.play(turn)}
        except Exception as error:  # noqa: BLE001 - the client gets an answer, never a traceback
            return as_rpc_error(error)

    # The lifecycle, as far as it is offered.

    def _load(self, request: Request) -> None:
        check_servers(request.params, required=True)
        session = self.sessions.revive(request.params, self._dialect)
        _check_idle(session)
        session.tell_again()
        request.answer({"modes": _modes(session)})

    def _resume(self, request: Request) -> None:
        check_servers(request.params, required=False)
        session = self.sessions.revive(request.params, self._dialect)
        request.answer({"modes": _modes(session)})

    def _list(self, request: Request) -> None:
        request.answer({"sessions": self.listed(request)})

    def _close(self, request: Request) -> None:
        self.sessions.check_known(request.params)
        self.sessions.close(read_session_id(request.params))
        request.answer({})

    def _fork(self, request: Request) -> None:
        check_servers(request.params, required=False)
        session = self.sessions.fork(request.params, self._dialect)
        request.answer({"sessionId": session.conversation.session_id, "modes": _modes(session)})


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
