"""`session/rewind`, which no schema has yet. It is the same in both versions."""

from collections.abc import Callable, Iterator

from rekindle.example_agent.options import Options
from rekindle.example_agent.params import invalid
from rekindle.example_agent.rpc import RESOURCE_NOT_FOUND, Json, Request, RpcError
from rekindle.example_agent.session import SessionRegistry


class RewindHandlers:
    """Handles `session/rewind`, if the options select it."""

    def __init__(self, sessions: SessionRegistry, options: Options) -> None:
        self._sessions = sessions
        self._is_offered = "rewind" in options.offers

    def methods(self) -> Iterator[tuple[str, Callable[[Request], None]]]:
        """Yield the method with its handler."""
        if self._is_offered:
            yield "session/rewind", self._rewind

    def capabilities(self) -> Json:
        """Return the session capability that announces it."""
        return {"rewind": {}} if self._is_offered else {}

    def _rewind(self, request: Request) -> None:
        session = self._sessions.get_open(request.params)
        match request.params.get("toMessageId"):
            case str(message_id):
                pass
            case _:
                raise invalid("toMessageId", "must be a string")
        conversation = session.conversation
        if not conversation.has_message(message_id):
            text = f"session {conversation.session_id!r} has no message {message_id!r}"
            raise RpcError(RESOURCE_NOT_FOUND, text, {"reason": "unknown_message_id"})
        session.cancel()
        session.wait()
        conversation.rewind(message_id)
        self._sessions.save(conversation)
        session.send_update({"sessionUpdate": "history_truncated", "lastMessageId": message_id})
        request.respond({"lastMessageId": message_id})
