"""An open session: prompting it, setting it, and seeing what comes of that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Raw, Struct

from rekindle.client.asking import Asking
from rekindle.client.events import Seam, Watch
from rekindle.client.greeting import Greeting, Offer
from rekindle.client.questions import OnPermission
from rekindle.client.record import Record
from rekindle.client.rpc import Answer, Rpc
from rekindle.client.turn import Turn
from rekindle.client.values import Choice, Command, Item, Option, as_items
from rekindle.core.echo import Echo
from rekindle.core.transcript import Transcript
from rekindle.core.translate.options import setting_to_v1
from rekindle.errors import (
    AgentRefused,
    ClientError,
    NotOffered,
    SessionBusy,
    SessionClosed,
    UsageError,
)
from rekindle.model import Kind, Side
from rekindle.wire import methods
from rekindle.wire.envelope import (
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    members,
    table,
    text,
)

Json = dict[str, Any]
Prompt = str | Sequence[str | Json]
"""Text, or several texts and content blocks."""

# What an agent must say it takes before it is sent.
_BLOCKS: dict[str, Offer] = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


class Context(Struct, frozen=True):
    """What all sessions of an agent share."""

    rpc: Rpc
    agent: Greeting
    on_permission: OnPermission | None
    forget: Callable[["Session"], None]

    def check(self, offer: Offer | str, what: str, remedy: str = "") -> None:
        """Check that the agent offers something. Raises NotOffered."""
        if offer not in self.agent.offered:
            raise NotOffered(self.agent.name, what, remedy)


class Session:
    """A session that is open. `Agent.new`, `load`, `resume` and `fork` return one."""

    def __init__(self, session_id: str, cwd: str, context: Context) -> None:
        self.id = session_id
        self.cwd = cwd
        self.turn: Turn | None = None
        """The turn that is running."""
        self.is_open = True
        self._context = context
        self._rpc = context.rpc
        self._record = Record(context.agent.protocol)
        self._asking = Asking(context.rpc, self._record, context.on_permission)
        self._echo = Echo([])
        self._seam = Seam()
        self._has_begun = False
        self._is_accepted = False
        self._is_at_work = False
        """What the agent last told of its state, in version 2."""
        self._was_at_work = False
        """Whether it was so when it was prompted."""
        self._ending: Json | None = None

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.cwd!r})"

    # -- what is known of it ------------------------------------------------------------

    @property
    def history(self) -> list[Item]:
        """What has been said and done, as far as it was told here: after a load, all of it."""
        return list(as_items(self.transcript.turns))

    @property
    def transcript(self) -> Transcript:
        """The same as Rekindle folds it, turn by turn, with terminals."""
        return self._record.transcript

    @property
    def title(self) -> str | None:
        """Its title, if the agent told one."""
        return self._record.title

    @property
    def commands(self) -> tuple[Command, ...]:
        """The slash commands that there are."""
        return self._record.commands

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be set, the mode included."""
        return self._record.options

    @property
    def mode(self) -> str | None:
        """The id of the mode that it is in."""
        option = self._record.mode
        return text(option.value) if option is not None else None

    @property
    def modes(self) -> tuple[Choice, ...]:
        """The modes that it can be in."""
        option = self._record.mode
        return option.choices if option is not None else ()

    @property
    def usage(self) -> Json | None:
        """How full the context is and what that cost, as the agent last told it."""
        return self._record.usage

    # -- using it -----------------------------------------------------------------------

    def prompt(self, prompt: Prompt) -> Turn:
        """Send a prompt, and return the turn that tells what comes of it.

        Raises SessionBusy, SessionClosed, NotOffered, AgentGone.
        """
        self._check_open()
        if self.turn is not None:
            raise SessionBusy(self.id)
        blocks = self._blocks(prompt)
        params = {"sessionId": self.id, "prompt": blocks}
        line = self._rpc.ask(methods.PROMPT, params, self._take_answer)
        self._record.note(Side.CLIENT, Kind.PROMPT, line)
        self._echo = Echo(blocks)
        self._has_begun = self._is_accepted = False
        self._was_at_work, self._ending = self._is_at_work, None
        self.turn = Turn(self.transcript.turns[-1], self._cancel)
        return self.turn

    async def ask(self, prompt: Prompt) -> str:
        """Send a prompt, wait for the end of the turn, and return what the agent said.

        Raises what `prompt` raises, and AgentRefused.
        """
        turn = self.prompt(prompt)
        await turn
        return turn.text

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode. Raises NotOffered, AgentRefused, AgentGone."""
        option = self._record.mode
        if option is None:
            raise NotOffered(self._context.agent.name, "modes in this session")
        await self.set_option(option.id, mode_id)

    async def set_option(self, option_id: str, value: str | bool) -> None:  # noqa: FBT001 - JSON
        """Set an option: to the id of a choice, or on or off.

        Raises NotOffered, AgentRefused, AgentGone.
        """
        self._check_open()
        option = next((it for it in self.options if it.id == option_id), None)
        if option is None:
            raise NotOffered(self._context.agent.name, f"the option {option_id} in this session")
        method, params = self._setting(option, value)
        await self._rpc.call(
            method,
            params,
            heed=lambda answer: self._note(Side.AGENT, Kind.CONFIGURED, answer.line),
            sent=lambda line: self._note(Side.CLIENT, Kind.CONFIG, line),
        )

    async def close(self) -> None:
        """End its work, and have the agent let go of it. It can be loaded again.

        Raises NotOffered, AgentRefused, AgentGone.
        """
        self._check_open()
        self._context.check("close", methods.CLOSE)
        try:
            await self._rpc.call(methods.CLOSE, {"sessionId": self.id})
        except AgentRefused as refusal:
            if refusal.code != RESOURCE_NOT_FOUND:
                raise
        self.leave()

    def _check_open(self) -> None:
        if not self.is_open:
            raise SessionClosed(self.id)

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
        if self._record.is_made_up(option):
            return methods.SET_MODE, {"sessionId": self.id, "modeId": value}
        kind = "boolean" if isinstance(value, bool) else "id"
        params = {"sessionId": self.id, "configId": option.id, "type": kind, "value": value}
        is_v1 = self._context.agent.protocol == 1
        return methods.SET_CONFIG_OPTION, setting_to_v1(params) if is_v1 else params

    def _note(self, side: Side, kind: Kind, line: bytes) -> None:
        self._record.note(side, kind, line)

    def _cancel(self) -> None:
        self._rpc.notify(methods.CANCEL, {"sessionId": self.id})
        self._asking.cancel()

    # -- for the agent ------------------------------------------------------------------

    def begin(self, answer: Answer) -> None:
        """Take the answer that opens the session."""
        self._record.begin(answer.line, answer.result)

    def take_update(self, line: bytes) -> None:
        """Take an update."""
        update = table(table(table(members(line)).get("params")).get("update"))
        kind = text(update.get("sessionUpdate")) or ""
        turn = self.turn
        if kind == methods.STATE_UPDATE:
            self._is_at_work = update.get("state") != "idle"
        if turn is None:
            self._note(Side.AGENT, Kind.UPDATE, line)
            return
        turn.tell_raw(update)
        if kind in methods.USER_MESSAGE_KINDS and self._echo.takes(update.get("content")):
            self._note(Side.AGENT, Kind.ECHO, line)
            return
        watch = Watch(self.transcript, update)
        event = watch.event(self._record.note(Side.AGENT, Kind.UPDATE, line))
        event = self._seam.mend(event) if event is not None else None
        if event is not None:
            turn.tell(event)
        if kind == methods.STATE_UPDATE:
            self._take_state(update)

    def take_question(self, request_id: Raw, line: bytes) -> None:
        """Take a question for permission."""
        self._asking.take(request_id, line, self.turn)

    def withdraw(self, request_id: Raw) -> None:
        """Let a question go, if it is one of this session's."""
        self._asking.withdraw(request_id)

    def leave(self, error: ClientError | None = None) -> None:
        """Take no more part in it: it was closed, deleted or opened anew, or the agent is gone."""
        if self.is_open:
            self.is_open = False
            self._context.forget(self)
            self._asking.cancel()
            self._end_turn(None if error else "cancelled", error)

    # -- the end of a turn --------------------------------------------------------------

    def _take_answer(self, answer: Answer) -> None:
        if answer.line:
            self._note(Side.AGENT, Kind.ANSWER, answer.line)
        refusal = answer.error
        if isinstance(refusal, AgentRefused) and refusal.code == REQUEST_CANCELLED:
            is_ours = self.turn is not None and self.turn.is_cancelled
            self._end_turn("cancelled" if is_ours else None, None if is_ours else refusal)
        elif refusal is not None:
            self._end_turn(None, refusal)
        elif self._context.agent.protocol == 1:
            self._end_turn(text(answer.result.get("stopReason")) or "end_turn", None)
        else:
            # From version 2 on this says that the prompt was taken. A state tells the end.
            self._is_accepted = True
            self._end_if_idle()

    def _take_state(self, state: Json) -> None:
        if state.get("state") != "idle":
            self._has_begun, self._ending = True, None
        elif self._has_begun or self._is_ours(state):
            self._ending = state
            self._end_if_idle()

    def _is_ours(self, state: Json) -> bool:
        """Tell whether a turn ended that was not seen to begin.

        Else it is the end of something before it, which has crossed with the prompt.
        """
        if self._was_at_work:
            # One that takes the prompt into what it is doing has nothing more to begin.
            return self._is_accepted
        return "stopReason" in state

    def _end_if_idle(self) -> None:
        if self._ending is None or not self._is_accepted:
            return
        reason = text(self._ending.get("stopReason")) or "end_turn"
        error = table(self._ending.get("error"))
        failure = None
        if reason == "error":
            words = text(error.get("message")) or "no reason given"
            code = error.get("code")
            number = code if isinstance(code, int) else INTERNAL_ERROR
            failure = AgentRefused(methods.PROMPT, number, words, error.get("data"))
        self._end_turn(reason, failure)

    def _end_turn(self, stop_reason: str | None, error: ClientError | None) -> None:
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.end(stop_reason, error)


def _block(part: object) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise UsageError(f"{part!r} is neither text nor a content block")
    return dict(cast("Mapping[str, Any]", part))
