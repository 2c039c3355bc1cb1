"""What a client gets to see of sessions, tool calls, plans and options. Frozen, in one form.

The form is that of version 2 of the protocol, whichever of them the agent speaks.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from datetime import datetime
from typing import Any

from msgspec import Struct

from rekindle.acp.translate.config import config_id
from rekindle.acp.translate.tool_calls import call_to_v2
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.times import read_iso
from rekindle.transcript import model
from rekindle.transcript.model import Role

Json = dict[str, Any]


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session as a list has it."""

    id: str
    cwd: str
    title: str | None = None
    updated_at: datetime | None = None
    directories: tuple[str, ...] = ()
    meta: Json = {}


class AuthMethod(Struct, frozen=True, kw_only=True):
    """A way to log in: `type` is `agent` if `Agent.authenticate` does it."""

    id: str
    name: str
    type: str
    description: str | None = None


class Command(Struct, frozen=True, kw_only=True):
    """A slash command; `hint` says what may follow it."""

    name: str
    description: str
    hint: str | None = None


class Choice(Struct, frozen=True, kw_only=True):
    """One of several things to choose from; `kind` is that of a permission."""

    id: str
    name: str
    description: str | None = None
    kind: str | None = None


class Option(Struct, frozen=True, kw_only=True):
    """Something that can be set for a session. `type` is `select`, `boolean`, or one to come."""

    id: str
    name: str
    type: str
    value: str | bool | None
    category: str | None = None
    description: str | None = None
    choices: tuple[Choice, ...] = ()


class PlanEntry(Struct, frozen=True, kw_only=True):
    """A step of a plan."""

    content: str
    status: str
    priority: str


class Plan(Struct, frozen=True, kw_only=True):
    """A plan as it was at that moment. A session may have several, each with an id."""

    id: str | None
    entries: tuple[PlanEntry, ...]


class Message(Struct, frozen=True, kw_only=True):
    """What was said in one go, by the user or the agent; or thought."""

    role: Role
    blocks: tuple[Json, ...]
    id: str | None = None
    meta: Json = {}

    @property
    def text(self) -> str:
        """The words, without what is not text."""
        return "".join(as_str(block.get("text")) or "" for block in self.blocks)


