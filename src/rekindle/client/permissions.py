"""The agent asks for permission: the question, and who answers it."""

from collections.abc import Awaitable, Callable
from typing import Any

from rekindle.client.models import Choice, ToolCall
from rekindle.errors import UsageError

Json = dict[str, Any]


class Question:
    """A question for permission. It is answered once; later answers count for nothing."""

    def __init__(
        self,
        title: str,
        call: ToolCall | None,
        choices: tuple[Choice, ...],
        params: Json,
        answer: Callable[[str | None], None],
    ) -> None:
        self.title = title
        self.call = call
        """The tool call that it is about."""
        self.choices = choices
        self.params = params
        """All that the agent said, in its own version of the protocol."""
        self.is_answered = False
        self._answer = answer

    def __repr__(self) -> str:
        return f"Question({self.title!r}, {[choice.name for choice in self.choices]})"

    def choose(self, choice: Choice | str) -> None:
        """Answer with one of the choices, or its id. Raises UsageError if it is none of them."""
        own_id = choice if isinstance(choice, str) else choice.id
        known = [it.id for it in self.choices]
        if own_id not in known:
            raise UsageError(f"no choice {own_id!r}: there are {', '.join(known)}")
        self._settle(own_id)

    @property
    def can_be_allowed(self) -> bool:
        """Whether one of the choices says yes."""
        return any((choice.kind or "").startswith("allow") for choice in self.choices)

    def allow(self, *, always: bool = False) -> None:
        """Allow it, this time or always; the other way if the agent has only that.

        If no choice says yes, it is rejected.
        """
        first, second = ("allow_always", "allow_once") if always else ("allow_once", "allow_always")
        choice = self._of_kind(first) or self._of_kind(second)
        if choice is None:
            self.reject()
        else:
            self._settle(choice.id)

    def reject(self) -> None:
        """Do not allow it; by no more than is needed for that."""
        choice = self._of_kind("reject_once") or self._of_kind("reject_always")
        self._settle(choice.id if choice is not None else None)

    def cancel(self) -> None:
        """Answer that nobody will: the turn was cancelled."""
        self._settle(None)

    def _of_kind(self, kind: str) -> Choice | None:
        return next((choice for choice in self.choices if choice.kind == kind), None)

    def _settle(self, choice_id: str | None) -> None:
        if not self.is_answered:
            self.is_answered = True
            self._answer(choice_id)


OnPermission = Callable[[Question], Awaitable[None] | None]
"""Answers a question. What it leaves open is rejected."""
