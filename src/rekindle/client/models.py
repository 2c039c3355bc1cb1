"""The values that callers of the client see: sessions, messages, tool calls, plans, options.

Their form is that of version 2 of the protocol, whichever version the agent uses. All are frozen
except `PermissionRequest`, which is answered once.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from copy import copy
from datetime import datetime
from typing import Any

from msgspec import Struct

from rekindle.acp.translate.config import config_id
from rekindle.acp.translate.tool_calls import call_to_v2
from rekindle.errors import UsageError
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.text.times import read_iso
from rekindle.transcript import model
from rekindle.transcript.model import Role
from rekindle.transcript.subagents import SessionMessageItem, SubagentItem


class SessionInfo(Struct, frozen=True, kw_only=True):
    """An entry of the agent's session list."""

    id: str
    cwd: str
    title: str | None = None
    updated_at: datetime | None = None
    directories: tuple[str, ...] = ()
    is_archived: bool = False
    meta: Json = {}


class AuthMethod(Struct, frozen=True, kw_only=True):
    """A way to log in. If its `type` is `agent`, `Agent.authenticate` performs it."""

    id: str
    name: str
    type: str
    description: str | None = None


class SlashCommand(Struct, frozen=True, kw_only=True):
    """A slash command. The `hint` describes its input."""

    name: str
    description: str
    hint: str | None = None


class Choice(Struct, frozen=True, kw_only=True):
    """A value of a config option, or an answer to a permission request.

    Only answers have a `kind`: `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    """

    id: str
    name: str
    description: str | None = None
    kind: str | None = None


class ConfigOption(Struct, frozen=True, kw_only=True):
    """An option of a session. Its `type` is `select`, `boolean`, or an unknown one."""

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
    """A plan at one moment. A session may have several, each with an id."""

    id: str | None
    entries: tuple[PlanEntry, ...]


class Message(Struct, frozen=True, kw_only=True):
    """A message of the user or the agent, or a thought of the agent."""

    role: Role
    blocks: tuple[Json, ...]
    id: str | None = None
    meta: Json = {}

    @property
    def text(self) -> str:
        """The text of all blocks that have some."""
        return "".join(as_str(block.get("text")) or "" for block in self.blocks)


