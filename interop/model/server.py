"""The fake model's HTTP server, on a free port of loopback."""

import json
import re
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from interop.model.anthropic import Anthropic
from interop.model.behaviour import reply_to
from interop.model.dialect import Dialect, Event, ModelRequest, TextReply, halves
from interop.model.gemini import Gemini
from interop.model.openai_chat import OpenaiChat
from interop.model.openai_responses import OpenaiResponses
from rekindle.jsonvalue import as_object

Json = dict[str, Any]
Log = Callable[[str], None]
OnRequest = Callable[[ModelRequest], None]

MODEL = "fake-model"
_PAUSE = 6.0
"""The seconds in the middle of an answer that pauses."""

_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    (r"/chat/completions$", OpenaiChat()),
    (r"/responses$", OpenaiResponses()),
    (r"/messages$", Anthropic()),
    (r":streamGenerateContent$", Gemini(is_streamed=True)),
    (r":generateContent$", Gemini(is_streamed=False)),
)
# Other requests of agents: token counts and the list of models.
_FIXED_ANSWERS: tuple[tuple[str, Json], ...] = (
    (r"/count_tokens$", {"input_tokens": 100}),
    (r":countTokens$", {"totalTokens": 100}),
    (r"/models$", {"object": "list", "data": [{"id": MODEL, "object": "model"}]}),
)


@contextmanager
def serving(log: Log, on_request: OnRequest = lambda _: None) -> Generator[str, None, None]:
    """Serve the model until the end of the block; yield its address.

    `log` gets a line for each request, and `on_request` the request before it is answered.
    """
    server = _Server(("127.0.0.1", 0), partial(_Handler, log, on_request))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors, except for agents that were killed during a response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(
        self,
        log: Log,
        on_request: OnRequest,
        *args: Any,  # noqa: ANN401 - the server's arguments
    ) -> None:
        self._log = log
        self._on_request = on_request
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer requests for the list of models."""
        self._answer_fixed(self.path.partition("?")[0])

    def do_POST(self) -> None:
        """Answer as the model, or with a token count."""
        path = self.path.partition("?")[0]
        body = as_object(json.loads(self._body() or b"{}"))
        dialects = (dialect for form, dialect in _DIALECTS if re.search(form, path))
        dialect = next(dialects, None)
        if dialect is None:
            self._answer_fixed(path)
            return
        shown = dialect.read(body)
        self._on_request(shown)
        reply = reply_to(shown)
        self._log(f"{path}: {len(shown.messages)} messages, {len(shown.tools)} tools -> {reply}")
        if shown.is_streamed:
            until = pause = None
            if isinstance(reply, TextReply) and (reply.hangs or reply.pauses):
                until = halves(reply.text)[0]
                pause = _PAUSE if reply.pauses else None
            self._stream(dialect.stream(reply, shown), until, pause)
        else:
            self._send(HTTPStatus.OK, dialect.whole(reply, shown))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Do nothing: `do_POST` logs each request."""

    def _answer_fixed(self, path: str) -> None:
        answers = (answer for form, answer in _FIXED_ANSWERS if re.search(form, path))
        answer = next(answers, None)
        self._log(f"{path}: {'fixed answer' if answer else 'unknown'}")
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, {"error": {"message": f"the fake has no {path}"}})
        else:
            self._send(HTTPStatus.OK, answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: HTTPStatus, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Event], until: str | None, pause: float | None) -> None:
        """Write events. After the text `until`, pause, or wait until the agent hangs up."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, content in events:
            data = content if isinstance(content, str) else json.dumps(content)
            line = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
            self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
            if until is None or json.dumps(until)[1:-1] not in data:
                continue
            until = None
            if pause is not None:
                self.wfile.flush()
                time.sleep(pause)
            else:
                self.connection.recv(1)
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")
