"""What is known of an open session: its transcript, and its state in one form for both versions.

The transcript is folded by the code that folds recorded sessions, from the same entries.
"""

import time
from typing import Any

from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import MODE, config_id
from rekindle.client.models import Command, Option, as_command, as_option
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import Entry, Kind, Side
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v2 import current_options

Json = dict[str, Any]

_COMMANDS = "available_commands_update"


class Record:
    """One session's record, as this client has seen it."""

    def __init__(self, protocol: int) -> None:
        self.transcript = Transcript()
        self.last_seq = 0
        self.protocol = protocol

    def note(self, side: Side, kind: Kind, line: bytes) -> int:
        """Fold one more line; return its seq."""
        self.last_seq += 1
        entry = Entry(
            seq=self.last_seq,
            side=side,
            kind=kind,
            at_us=time.time_ns() // 1000,
            line=line,
            protocol=self.protocol,
        )
        self.transcript.add(entry)
        return self.last_seq

    def begin(self, line: bytes, result: Json) -> None:
        """Take the answer that opens the session."""
        self.note(Side.AGENT, Kind.READY, line)
        if isinstance(result.get("availableCommands"), list):
            told = {"availableCommands": result["availableCommands"]}
            self.transcript.state[_COMMANDS] = told

    @property
    def title(self) -> str | None:
        """The title that the agent told last."""
        return as_str(self._state("session_info_update").get("title"))

    @property
    def commands(self) -> tuple[Command, ...]:
        """The slash commands."""
        return commands_in(self.transcript)

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be set, the mode included."""
        return tuple(as_option(it) for it in current_options(self.transcript))

    @property
    def mode(self) -> Option | None:
        """The option that chooses the mode."""
        options = (it for it in self.options if it.category == MODE and it.type == "select")
        return next(options, None)

    @property
    def usage(self) -> Json | None:
        """How full the context is."""
        told = self._state("usage_update")
        return {name: it for name, it in told.items() if name != "sessionUpdate"} or None

    def is_made_up(self, option: Option) -> bool:
        """Tell whether an option stands for the modes of a version 1 agent."""
        own = as_array(self._state("config_option_update").get("configOptions"))
        has_it = any(config_id(as_object(it)) == option.id for it in own)
        return option.id == MODE and self.protocol == 1 and not has_it

    def _state(self, kind: str) -> Json:
        return as_object(self.transcript.state.get(kind))


def commands_in(transcript: Transcript) -> tuple[Command, ...]:
    """Return the slash commands that were told last."""
    told = as_object(transcript.state.get(_COMMANDS)).get("availableCommands")
    return tuple(as_command(it) for it in commands_to_v2(told))