class OtherUpdate(Struct, frozen=True):
    """An update that has no class of its own, as the agent sent it or as version 2 replays it."""

    update: Json


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call at one moment. `fields` has everything that the agent sent about it."""

    id: str
    fields: Json
    outcome: str | None = None
    """The answer to the permission request, if the agent sent one."""

    @property
    def title(self) -> str:
        """A description for people."""
        return as_str(self.fields.get("title")) or ""

    @property
    def kind(self) -> str:
        """The kind of tool: `read`, `edit`, `execute` and so on."""
        return as_str(self.fields.get("kind")) or "other"

    @property
    def status(self) -> str:
        """One of `pending`, `in_progress`, `completed`, `failed`, `cancelled`."""
        return as_str(self.fields.get("status")) or "pending"

    @property
    def content(self) -> list[Json]:
        """The results: content blocks, diffs with their patch, terminals."""
        return as_array(call_to_v2({"content": self.fields.get("content")}).get("content"))

    @property
    def locations(self) -> list[Json]:
        """The files, and lines in them, that the call is about."""
        return as_array(call_to_v2({"locations": self.fields.get("locations")}).get("locations"))

    @property
    def raw_input(self) -> Any:  # noqa: ANN401 - any JSON value
        """The arguments of the tool."""
        return self.fields.get("rawInput")

    @property
    def raw_output(self) -> Any:  # noqa: ANN401 - any JSON value
        """The result of the tool."""
        return self.fields.get("rawOutput")


class SessionMessage(Struct, frozen=True, kw_only=True):
    """A message between the session and a sub-agent, or between two sub-agents."""

    id: str
    sender: str | None
    """The session id of the sender."""
    recipient: str | None
    blocks: tuple[Json, ...]

    @property
    def text(self) -> str:
        """The text of all blocks that have some."""
        return "".join(as_str(block.get("text")) or "" for block in self.blocks)


class Subagent(Struct, frozen=True, kw_only=True):
    """A sub-agent at one moment."""

    id: str
    """The id of its session."""
    title: str
    description: str
    state: str | None
    """One of `running`, `requires_action`, `idle`, `unknown`; None if none was reported."""
    stop_reason: str | None
    """Why its work has ended."""
    can_cancel: bool
    """Whether `ClientSession.cancel_subagent` may cancel its work."""
    history: tuple["Item", ...]
    """Its conversation so far. It may have sub-agents, too."""


Item = Message | ToolCall | Plan | Subagent | SessionMessage | OtherUpdate
"""The parts of a conversation."""


class PermissionRequest:
    """A permission request of the agent. The first answer counts; later ones are ignored."""

    def __init__(
        self,
        title: str,
        tool_call: ToolCall | None,
        choices: tuple[Choice, ...],
        params: Json,
        answer: Callable[[str | None], None],
    ) -> None:
        self.title = title
        self.tool_call = tool_call
        """The tool call that needs the permission, if the request names one."""
        self.choices = choices
        self.params = params
        """The parameters of the request, in the agent's version of the protocol."""
        self.is_answered = False
        self._answer = answer

    def __repr__(self) -> str:
        return f"PermissionRequest({self.title!r}, {[choice.name for choice in self.choices]})"

    def choose(self, choice: Choice | str) -> None:
        """Answer with one of the choices, or its id. Raises UsageError for any other."""
        choice_id = choice if isinstance(choice, str) else choice.id
        known = [it.id for it in self.choices]
        if choice_id not in known:
            raise UsageError(f"no choice {choice_id!r}; the choices are {', '.join(known)}")
        self._settle(choice_id)

    @property
    def can_be_allowed(self) -> bool:
        """Whether one of the choices gives the permission."""
        return any((choice.kind or "").startswith("allow") for choice in self.choices)

    def allow(self, *, always: bool = False) -> None:
        """Give the permission, once or always.

        If the agent offers only the other of the two, that one is chosen. If no choice gives the
        permission, the request is rejected.
        """
        first, second = ("allow_always", "allow_once") if always else ("allow_once", "allow_always")
        choice = self._of_kind(first) or self._of_kind(second)
        if choice is None:
            self.reject()
        else:
            self._settle(choice.id)

    def reject(self) -> None:
        """Reject the request, once rather than always. Without such a choice, cancel it."""
        choice = self._of_kind("reject_once") or self._of_kind("reject_always")
        self._settle(choice.id if choice is not None else None)

    def cancel(self) -> None:
        """Answer that the turn was cancelled."""
        self._settle(None)

    def _of_kind(self, kind: str) -> Choice | None:
        return next((choice for choice in self.choices if choice.kind == kind), None)

    def _settle(self, choice_id: str | None) -> None:
        if not self.is_answered:
            self.is_answered = True
            self._answer(choice_id)


OnPermission = Callable[[PermissionRequest], Awaitable[None] | None]
"""A function that answers permission requests. A request that it leaves open is rejected."""


# -- from the transcript and from JSON ----------------------------------------------------------


def as_items(turns: Iterable[model.TranscriptTurn]) -> Iterator[Item]:
    """Yield snapshots of the items of turns.

    An item of any other class is yielded as the updates that show it to a version 2 client.
    """
    for turn, item in ((it, item) for it in turns for item in it.items):
        match item:
            case model.TranscriptMessage():
                blocks = tuple(item.blocks)
                yield Message(role=item.role, blocks=blocks, id=item.id, meta=dict(item.meta))
            case model.ToolCallItem():
                yield as_tool_call(item)
            case model.PlanItem():
                yield as_plan(item)
            case SubagentItem():
                yield as_subagent(item)
            case SessionMessageItem():
                yield as_session_message(item)
            case model.OtherItem():
                yield OtherUpdate(item.update)
            case _:
                context = model.ReplayContext(terminals={}, turn=turn)
                yield from map(OtherUpdate, item.replay_v2(context))


def as_tool_call(call: model.ToolCallItem) -> ToolCall:
    """Return a snapshot of a tool call."""
    return ToolCall(id=call.id, fields=_copy_fields(call.fields), outcome=call.outcome)


