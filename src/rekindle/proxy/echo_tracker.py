"""Recognise the updates in which an agent echoes a prompt."""

from typing import Any

from msgspec import Struct

from rekindle.acp import update_kinds
from rekindle.acp.prompt_echo import PromptEcho
from rekindle.jsonvalue import Json, as_object, as_str, decode_object

_MAX_ECHOES = 4


class EchoTracker(Struct):
    """Recognises the prompt when the agent echoes it.

    | event             | version 1 agent              | version 2 agent                        |
    |-------------------|------------------------------|----------------------------------------|
    | prompt            | expect an echo of it         | expect one more, and a message id      |
    | add_preface       | expect an echo with preface  | the same                               |
    | response          | expect no echo any more      | accept the echo under its message id   |
    """

    expected: list[PromptEcho] = []
    """The prompt, and the prompt with the handover that was sent before it."""
    prompt_id: str | None = None
    """The message id that a version 2 agent gave to the last prompt."""
    awaits_prompt_id: bool = False
    is_hidden: bool = False
    """Whether the client must not see the echo, because it holds a handover."""

    def prompt(self, blocks: list[Any], *, is_v2: bool) -> None:
        """Expect the echo of a prompt. A version 2 agent may have several prompts open."""
        waiting = self.expected[-_MAX_ECHOES:] if is_v2 else []
        self.expected = [*waiting, PromptEcho(blocks)]
        self.is_hidden = False
        self.prompt_id, self.awaits_prompt_id = None, is_v2

    def add_preface(self, preface: dict[str, Any], blocks: list[Any]) -> None:
        """Expect an echo that begins with the handover too, and hide it from the client."""
        self.expected.append(PromptEcho([preface, *blocks]))
        self.is_hidden = True

    def response(self, line: bytes, *, is_v2: bool) -> None:
        """Note the response to a prompt."""
        if not is_v2:
            self.expected, self.is_hidden = [], False
            return
        # A version 2 agent answers at once, and its echo may follow.
        result = as_object((decode_object(line) or {}).get("result"))
        self.prompt_id = as_str(result.get("messageId"))
        self.awaits_prompt_id = False

    def matches(self, kind: str, update: Json, *, is_v2: bool) -> bool:
        """Return whether a user message update echoes the prompt."""
        if any(echo.consume(update.get("content")) for echo in self.expected):
            return True
        if not is_v2:
            return False
        message_id = as_str(update.get("messageId"))
        is_first = self.awaits_prompt_id and not update_kinds.kind_of(kind).is_chunk
        return is_first or (message_id is not None and message_id == self.prompt_id)
