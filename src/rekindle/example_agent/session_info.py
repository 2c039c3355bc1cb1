"""The methods about sessions, which are the same in both versions: archive, title and status."""

from collections.abc import Callable, Iterator

from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import invalid
from rekindle.example_agent.rpc import Json, Request
from rekindle.example_agent.session import Session, SessionRegistry

_FILTERS: dict[object, tuple[bool, ...]] = {
    None: (False,),
    "exclude": (False,),
    "include": (False, True),
    "only": (True,),
}


class SessionInfoHandlers:
    """Handles the methods that the options select."""

    def __init__(self, sessions: SessionRegistry, options: Options) -> None:
        self._sessions = sessions
        self._options = options

    def methods(self) -> Iterator[tuple[str, Callable[[Request], None]]]:
        """Yield the methods with their handlers."""
        if "archive" in self._options.offers:
            yield "session/archive", self._archive
            yield "session/unarchive", self._unarchive
        if "title" in self._options.offers:
            yield "session/set_title", self._set_title
        if "status" in self._options.offers:
            yield "session/status", self._status

    def capabilities(self) -> Json:
        """Return the session capabilities that announce them, and the system prompt."""
        offers = self._options.offers
        announced: Json = {name: {} for name in ("archive", "title", "status") if name in offers}
        if "systemPrompt" in offers:
            announced["systemPrompt"] = {"mode": {"override": {}}}
        return announced

    def select(self, conversations: list[Conversation], params: Json) -> list[Json]:
        """Return the rows of `session/list` that the filter selects."""
        if "archive" not in self._options.offers:
            return [_describe(it) for it in conversations]
        wanted = params.get("archived")
        if not isinstance(wanted, str | None) or wanted not in _FILTERS:
            raise invalid("archived", "must be 'exclude', 'include' or 'only'")
        return [
            {**_describe(it), "archived": it.is_archived}
            for it in conversations
            if it.is_archived in _FILTERS[wanted]
        ]

    def _archive(self, request: Request) -> None:
        conversation = self._sessions.get_known(request.params)
        self._sessions.close_retained(conversation.session_id)
        self._set_archived(conversation, request, is_archived=True)

    def _unarchive(self, request: Request) -> None:
        conversation = self._sessions.get_known(request.params)
        self._set_archived(conversation, request, is_archived=False)

    def _set_archived(
        self, conversation: Conversation, request: Request, *, is_archived: bool
    ) -> None:
        conversation.is_archived = is_archived
        self._sessions.save(conversation)
        request.respond({})

    def _set_title(self, request: Request) -> None:
        conversation = self._sessions.get_known(request.params)
        match request.params.get("title"):
            case str(given) if title := " ".join(given.split()):
                conversation.title, conversation.is_titled_by_user = title, True
            case _:
                raise invalid("title", "must be a text that is not empty")
        self._sessions.save(conversation)
        if session := self._sessions.find_open(conversation.session_id):
            session.send_update({"sessionUpdate": "session_info_update", "title": title})
        request.respond({"title": title})

    def _status(self, request: Request) -> None:
        conversation = self._sessions.get_known(request.params)
        session = self._sessions.find_open(conversation.session_id)
        request.respond(_snapshot(session) if session else {"status": "saved"})


def _snapshot(session: Session) -> Json:
    state = session.update_format.state(session.state)
    return {"status": "open", **({"state": state} if state else {})}


def _describe(conversation: Conversation) -> Json:
    return {
        "sessionId": conversation.session_id,
        "cwd": conversation.cwd,
        "title": conversation.title,
        "updatedAt": conversation.updated_at,
    }
