"""What the agent does alike in every version of the protocol."""

from collections.abc import Callable
from typing import NamedTuple

from rekindle import __version__
from rekindle.example_agent import scenes
from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_list_filter, read_session_id
from rekindle.example_agent.rpc import Json, Request
from rekindle.example_agent.sessions import Sessions
from rekindle.example_agent.turn import CancelledError, Turn

INFO: Json = {"name": "example-agent", "title": "Example Agent", "version": __version__}


class Mode(NamedTuple):
    """A way of working that the user can choose."""

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


class Form:
    """The agent in one version of the protocol: which method does what."""

    def __init__(self, sessions: Sessions, options: Options) -> None:
        self.sessions = sessions
        self.options = options
        self.methods: dict[str, Callable[[Request], None]] = {}

    def accepts_id(self, value: object) -> bool:
        """Whether a request may have this id."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value is None or isinstance(value, str) or is_number

    def listed(self, request: Request) -> list[Json]:
        """Return the sessions asked for, all on one page, the last used first."""
        cwd = read_list_filter(request.params)
        return [_info(kept) for kept in self.sessions.newest_first(cwd)]

    def delete(self, request: Request) -> None:
        """Forget a session."""
        self.sessions.forget(read_session_id(request.params))
        request.answer({})

    def change_mode(self, conversation: Conversation, mode: str) -> None:
        """Change the mode, and remember that."""
        conversation.mode = mode
        self.sessions.save(conversation)

    def play(self, turn: Turn) -> str:
        """Do what the prompt asks for, and return why the turn stopped."""
        self._keep(turn.conversation)
        try:
            scenes.play(turn)
        except CancelledError:
            turn.cancel_open_calls()
            return "cancelled"
        else:
            return "end_turn"
        finally:
            self._keep(turn.conversation)

    def _keep(self, conversation: Conversation) -> None:
        conversation.touch()
        self.sessions.save(conversation)


def _info(kept: Conversation) -> Json:
    return {
        "sessionId": kept.session_id,
        "cwd": kept.cwd,
        "title": kept.title,
        "updatedAt": kept.updated_at,
    }