def as_subagent(item: SubagentItem) -> Subagent:
    """Return a snapshot of a sub-agent."""
    capabilities = as_object(item.fields.get("capabilities"))
    return Subagent(
        id=item.id,
        title=item.title,
        description=item.description,
        state=as_str(item.state.get("state")),
        stop_reason=as_str(item.state.get("stopReason")),
        can_cancel=capabilities.get("cancel") is not None,
        history=tuple(as_items(item.child.turns)) if item.child is not None else (),
    )


def as_session_message(item: SessionMessageItem) -> SessionMessage:
    """Return a snapshot of a message between sessions."""
    return SessionMessage(
        id=item.id,
        sender=as_str(item.fields.get("senderSessionId")),
        recipient=as_str(item.fields.get("recipientSessionId")),
        blocks=tuple(item.blocks),
    )


def as_plan(plan: model.PlanItem) -> Plan:
    """Return a snapshot of a plan."""
    return Plan(id=plan.id, entries=tuple(_plan_entry(as_object(entry)) for entry in plan.entries))


def _plan_entry(entry: Json) -> PlanEntry:
    return PlanEntry(
        content=as_str(entry.get("content")) or "",
        status=as_str(entry.get("status")) or "pending",
        priority=as_str(entry.get("priority")) or "medium",
    )


def as_session_info(entry: Json) -> SessionInfo | None:
    """Return an entry of a session list, or None if it lacks the session's id or folder."""
    session_id, cwd = as_str(entry.get("sessionId")), as_str(entry.get("cwd"))
    if session_id is None or cwd is None:
        return None
    directories = (as_str(path) for path in as_array(entry.get("additionalDirectories")))
    return SessionInfo(
        id=session_id,
        cwd=cwd,
        title=as_str(entry.get("title")),
        updated_at=read_iso(as_str(entry.get("updatedAt"))),
        directories=tuple(path for path in directories if path is not None),
        is_archived=entry.get("archived") is True,
        meta=as_object(entry.get("_meta")),
    )


def as_auth_method(method: Json) -> AuthMethod:
    """Return a way to log in from its JSON in version 2."""
    method_id = as_str(method.get("methodId")) or ""
    return AuthMethod(
        id=method_id,
        name=as_str(method.get("name")) or method_id,
        type=as_str(method.get("type")) or "agent",
        description=as_str(method.get("description")),
    )


def as_command(command: Json) -> SlashCommand:
    """Return a slash command from its JSON in version 2."""
    return SlashCommand(
        name=as_str(command.get("name")) or "",
        description=as_str(command.get("description")) or "",
        hint=as_str(as_object(command.get("input")).get("hint")),
    )


def as_option(option: Json) -> ConfigOption:
    """Return a config option from its JSON in version 2. Groups of choices are flattened."""
    value, option_id = option.get("currentValue"), config_id(option) or ""
    parts = [as_object(part) for part in as_array(option.get("options"))]
    flat = [
        as_object(choice) for part in parts for choice in as_array(part.get("options")) or [part]
    ]
    return ConfigOption(
        id=option_id,
        name=as_str(option.get("name")) or option_id,
        type=as_str(option.get("type")) or "select",
        value=value if isinstance(value, bool) else as_str(value),
        category=as_str(option.get("category")),
        description=as_str(option.get("description")),
        choices=tuple(_config_choice(choice) for choice in flat),
    )


def _config_choice(choice: Json) -> Choice:
    choice_id = as_str(choice.get("value")) or ""
    name = as_str(choice.get("name")) or choice_id
    return Choice(id=choice_id, name=name, description=as_str(choice.get("description")))


def as_choices(options: Iterable[object]) -> tuple[Choice, ...]:
    """Return the answers to a permission request. Options without an id are left out."""
    return tuple(
        Choice(id=choice_id, name=as_str(it.get("name")) or choice_id, kind=as_str(it.get("kind")))
        for it in map(as_object, options)
        if (choice_id := as_str(it.get("optionId"))) is not None
    )


def _copy_fields(fields: Json) -> Json:
    """Copy the fields of a tool call. Later updates extend some of them in place."""
    extended = {name: copy(fields[name]) for name in ("content", "_meta") if name in fields}
    return {**fields, **extended}
