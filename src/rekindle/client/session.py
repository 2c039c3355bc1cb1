"""An open session: the class that callers use."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from rekindle.acp import methods
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.acp.translate.config import setting_to_v1
from rekindle.client.events import Event
from rekindle.client.follow import TurnState
from rekindle.client.handshake import Capability
from rekindle.client.models import (
    Choice,
    ConfigOption,
    Item,
    SlashCommand,
    Subagent,
    as_items,
    as_subagent,
)
from rekindle.client.session_channel import SessionChannel
from rekindle.client.turn import Turn
from rekindle.errors import (
    AgentRefused,
    NotOffered,
    UsageError,
)
from rekindle.jsonvalue import Json, as_str
from rekindle.model import Kind, Side
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.subagents import subagents_in

Prompt = str | Sequence[str | Json]
"""A text, or a list of texts and content blocks."""

# The capability that an agent needs for each type of content block.
_BLOCK_CAPABILITIES: dict[str, Capability] = {
    "image": "image",
    "audio": "audio",
    "resource": "embeddedContext",
}


class ClientSession:
    """A session that is open. `Agent.new`, `load`, `resume` and `fork` return one."""

    def __init__(self, channel: SessionChannel, cwd: str) -> None:
        self.id = channel.id
        self.cwd = cwd
        self._channel = channel
        self._context = channel.context

    def __repr__(self) -> str:
        return f"ClientSession({self.id!r}, {self.cwd!r})"

    # -- properties ---------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the session can be used: it was not closed, deleted or loaded again."""
        return self._channel.is_open

    @property
    def turn(self) -> Turn | None:
        """The running turn, if any."""
        return self._channel.turn

    @property
    def state(self) -> TurnState:
        """Whether a turn is running, of this client or another one: `idle`, `running`.

        `requires_action` means that the turn of another client waits for its user.
        """
        others = self._channel.others.state
        return "running" if self.turn is not None and others == "idle" else others

    @property
    def history(self) -> list[Item]:
        """The conversation as far as this client has seen it: after a load, all of it."""
        return list(as_items(self.transcript.turns))

    @property
    def transcript(self) -> Transcript:
        """The same conversation by turns, with terminals, as Rekindle stores it."""
        return self._channel.record.transcript

    @property
    def subagents(self) -> tuple[Subagent, ...]:
        """The sub-agents that the agent has started. They may have sub-agents, too."""
        return tuple(map(as_subagent, subagents_in(self.transcript.turns)))

    @property
    def title(self) -> str | None:
        """The title, if the agent has sent one."""
        return self._channel.record.title

    @property
    def commands(self) -> tuple[SlashCommand, ...]:
        """The slash commands."""
        return self._channel.record.commands

    @property
    def options(self) -> tuple[ConfigOption, ...]:
        """The config options, including the mode."""
        return self._channel.record.options

    @property
    def mode(self) -> str | None:
        """The id of the current mode."""
        option = self._channel.record.mode
        return as_str(option.value) if option is not None else None

    @property
    def modes(self) -> tuple[Choice, ...]:
        """The modes that the session can be set to."""
        option = self._channel.record.mode
        return option.choices if option is not None else ()

    @property
    def usage(self) -> Json | None:
        """The fill level of the context and its cost, as the agent last sent them."""
        return self._channel.record.usage

    # -- use ----------------------------------------------------------------------------

    def prompt(self, prompt: Prompt) -> Turn:
        """Send a prompt, and return its turn.

        Raises SessionBusy, SessionClosed, NotOffered, UsageError, AgentGone.
        """
        self._channel.check_idle()
        return self._channel.prompt(self._blocks(prompt))

    async def ask(self, prompt: Prompt) -> str:
        """Send a prompt, wait for the end of the turn, and return the text of the answer.

        Raises what `prompt` raises, and AgentRefused.
        """
        turn = self.prompt(prompt)
        await turn
        return turn.text

    def follow(self) -> AsyncIterator[Event]:
        """Return the events of the turns of other clients.

        They begin where `history` ends at the moment of the first call. Each turn has a prompt, a
        `UserMessageChunk`, then `TurnStarted`, and ends with `TurnEnded`. A turn that is running
        already has `TurnStarted` at once. If this client is asked for permission in such a turn,
        the reader answers. A reader that stops leaves the request to other clients.

        There is one sequence of events for each session. It ends when the session is closed, and
        raises AgentGone if the agent, or the process that has the session, is gone.
        """
        self._channel.check_open()
        return self._channel.follow()

    def cancel_subagent(self, session_id: str) -> None:
        """Ask the agent to stop a sub-agent's work. Raises NotOffered, SessionClosed, AgentGone."""
        self._channel.check_open()
        channel = self._channel.subagents.get(session_id)
        known = next((it for it in self.subagents if it.id == session_id), None)
        if channel is None or known is None or not known.can_cancel:
            name = self._context.handshake.name
            raise NotOffered(name, f"to cancel the sub-agent {session_id}")
        self._context.rpc.notify(methods.CANCEL, {"sessionId": session_id})
        channel.cancel()

    async def rewind(self, message_id: str) -> None:
        """Remove everything after a message from the session. A running turn is cancelled.

        The id is that of a message in `history`. A version 1 agent may send messages without an id;
        load the session again to get their ids.

        Raises NotOffered, SessionClosed, AgentRefused, AgentGone.
        """
        self._channel.check_open()
        self._context.require("rewind", methods.REWIND)
        params = {"sessionId": self.id, "toMessageId": message_id}
        await self._context.rpc.call(methods.REWIND, params)

    def edit_prompt(self, message_id: str, prompt: Prompt) -> Turn:
        """Replace a message of the user, remove everything after it, and return the new turn.

        Raises SessionBusy, SessionClosed, NotOffered, UsageError, AgentGone. The turn raises
        AgentRefused if the session has no such message.
        """
        self._channel.check_idle()
        self._context.require("edit_prompt", methods.EDIT_PROMPT)
        return self._channel.edit_prompt(message_id, self._blocks(prompt))

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode. Raises NotOffered, SessionClosed, AgentRefused, AgentGone."""
        option = self._channel.record.mode
        if option is None:
            raise NotOffered(self._context.handshake.name, "modes in this session")
        await self.set_option(option.id, mode_id)

    async def set_option(self, option_id: str, value: str | bool) -> None:  # noqa: FBT001 - JSON
        """Set an option, to the id of a choice or to a boolean.

        Raises NotOffered, SessionClosed, AgentRefused, AgentGone.
        """
        self._channel.check_open()
        option = next((it for it in self.options if it.id == option_id), None)
        if option is None:
            name = self._context.handshake.name
            raise NotOffered(name, f"the option {option_id} in this session")
        method, params = self._setting(option, value)
        record = self._channel.record
        await self._context.rpc.call(
            method,
            params,
            on_result=lambda response: record.add(Side.AGENT, Kind.CONFIGURED, response.line),
            on_sent=lambda line: record.add(Side.CLIENT, Kind.CONFIG, line),
        )

    async def close(self) -> None:
        """Close the session: the agent stops its work and frees it. It can be loaded again.

        A session that other clients use stays open for them, and its turn continues.

        Raises NotOffered, SessionClosed, AgentRefused, AgentGone.
        """
        self._channel.check_open()
        self._context.require("close", methods.CLOSE)
        try:
            await self._context.rpc.call(methods.CLOSE, {"sessionId": self.id})
        except AgentRefused as refusal:
            if refusal.code != RESOURCE_NOT_FOUND:
                raise
        self._channel.close()

    def _blocks(self, prompt: Prompt) -> list[Json]:
        if isinstance(prompt, Mapping | bytes):
            raise UsageError("a prompt is a text, or a list of texts and content blocks")
        parts = [prompt] if isinstance(prompt, str) else prompt
        blocks = [_block(part) for part in parts]
        if not blocks:
            raise UsageError("the prompt is empty; give a text, or content blocks")
        for kind in (str(block.get("type")) for block in blocks):
            if kind in _BLOCK_CAPABILITIES:
                self._context.require(_BLOCK_CAPABILITIES[kind], f"prompts with {kind} blocks")
        return blocks

    def _setting(
        self,
        option: ConfigOption,
        value: str | bool,  # noqa: FBT001 - JSON
    ) -> tuple[str, Json]:
        if self._channel.record.is_mode_of_v1(option):
            return methods.SET_MODE, {"sessionId": self.id, "modeId": value}
        kind = "boolean" if isinstance(value, bool) else "id"
        params = {"sessionId": self.id, "configId": option.id, "type": kind, "value": value}
        is_v1 = self._context.handshake.protocol == 1
        return methods.SET_CONFIG_OPTION, setting_to_v1(params) if is_v1 else params


def _block(part: object) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise UsageError(f"{part!r} is neither text nor a content block")
    return dict(cast("Mapping[str, Any]", part))
