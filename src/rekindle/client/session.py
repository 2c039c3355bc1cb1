"""An open session: prompting it, setting it, and seeing what comes of that."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rekindle.acp import methods
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.acp.translate.config import setting_to_v1
from rekindle.client.handshake import Offer
from rekindle.client.models import Choice, Command, Item, Option, as_items
from rekindle.client.session_channel import Talk
from rekindle.client.turn import Turn
from rekindle.errors import AgentRefused, NotOffered, UsageError
from rekindle.jsonvalue import as_str
from rekindle.model import Kind, Side
from rekindle.transcript.reducer import Transcript

Json = dict[str, Any]
Prompt = str | Sequence[str | Json]
"""Text, or several texts and content blocks."""

# What an agent must say it takes before it is sent.
_BLOCKS: dict[str, Offer] = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


class Session:
    """A session that is open. `Agent.new`, `load`, `resume` and `fork` return one."""

    def __init__(self, talk: Talk, cwd: str) -> None:
        self.id = talk.id
        self.cwd = cwd
        self._talk = talk
        self._context = talk.context

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.cwd!r})"

    # -- what is known of it ------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it can be used: it was not closed, deleted or loaded anew."""
        return self._talk.is_open

    @property
    def turn(self) -> Turn | None:
        """The turn that is running."""
        return self._talk.turn

    @property
    def history(self) -> list[Item]:
        """What has been said and done, as far as it was told here: after a load, all of it."""
        return list(as_items(self.transcript.turns))

    @property
    def transcript(self) -> Transcript:
        """The same as Rekindle folds it, turn by turn, with terminals."""
        return self._talk.record.transcript

    @property
    def title(self) -> str | None:
        """Its title, if the agent told one."""
        return self._talk.record.title

    @property
    def commands(self) -> tuple[Command, ...]:
        """The slash commands that there are."""
        return self._talk.record.commands

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be set, the mode included."""
        return self._talk.record.options

    @property
    def mode(self) -> str | None:
        """The id of the mode that it is in."""
        option = self._talk.record.mode
        return as_str(option.value) if option is not None else None

    @property
    def modes(self) -> tuple[Choice, ...]:
        """The modes that it can be in."""
        option = self._talk.record.mode
        return option.choices if option is not None else ()

    @property
    def usage(self) -> Json | None:
        """How full the context is and what that cost, as the agent last told it."""
        return self._talk.record.usage

    # -- using it -----------------------------------------------------------------------

    def prompt(self, prompt: Prompt) -> Turn:
        """Send a prompt, and return the turn that tells what comes of it.

        Raises SessionBusy, SessionClosed, NotOffered, UsageError, AgentGone.
        """
        self._talk.check_free()
        return self._talk.prompt(self._blocks(prompt))

    async def ask(self, prompt: Prompt) -> str:
        """Send a prompt, wait for the end of the turn, and return what the agent said.

        Raises what `prompt` raises, and AgentRefused.
        """
        turn = self.prompt(prompt)
        await turn
        return turn.text

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode. Raises NotOffered, SessionClosed, AgentRefused, AgentGone."""
        option = self._talk.record.mode
        if option is None:
            raise NotOffered(self._context.agent.name, "modes in this session")
        await self.set_option(option.id, mode_id)

    async def set_option(self, option_id: str, value: str | bool) -> None:  # noqa: FBT001 - JSON
        """Set an option: to the id of a choice, or on or off.

        Raises NotOffered, SessionClosed, AgentRefused, AgentGone.
        """
        self._talk.check_open()
        option = next((it for it in self.options if it.id == option_id), None)
        if option is None:
            raise NotOffered(self._context.agent.name, f"the option {option_id} in this session")
        method, params = self._setting(option, value)
        note = self._talk.record.note
        await self._context.rpc.call(
            method,
            params,
            heed=lambda answer: note(Side.AGENT, Kind.CONFIGURED, answer.line),
            sent=lambda line: note(Side.CLIENT, Kind.CONFIG, line),
        )

    async def close(self) -> None:
        """End its work, and have the agent let go of it. It can be loaded again.

        Raises NotOffered, SessionClosed, AgentRefused, AgentGone.
        """
        self._talk.check_open()
        self._context.check("close", methods.CLOSE)
        try:
            await self._context.rpc.call(methods.CLOSE, {"sessionId": self.id})
        except AgentRefused as refusal:
            if refusal.code != RESOURCE_NOT_FOUND:
                raise
        self._talk.leave()

    def _blocks(self, prompt: Prompt) -> list[Json]:
        if isinstance(prompt, Mapping | bytes):
            raise UsageError("a prompt is a text, or a list of texts and content blocks")
        parts = [prompt] if isinstance(prompt, str) else prompt
        blocks = [_block(part) for part in parts]
        if not blocks:
            raise UsageError("the prompt is empty: give a text, or content blocks")
        for kind in (str(block.get("type")) for block in blocks):
            if kind in _BLOCKS:
                self._context.check(_BLOCKS[kind], f"prompts with {kind} blocks")
        return blocks

    def _setting(self, option: Option, value: str | bool) -> tuple[str, Json]:  # noqa: FBT001 - JSON
        if self._talk.record.is_made_up(option):
            return methods.SET_MODE, {"sessionId": self.id, "modeId": value}
        kind = "boolean" if isinstance(value, bool) else "id"
        params = {"sessionId": self.id, "configId": option.id, "type": kind, "value": value}
        is_v1 = self._context.agent.protocol == 1
        return methods.SET_CONFIG_OPTION, setting_to_v1(params) if is_v1 else params


def _block(part: object) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise UsageError(f"{part!r} is neither text nor a content block")
    return dict(cast("Mapping[str, Any]", part))