class Other(Struct, frozen=True):
    """An update of a kind that has no value of its own, as the agent sent it."""

    update: Json


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call as it was at that moment; `fields` has all that the agent told of it."""

    id: str
    fields: Json
    outcome: str | None = None
    """What was answered when the agent asked for permission."""

    @property
    def title(self) -> str:
        """What it is about, for people."""
        return as_str(self.fields.get("title")) or ""

    @property
    def kind(self) -> str:
        """What it does: `read`, `edit`, `execute` and so on."""
        return as_str(self.fields.get("kind")) or "other"

    @property
    def status(self) -> str:
        """How far it is: `pending`, `in_progress`, `completed`, `failed`, `cancelled`."""
        return as_str(self.fields.get("status")) or "pending"

    @property
    def content(self) -> list[Json]:
        """What it has brought: content blocks, diffs with their patch, terminals."""
        return as_array(call_to_v2({"content": self.fields.get("content")}).get("content"))

    @property
    def locations(self) -> list[Json]:
        """The files that it is about, and the lines in them."""
        return as_array(call_to_v2({"locations": self.fields.get("locations")}).get("locations"))

    @property
    def raw_input(self) -> Any:  # noqa: ANN401 - whatever the tool takes
        """What the tool was given."""
        return self.fields.get("rawInput")

    @property
    def raw_output(self) -> Any:  # noqa: ANN401 - whatever the tool gives
        """What the tool has given back."""
        return self.fields.get("rawOutput")


Item = Message | ToolCall | Plan | Other
"""What a conversation is made of."""


def as_items(turns: Iterable[model.TranscriptTurn]) -> Iterator[Item]:
    """Yield what turns are made of, as it is now."""
    for item in (item for turn in turns for item in turn.items):
        match item:
            case model.TranscriptMessage():
                blocks = tuple(item.blocks)
                yield Message(role=item.role, blocks=blocks, id=item.id, meta=dict(item.meta))
            case model.ToolCallItem():
                yield as_tool_call(item)
            case model.PlanItem():
                yield as_plan(item)
            case model.OtherItem():
                yield Other(item.update)
            case _:
                pass  # only a store has gaps and handovers


def as_tool_call(call: model.ToolCallItem) -> ToolCall:
    """Return a tool call as it is now."""
    return ToolCall(id=call.id, fields=_as_it_is_now(call.fields), outcome=call.outcome)


def as_plan(plan: model.PlanItem) -> Plan:
    """Return a plan as it is now."""
    return Plan(id=plan.id, entries=tuple(_plan_entry(as_object(entry)) for entry in plan.entries))


def _plan_entry(entry: Json) -> PlanEntry:
    return PlanEntry(
        content=as_str(entry.get("content")) or "",
        status=as_str(entry.get("status")) or "pending",
        priority=as_str(entry.get("priority")) or "medium",
    )


def as_session_info(told: Json) -> SessionInfo | None:
    """Return an entry of a list of sessions; None if it does not say which session it is."""
    session_id, cwd = as_str(told.get("sessionId")), as_str(told.get("cwd"))
    if session_id is None or cwd is None:
        return None
    directories = (as_str(it) for it in as_array(told.get("additionalDirectories")))
    return SessionInfo(
        id=session_id,
        cwd=cwd,
        title=as_str(told.get("title")),
        updated_at=read_iso(as_str(told.get("updatedAt"))),
        directories=tuple(it for it in directories if it is not None),
        meta=as_object(told.get("_meta")),
    )


def as_auth_method(told: Json) -> AuthMethod:
    """Return a way to log in, as version 2 tells it."""
    own_id = as_str(told.get("methodId")) or ""
    return AuthMethod(
        id=own_id,
        name=as_str(told.get("name")) or own_id,
        type=as_str(told.get("type")) or "agent",
        description=as_str(told.get("description")),
    )


def as_command(told: Json) -> Command:
    """Return a slash command."""
    return Command(
        name=as_str(told.get("name")) or "",
        description=as_str(told.get("description")) or "",
        hint=as_str(as_object(told.get("input")).get("hint")),
    )


def as_option(told: Json) -> Option:
    """Return an option, as version 2 tells it."""
    value, own_id = told.get("currentValue"), config_id(told) or ""
    # Choices may stand in groups.
    parts = [as_object(part) for part in as_array(told.get("options"))]
    flat = [as_object(it) for part in parts for it in as_array(part.get("options")) or [part]]
    return Option(
        id=own_id,
        name=as_str(told.get("name")) or own_id,
        type=as_str(told.get("type")) or "select",
        value=value if isinstance(value, bool) else as_str(value),
        category=as_str(told.get("category")),
        description=as_str(told.get("description")),
        choices=tuple(_choice(it) for it in flat),
    )


def _choice(told: Json) -> Choice:
    own_id = as_str(told.get("value")) or ""
    name = as_str(told.get("name")) or own_id
    return Choice(id=own_id, name=name, description=as_str(told.get("description")))


def as_choices(options: Iterable[object]) -> tuple[Choice, ...]:
    """Return the answers to a question for permission that can be given."""
    return tuple(
        Choice(id=own_id, name=as_str(told.get("name")) or own_id, kind=as_str(told.get("kind")))
        for told in map(as_object, options)
        if (own_id := as_str(told.get("optionId"))) is not None
    )


def _as_it_is_now(fields: dict[str, Any]) -> dict[str, Any]:
    """Copy what grows in place when more is told."""
    grown = {name: copy(fields[name]) for name in ("content", "_meta") if name in fields}
    return {**fields, **grown}
