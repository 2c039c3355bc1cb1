"""Recognising a prompt that the agent says back, so that it is recorded once.

Some agents send the user's own prompt as `user_message(_chunk)` updates while they work
on it. They may cut it in pieces and join its blocks with white space of their own.
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

    def consume(self, content: object) -> bool:
        """Tell whether this content of a user message is an echo, and use that part up."""
        blocks = as_array(content) or ([content] if content else [])
        rest = self._text
        for block in blocks:
            said = as_str(as_object(block).get("text"))
            if said is None:
                if encode(block) not in self._others:
                    return False
            elif rest.startswith(_squeeze(said)):
                rest = rest[len(_squeeze(said)) :]
            else:
                return False
        self._text = rest
        return True


def _squeeze(words: str) -> str:
    return "".join(words.split())
