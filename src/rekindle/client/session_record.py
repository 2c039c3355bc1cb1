"""The client's knowledge of an open session: its transcript and its properties.

The reducer of recorded sessions builds the transcript, from the same entries.
"""

import time

from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import MODE, config_id
from rekindle.client.models import ConfigOption, SlashCommand, as_command, as_option
from rekindle.jsonvalue import Json, as_array, as_object, as_str, encode, without
from rekindle.model import Entry, Kind, Side
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import current_options

_COMMANDS = "available_commands_update"


class SessionRecord:
    """The record of one session, as far as this client has seen it."""

    def __init__(self, protocol: int) -> None:
        self.transcript = Transcript()
        self.last_seq = 0
        self.protocol = protocol

    def add(self, side: Side, kind: Kind, line: bytes) -> int:
        """Add a line to the transcript; return its seq."""
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

    def add_opening(self, line: bytes, result: Json) -> None:
        """Add the response that opens the session."""
        self.add(Side.AGENT, Kind.READY, line)
        if isinstance(result.get("availableCommands"), list):
            commands = {"availableCommands": result["availableCommands"]}
            self.transcript.state[_COMMANDS] = commands

    def add_end(self, state: Json) -> None:
        """Add the end of a turn of another client, unless the reported state itself is the end."""
        turns = self.transcript.turns
        if not turns or turns[-1].stop_reason is not None or turns[-1].error is not None:
            return
        if state.get("stopReason") == "error":
            outcome: Json = {"error": as_object(state.get("error"))}
        else:
            outcome = {"result": without(state, "state")}
        self.add(Side.AGENT, Kind.ANSWER, encode({"jsonrpc": "2.0", **outcome}))

    @property
    def title(self) -> str | None:
        """The title that the agent sent last."""
        return as_str(self._state("session_info_update").get("title"))

    @property
    def commands(self) -> tuple[SlashCommand, ...]:
        """The slash commands."""
        return commands_in(self.transcript)

    @property
    def options(self) -> tuple[ConfigOption, ...]:
        """The config options, including the mode."""
        return tuple(as_option(option) for option in current_options(self.transcript))

    @property
    def mode(self) -> ConfigOption | None:
        """The option that selects the mode."""
        options = (it for it in self.options if it.category == MODE and it.type == "select")
        return next(options, None)

    @property
    def usage(self) -> Json | None:
        """The fill level of the context and its cost."""
        update = self._state("usage_update")
        return without(update, "sessionUpdate") or None

    def is_mode_of_v1(self, option: ConfigOption) -> bool:
        """Return whether an option represents the modes of a version 1 agent."""
        options = as_array(self._state("config_option_update").get("configOptions"))
        is_listed = any(config_id(as_object(it)) == option.id for it in options)
        return option.id == MODE and self.protocol == 1 and not is_listed

    def _state(self, kind: str) -> Json:
        return as_object(self.transcript.state.get(kind))


def commands_in(transcript: Transcript) -> tuple[SlashCommand, ...]:
    """Return the slash commands that the agent sent last."""
    commands = as_object(transcript.state.get(_COMMANDS)).get("availableCommands")
    return tuple(as_command(command) for command in commands_to_v2(commands))
