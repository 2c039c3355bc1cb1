"""The agent's side of ACP v2: which method does what to which session."""

import threading
from contextlib import suppress

from rekindle.example_agent.form import COMMANDS, INFO, MODES, Form
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import (
    check_info,
    check_roots_and_servers,
    invalid,
    read_cwd,
    read_prompt,
    read_replay,
    read_session_id,
)
from rekindle.example_agent.rpc import Json, Request, as_rpc_error
from rekindle.example_agent.sessions import Sessions
from rekindle.example_agent.turn import Session, Turn
from rekindle.example_agent.v2.dialect import DialectV2

_MODE = "mode"


class FormV2(Form):
    """It has the whole lifecycle; deleting and forking only if it is told to offer them."""

    def __init__(self, sessions: Sessions, options: Options) -> None:
        super().__init__(sessions, options)
        self._dialect = DialectV2(echo_in_chunks=options.echo)
        self.methods = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/list": self._list,
            "session/resume": self._resume,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_config_option": self._set_config_option,
        }
        for name, handler in (("delete", self.delete), ("fork", self._fork)):
            if name in options.offers:
                self.methods[f"session/{name}"] = handler

    def accepts_id(self, value: object) -> bool:
        """Whether a request may have this id: in version 2, a string or an integer."""
        return isinstance(value, str) or type(value) is int

    def _initialize(self, request: Request) -> None:
        check_info(request.params)
        session: Json = {"prompt": {"embeddedContext": {}}}
        session |= {name: {} for name in ("delete", "fork") if name in self.options.offers}
        request.answer(
            {
                "protocolVersion": 2,
                "info": INFO,
                "capabilities": {"session": session},
                "authMethods": [],
            }
        )

    # Sessions.

    def _new(self, request: Request) -> None:
        cwd = read_cwd(request.params)
        check_roots_and_servers(request.params)
        session = self.sessions.create(cwd, self._dialect)
        answer = {"sessionId": session.conversation.session_id, "configOptions": _config(session)}
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": _commands()}
        if self.options.early_updates:
            session.tell(commands)
            request.answer(answer)
        else:
            request.answer(answer)
            session.tell(commands)

    def _list(self, request: Request) -> None:
        request.answer({"sessions": self.listed(request), "nextCursor": None})

    def _resume(self, request: Request) -> None:
        check_roots_and_servers(request.params)
        wants_replay = read_replay(request.params)
        session = self.sessions.revive(request.params, self._dialect)
        if wants_replay:
            session.tell_again()
            _tell_settings(session)
        session.tell_state()
        request.answer({"configOptions": _config(session), "availableCommands": _commands()})

    def _close(self, request: Request) -> None:
        self.sessions.put_aside(read_session_id(request.params))
        request.answer({})

    def _fork(self, request: Request) -> None:
        check_roots_and_servers(request.params)
        session = self.sessions.fork(request.params, self._dialect)
        request.answer(
            {
                "sessionId": session.conversation.session_id,
                "configOptions": _config(session),
                "availableCommands": _commands(),
            }
        )

    def _set_config_option(self, request: Request) -> None:
        session = self.sessions.opened(request.params)
        self.change_mode(session.conversation, _read_mode(request.params))
        _tell_config(session)
        request.answer({"configOptions": _config(session)})

    # Turns.

    def _prompt(self, request: Request) -> None:
        session = self.sessions.opened(request.params)
        blocks = read_prompt(request.params)
        if not blocks:
            raise invalid("prompt", "must not be empty")
        if turn := session.begin(request, blocks):
            self._insert(request, turn)
            threading.Thread(target=self._work, args=(turn,), daemon=True).start()

    def _insert(self, request: Request, turn: Turn) -> None:
        """Tell that a prompt is part of the conversation now, and that work on it begins."""
        answer = {"messageId": turn.message_id}
        if self.options.early_updates:
            turn.session.tell(turn.prompt)
            request.answer(answer)
        else:
            request.answer(answer)
            turn.session.tell(turn.prompt)
        turn.session.enter("running")

    def _work(self, turn: Turn) -> None:
        """Run a turn, and then those of the prompts that came in the meantime."""
        with suppress(OSError):  # the client may be gone
            self._run(turn)
            while waiting := turn.session.go_on(turn):
                request, turn = waiting
                self._insert(request, turn)
                self._run(turn)

    def _run(self, turn: Turn) -> None:
        try:
            turn.session.enter("idle", **self._outcome(turn))
        finally:
            turn.is_over.set()

    def _outcome(self, turn: Turn) -> Json:
        try:
            return {"stopReason": self.play(turn)}
        except Exception as error:  # noqa: BLE001 - the client hears of it, and the session goes on
            return {"stopReason": "error", "error": as_rpc_error(error).as_json()}


def _read_mode(params: Json) -> str:
    if params.get("configId") != _MODE:
        raise invalid("configId", f"{params.get('configId')!r} is no option of this session")
    if params.get("type") != "id":
        raise invalid("type", "must be 'id'")
    value = params.get("value")
    if value not in [known.mode_id for known in MODES]:
        raise invalid("value", f"{value!r} is no mode of this session")
    return str(value)


def _tell_settings(session: Session) -> None:
    if title := session.conversation.title:
        session.tell({"sessionUpdate": "session_info_update", "title": title})
    _tell_config(session)


def _tell_config(session: Session) -> None:
    session.tell({"sessionUpdate": "config_option_update", "configOptions": _config(session)})


def _config(session: Session) -> list[Json]:
    options = [
        {"value": it.mode_id, "name": it.name, "description": it.description} for it in MODES
    ]
    mode = {
        "configId": _MODE,
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": session.conversation.mode,
        "options": options,
    }
    return [mode]


def _commands() -> list[Json]:
    commands: list[Json] = []
    for it in COMMANDS:
        command: Json = {"type": "command", "name": it.name, "description": it.description}
        if it.hint:
            command["input"] = {"type": "text", "hint": it.hint}
        commands.append(command)
    return commands
