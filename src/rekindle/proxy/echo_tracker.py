"""Recognise the updates in which an agent echoes a prompt."""

from typing import Any

from msgspec import Struct

from rekindle.acp import update_kinds
from rekindle.acp.prompt_echo import PromptEcho
from rekindle.jsonvalue import Json, as_object, as_str, decode_object

_MAX_ECHOES = 4


class _ExpectedEcho(Struct):
    echo: PromptEcho
    user_blocks: list[Any] | None = None
    """The user's own part of a prompt with a handover: the client must not see the rest."""


class EchoTracker(Struct):
    """Recognises the prompt when the agent echoes it.

    | event             | version 1 agent              | version 2 agent                        |
    |-------------------|------------------------------|----------------------------------------|
    | prompt            | expect an echo of it         | expect one more, and a message id      |
    | add_preface       | expect an echo with preface  | the same                               |
    | response          | expect no echo any more      | accept the echo under its message id   |
    """

    expected: list[_ExpectedEcho] = []
    """The prompts, and each prompt with the handover that was sent before it."""
    prompt_id: str | None = None
    """The message id that a version 2 agent gave to the last prompt."""
    awaits_prompt_id: bool = False
    user_blocks: list[Any] | None = None
    """The user's own part of the last echo, if that holds a handover."""

    def prompt(self, blocks: list[Any], *, is_v2: bool) -> None:
        """Expect the echo of a prompt. A version 2 agent may have several prompts open."""
        waiting = self.expected[-_MAX_ECHOES:] if is_v2 else []
        self.expected = [*waiting, _ExpectedEcho(PromptEcho(blocks))]
        self.prompt_id, self.awaits_prompt_id = None, is_v2

    def add_preface(self, preface: dict[str, Any], blocks: list[Any]) -> None:
        """Expect an echo that begins with the handover too, and hide it from the client."""
        # An agent may also echo the user's own part alone.
        self.expected[-1].user_blocks = blocks
        self.expected.append(_ExpectedEcho(PromptEcho([preface, *blocks]), blocks))

    def response(self, line: bytes, *, is_v2: bool) -> None:
        """Note the response to a prompt."""
        if not is_v2:
            self.expected = []
            return
        # A version 2 agent answers at once, and its echo may follow.
        result = as_object((decode_object(line) or {}).get("result"))
        self.prompt_id = as_str(result.get("messageId"))
        self.awaits_prompt_id = False

    def matches(self, kind: str, update: Json, *, is_v2: bool) -> bool:
        """Return whether a user message update echoes a prompt; note which."""
        content = update.get("content")
        matching = next((it for it in self.expected if it.echo.consume(content)), None)
        last = self.expected[-1:]
        self.user_blocks = next((it.user_blocks for it in [matching, *last] if it), None)
        if matching is not None:
            return True
        if not is_v2:
            return False
        message_id = as_str(update.get("messageId"))
        is_first = self.awaits_prompt_id and not update_kinds.kind_of(kind).is_chunk
        return is_first or (message_id is not None and message_id == self.prompt_id)
