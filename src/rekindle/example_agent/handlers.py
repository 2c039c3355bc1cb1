"""The request handlers that both protocol versions share."""

from collections.abc import Callable
from typing import NamedTuple

from rekindle import __version__
from rekindle.example_agent import actions
from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_list_filter, read_session_id
from rekindle.example_agent.rewind import RewindHandlers
from rekindle.example_agent.rpc import Json, Request
from rekindle.example_agent.session import CancelledError, SessionRegistry, Turn
from rekindle.example_agent.session_info import SessionInfoHandlers

INFO: Json = {"name": "example-agent", "title": "Example Agent", "version": __version__}


class Mode(NamedTuple):
    """A session mode."""

    mode_id: str
    name: str
    description: str


class Command(NamedTuple):
    """A slash command."""

    name: str
    description: str
    hint: str | None = None


MODES = (
    Mode("ask", "Ask", "Talk about the code"),
    Mode("code", "Code", "Change the code"),
)
COMMANDS = (
    Command("plan", "Make a plan and go through it"),
    Command("count", "Count out loud", hint="to 10"),
)


class Handlers:
    """The handlers of one version of the protocol, by method."""

    has_batches = False
    """Whether the version has batches."""

    def __init__(self, sessions: SessionRegistry, options: Options) -> None:
        self.sessions = sessions
        self.options = options
        self.info = SessionInfoHandlers(sessions, options)
        self.rewinding = RewindHandlers(sessions, options)
        self.methods: dict[str, Callable[[Request], None]] = {}

    def accepts_id(self, value: object) -> bool:
        """Return whether a request may have this id."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value is None or isinstance(value, str) or is_number

    def list_sessions(self, request: Request) -> list[Json]:
        """Return the requested sessions on one page, the last used first."""
        cwd = read_list_filter(request.params)
        return self.info.select(self.sessions.newest_first(cwd), request.params)

    def delete(self, request: Request) -> None:
        """Delete a session."""
        self.sessions.delete(read_session_id(request.params))
        request.respond({})

    def change_mode(self, conversation: Conversation, mode: str) -> None:
        """Change the mode, and save it."""
        conversation.mode = mode
        self.sessions.save(conversation)

    def play(self, turn: Turn) -> str:
        """Run the actions of the prompt, and return the stop reason."""
        self._save(turn.conversation)
        try:
            actions.play(turn)
        except CancelledError:
            turn.cancel_open_calls()
            return "cancelled"
        else:
            return "end_turn"
        finally:
            self._save(turn.conversation)

    def _save(self, conversation: Conversation) -> None:
        conversation.touch()
        self.sessions.save(conversation)
