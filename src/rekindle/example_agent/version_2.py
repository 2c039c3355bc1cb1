"""The example agent in version 2 of the protocol: its handlers, and the format of its updates."""

import base64
import difflib
import itertools
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rekindle.example_agent.handlers import COMMANDS, INFO, MODES, Handlers
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import (
    check_info,
    check_no_directories_or_servers,
    invalid,
    read_prompt,
    read_replay,
    read_session_id,
)
from rekindle.example_agent.rpc import Json, Request, as_rpc_error
from rekindle.example_agent.session import Session, SessionRegistry, Turn
from rekindle.example_agent.updates import chunk, text_block

_MODE = "mode"
_PLAN_ID = "main"  # one plan per session, as in version 1
# Small, so that even a short output has several chunks, each encoded separately.
_BYTES_PER_CHUNK = 4
_CHUNKS_PER_UPDATE = 10_000  # a count to ten million must not be one line
_NEEDS_QUOTES = re.compile(rb"[^ !#-\[\]-~]")  # Git quotes quotes, backslashes and non-ASCII bytes
_SHORT_ESCAPES = {b'"': b'\\"', b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r"}


class HandlersV2(Handlers):
    """Handles the whole lifecycle; delete and fork only if the options select them."""

    has_batches = True

    def __init__(self, sessions: SessionRegistry, options: Options) -> None:
        super().__init__(sessions, options)
        self._format = UpdateFormatV2(echo_in_chunks=options.echo)
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
        self.methods.update(self.info.methods())
        self.methods.update(self.rewinding.methods())

    def accepts_id(self, value: object) -> bool:
        """Return whether a request may have this id: a string or an integer."""
        return isinstance(value, str) or type(value) is int

    def _initialize(self, request: Request) -> None:
        check_info(request.params)
        self.sessions.takes_subagents = True
        session: Json = {"prompt": {"embeddedContext": {}}}
        session |= {name: {} for name in ("delete", "fork") if name in self.options.offers}
        session |= self.info.capabilities() | self.rewinding.capabilities()
        request.respond(
            {
                "protocolVersion": 2,
                "info": INFO,
                "capabilities": {"session": session},
                "authMethods": [],
            }
        )

    # -- sessions --

    def _new(self, request: Request) -> None:
        check_no_directories_or_servers(request.params)
        session = self.sessions.create(request.params, self._format)
        result = {"sessionId": session.conversation.session_id, "configOptions": _config(session)}
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": _commands()}
        if self.options.early_updates:
            session.send_update(commands)
            request.respond(result)
        else:
            request.respond(result)
            session.send_update(commands)

    def _list(self, request: Request) -> None:
        request.respond({"sessions": self.list_sessions(request), "nextCursor": None})

    def _resume(self, request: Request) -> None:
        check_no_directories_or_servers(request.params)
        wants_replay = read_replay(request.params)
        session = self.sessions.reopen(request.params, self._format)
        if wants_replay:
            session.replay()
            _send_settings(session)
        session.send_state()
        request.respond({"configOptions": _config(session), "availableCommands": _commands()})

    def _close(self, request: Request) -> None:
        self.sessions.close_retained(read_session_id(request.params))
        request.respond({})

    def _fork(self, request: Request) -> None:
        check_no_directories_or_servers(request.params)
        session = self.sessions.fork(request.params, self._format)
        request.respond(
            {
                "sessionId": session.conversation.session_id,
                "configOptions": _config(session),
                "availableCommands": _commands(),
            }
        )

    def _set_config_option(self, request: Request) -> None:
        session = self.sessions.get_open(request.params)
        self.change_mode(session.conversation, _read_mode(request.params))
        _send_config(session)
        request.respond({"configOptions": _config(session)})

    # -- turns --

    def _prompt(self, request: Request) -> None:
        session = self.sessions.get_open(request.params)
        blocks = read_prompt(request.params)
        if not blocks:
            raise invalid("prompt", "must not be empty")
        if turn := session.start_turn(request, blocks):
            self._accept(request, turn)
            threading.Thread(target=self._run_all, args=(turn,), daemon=True).start()

    def _accept(self, request: Request, turn: Turn) -> None:
        """Respond to a prompt, send it as a message, and start to work."""
        result = {"messageId": turn.message_id}
        if self.options.early_updates:
            turn.session.send_update(turn.prompt)
            request.respond(result)
        else:
            request.respond(result)
            turn.session.send_update(turn.prompt)
        turn.session.set_state("running")

    def _run_all(self, turn: Turn) -> None:
        """Run a turn, and then the turns of prompts that came meanwhile."""
        with suppress(OSError):  # the client may have disconnected
            self._run(turn)
            while waiting := turn.session.next_turn(turn):
                request, turn = waiting
                self._accept(request, turn)
                self._run(turn)

    def _run(self, turn: Turn) -> None:
        try:
            turn.session.set_state("idle", **self._outcome(turn))
        finally:
            turn.has_ended.set()

    def _outcome(self, turn: Turn) -> Json:
        try:
            return {"stopReason": self.play(turn)}
        except Exception as error:  # noqa: BLE001 - the client receives the error, and the session continues
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


def _send_settings(session: Session) -> None:
    if title := session.conversation.title:
        session.send_update({"sessionUpdate": "session_info_update", "title": title})
    _send_config(session)


def _send_config(session: Session) -> None:
    session.send_update(
        {"sessionUpdate": "config_option_update", "configOptions": _config(session)}
    )


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


# -- the format of updates ----------------------------------------------------------------


class UpdateFormatV2:
    """Sends everything with an id, and states around each turn."""

    withdraws_requests = True

    def __init__(self, *, echo_in_chunks: bool) -> None:
        self._echo_in_chunks = echo_in_chunks

    def live(self, update: Json) -> Iterator[Json]:
        """Yield the messages for an update when it happens."""
        match update:
            case {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks} if (
                self._echo_in_chunks
            ):
                for block in blocks:
                    yield chunk("user_message_chunk", message_id, block)
            case {"toolCallId": _}:
                yield from _live_call(update)
            case {"sessionUpdate": "plan", "entries": entries}:
                yield _plan(entries)
            case _:
                yield update

    def replay(self, updates: Iterable[Json]) -> Iterator[Json]:
        """Yield the messages of a replay: whole messages, and terminals that have exited."""
        for (kind, message_id), group in itertools.groupby(updates, _message):
            if kind.endswith("_chunk"):
                yield from _whole_message(kind, message_id, group)
            else:
                for update in group:
                    yield from _replay_update(update)

    def state(self, state: str) -> Json | None:
        """Return the state of a session, as `session/status` reports it."""
        return {"state": state}

    def permission_request(self, call: Json, options: list[Json]) -> Json:
        """Return the parameters of a permission request."""
        translated = _call(call)
        del translated["sessionUpdate"]
        return {
            "title": f"Allow: {call['title']}",
            "subject": {"type": "tool_call", "toolCall": translated},
            "options": options,
        }


def _message(update: Json) -> tuple[str, str]:
    return update["sessionUpdate"], update.get("messageId", "")


def _whole_message(kind: str, message_id: str, chunks: Iterator[Json]) -> Iterator[Json]:
    """Yield a message as one update. A very long count continues in chunks."""
    texts = (it["content"]["text"] for it in chunks)
    first = "".join(itertools.islice(texts, _CHUNKS_PER_UPDATE))
    yield {
        "sessionUpdate": kind.removesuffix("_chunk"),
        "messageId": message_id,
        "content": [text_block(first)],
    }
    while more := "".join(itertools.islice(texts, _CHUNKS_PER_UPDATE)):
        yield chunk(kind, message_id, text_block(more))


def _replay_update(update: Json) -> Iterator[Json]:
    match update:
        case {"toolCallId": _}:
            for terminal in _terminals(update):
                yield {
                    **_terminal_opened(terminal),
                    **_terminal_output(terminal),
                    **_terminal_exited(terminal),
                }
            yield _call(update)
        case {"sessionUpdate": "plan", "entries": entries}:
            yield _plan(entries)
        case _:
            yield update


def _plan(entries: list[Json]) -> Json:
    plan = {"type": "items", "planId": _PLAN_ID, "entries": entries}
    return {"sessionUpdate": "plan_update", "plan": plan}


def _live_call(update: Json) -> Iterator[Json]:
    """Yield an update of a tool call, after the updates of its terminals."""
    translated = _call(update)
    for terminal in _terminals(update):
        yield _terminal_opened(terminal)
        yield {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": update["toolCallId"],
            "content": _content(terminal),
        }
        yield from _output_chunks(terminal)
        yield _terminal_exited(terminal)
        translated.pop("content", None)  # the content chunk has sent it
    yield translated


def _call(update: Json) -> Json:
    translated = {**update, "sessionUpdate": "tool_call_update"}
    if "content" in update:
        translated["content"] = [_content(item) for item in update["content"]]
    return translated


def _content(item: Json) -> Json:
    match item:
        case {"type": "terminal", "terminalId": terminal_id}:
            return {"type": "terminal", "terminalId": terminal_id}
        case {"type": "diff", "path": path, "oldText": old, "newText": new}:
            return diff(path, old, new)
        case _:
            return item


# -- terminals ----------------------------------------------------------------------------


def _terminals(update: Json) -> list[Json]:
    return [item for item in update.get("content", []) if item["type"] == "terminal"]


def _terminal_update(terminal: Json, **changes: object) -> Json:
    return {
        "sessionUpdate": "terminal_update",
        "terminalId": terminal["terminalId"],
        **changes,
    }


def _terminal_opened(terminal: Json) -> Json:
    return _terminal_update(terminal, command=terminal["command"], cwd=terminal["cwd"])


def _terminal_output(terminal: Json) -> Json:
    return _terminal_update(terminal, output={"data": _base64(terminal["output"].encode())})


def _terminal_exited(terminal: Json) -> Json:
    return _terminal_update(terminal, exitStatus={"exitCode": terminal["exitCode"]})


def _output_chunks(terminal: Json) -> Iterator[Json]:
    output = terminal["output"].encode()
    for start in range(0, len(output), _BYTES_PER_CHUNK):
        yield {
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": terminal["terminalId"],
            "data": _base64(output[start : start + _BYTES_PER_CHUNK]),
        }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- patches ------------------------------------------------------------------------------


def diff(path: str, old: str, new: str) -> Json:
    """Return the tool call content for a modified file."""
    return {
        "type": "diff",
        "changes": [{"operation": "modify", "path": path}],
        "patch": {"format": "git_patch", "text": _patch(path, old, new)},
    }


def _patch(path: str, old: str, new: str) -> str:
    """Return a patch with absolute paths and no prefixes. Both texts must end in a newline."""
    name = _quoted(path)
    in_header = f"{name}\t" if " " in name else name  # Git ends a name with spaces like this
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    lines = difflib.unified_diff(before, after, in_header, in_header)
    return "".join([f"diff --git {name} {name}\n", *lines])


def _quoted(path: str) -> str:
    raw = path.encode(errors="surrogatepass")
    if not _NEEDS_QUOTES.search(raw):
        return path
    return f'"{_NEEDS_QUOTES.sub(_escape, raw).decode()}"'


def _escape(found: re.Match[bytes]) -> bytes:
    return _SHORT_ESCAPES.get(found[0], b"\\%03o" % found[0][0])
