"""Recognise a prompt that the agent sends back, so that it is recorded once.

Some agents send the user's prompt as `user_message(_chunk)` updates while they work on it. They
may split it, and join its blocks with other white space.
"""

from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str, encode


class PromptEcho:
    """The part of a prompt that may still be echoed."""

    def __init__(self, blocks: list[Any]) -> None:
        texts = [as_str(as_object(block).get("text")) for block in blocks]
        self._text = "".join(_squeeze(part) for part in texts if part)
        self._others = {
            encode(block) for block, part in zip(blocks, texts, strict=True) if part is None
        }

    def matches(self, content: object) -> bool:
        """Return whether the content of a user message is an echo."""
        return self._rest_after(content) is not None

    def consume(self, content: object) -> bool:
        """Return whether the content of a user message is an echo; if so, consume that part."""
        rest = self._rest_after(content)
        if rest is None:
            return False
        self._text = rest
        return True

    def _rest_after(self, content: object) -> str | None:
        """Return the text that may follow an echo; None if the content is no echo."""
        blocks = as_array(content) or ([content] if content else [])
        rest = self._text
        for block in blocks:
            text = as_str(as_object(block).get("text"))
            if text is None:
                if encode(block) not in self._others:
                    return None
            elif rest.startswith(_squeeze(text)):
                rest = rest[len(_squeeze(text)) :]
            else:
                return None
        return rest


def _squeeze(text: str) -> str:
    return "".join(text.split())
