"""What a model is shown and what it says, whichever dialect it came in."""

from typing import Any, Literal

from msgspec import Struct

Json = dict[str, Any]
Role = Literal["user", "model", "tool"]


class Said(Struct, frozen=True):
    """One message: of the user, of the model, or what a tool brought."""

    role: Role
    text: str


class Tool(Struct, frozen=True):
    """A tool that the agent offers, with the JSON schema of its arguments."""

    name: str
    schema: Json


class Shown(Struct, frozen=True, kw_only=True):
    """All that one request shows to the model."""

    said: tuple[Said, ...]
    tools: tuple[Tool, ...]
    is_streamed: bool
    model: str


class Words(Struct, frozen=True):
    """The model answers in words; if it `hangs`, half of them are all that ever comes."""

    text: str
    hangs: bool = False
    thought: str = ""
    """What it thinks before."""


class Call(Struct, frozen=True):
    """The model wants a tool to be called."""

    name: str
    arguments: Json
    thought: str = ""


Reply = Words | Call
