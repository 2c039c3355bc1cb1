"""JSON-RPC with an agent: requests and their answers, each exactly once. Knows no session.

Every line is seen to before the next one is looked at. So whoever is told of an answer has been
told of all that came before it, and of nothing that came after.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Envelope,
    error_response,
    notification,
    read_envelope,
    request,
    request_key,
    response,
    split_batch,
)
from rekindle.client.process import Ended
from rekindle.errors import AgentGone, AgentRefused, AuthRequired, ClientError
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object, encode

Json = dict[str, Any]


class Answer(Struct, frozen=True):
    """What became of a request: the agent's line, or the error that there is none."""

    line: bytes
    result: Json
    error: ClientError | None = None


class _Open(Struct, frozen=True):
    method: str
    heed: Callable[[Answer], None]


class Rpc:
    """One side of a connection. `write`, which sends a line, is given to it once there is one."""

    def __init__(
        self,
        on_update: Callable[[str, bytes], None],
        on_question: Callable[[str, Raw, bytes], None],
        on_withdrawn: Callable[[Raw], None],
    ) -> None:
        self._on_update = on_update
        self._on_question = on_question
        self._on_withdrawn = on_withdrawn
        self._last_id = 0
        self._open: dict[object, _Open] = {}
        self._ended: Ended | None = None
        self.write: Callable[[bytes], None] = _nowhere

    # -- what we say --------------------------------------------------------------------

    def ask(self, method: str, params: Json, heed: Callable[[Answer], None]) -> bytes:
        """Send a request, and return its line. `heed` is called once, before all that follows.

        Raises AgentGone.
        """
        if self._ended is not None:
            raise _gone(method, self._ended)
        self._last_id += 1
        line = request(self._last_id, method, params)
        self._open["number", self._last_id] = _Open(method, heed)
        self.write(line)
        return line

    async def call(
        self,
        method: str,
        params: Json,
        heed: Callable[[Answer], object] | None = None,
        sent: Callable[[bytes], object] | None = None,
    ) -> Json:
        """Send a request, and return its result.

        `heed` is told of it before the next line is looked at, and `sent` of our line. Raises
        what they raise, and AgentRefused, AgentGone.
        """
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        def settle(answer: Answer) -> None:
            error = answer.error
            if error is None and heed is not None:
                try:
                    heed(answer)
                except ClientError as unfit:
                    error = unfit
            if answered.done():
                return  # nobody waits for it any more
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(answer.result)

        line = self.ask(method, params, settle)
        if sent is not None:
            sent(line)
        return await answered

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.write(notification(method, params))

    def answer(self, request_id: Raw, result: Json) -> bytes:
        """Answer a request of the agent's; return the line."""
        line = response(request_id, result)
        self.write(line)
        return line

    def refuse(self, request_id: Raw, code: int, message: str) -> bytes:
        """Refuse a request of the agent's; return the line."""
        line = error_response(request_id, code, message)
        self.write(line)
        return line

    # -- what we hear -------------------------------------------------------------------

    def take(self, lines: bytes) -> None:
        """See to what one read brought."""
        for line in lines.split(b"\n"):
            message = read_envelope(line)
            if message is not None:
                self._take(line, message)
            else:
                # What is no JSON at all is not for us: some agents greet the user.
                for member in split_batch(line):
                    self.take(member)

    def _take(self, line: bytes, message: Envelope) -> None:
        if message.is_update:
            if message.session_id is not None:
                self._on_update(message.session_id, line)
        elif isinstance(message.id, Raw) and message.method is not UNSET:
            self._take_request(line, message, message.id, message.method)
        elif isinstance(message.id, Raw) and message.is_response:
            self._take_answer(line, message.id)
        elif message.method == methods.CANCEL_REQUEST:
            withdrawn = as_object(as_object(decode_object(line)).get("params")).get("requestId")
            self._on_withdrawn(Raw(encode(withdrawn)))

    def _take_request(self, line: bytes, message: Envelope, request_id: Raw, method: str) -> None:
        if method == methods.REQUEST_PERMISSION and message.session_id is not None:
            self._on_question(message.session_id, request_id, line)
        else:
            self.refuse(request_id, METHOD_NOT_FOUND, f"this client has no {method}")

    def _take_answer(self, line: bytes, request_id: Raw) -> None:
        asked = self._open.pop(request_key(request_id), None)
        if asked is None:
            return
        answer = as_object(decode_object(line))
        told = answer.get("error")
        error = error_of(asked.method, as_object(told)) if told is not None else None
        asked.heed(Answer(line, as_object(answer.get("result")), error))

    def end(self, ended: Ended) -> None:
        """Learn that nothing more will come; all who wait for an answer are told."""
        self._ended = ended
        waiting, self._open = self._open, {}
        for asked in waiting.values():
            asked.heed(Answer(b"", {}, _gone(asked.method, ended)))


def _nowhere(line: bytes) -> None:
    del line


def _gone(method: str, ended: Ended) -> AgentGone:
    return AgentGone(method, ended.exit_code, ended.signal, ended.stderr)


def error_of(method: str, told: Json) -> ClientError:
    """Return what an agent, or Rekindle, says went wrong."""
    data = as_object(told.get("data"))
    if data.get("agentEnded") is True:
        # Rekindle says so, and is still there.
        code, signal = data.get("exitCode"), as_str(data.get("signal"))
        words = [it for it in map(as_str, as_array(data.get("stderr"))) if it]
        exit_code = code if isinstance(code, int) else None
        return AgentGone(method, exit_code, signal, words, is_final=False)
    code = told.get("code")
    number = code if isinstance(code, int) else INTERNAL_ERROR
    kind = AuthRequired if number == AUTH_REQUIRED else AgentRefused
    return kind(method, number, as_str(told.get("message")) or "no reason given", told.get("data"))
