"""Questions for permission that are open in a session, and having them answered."""

import asyncio
from inspect import isawaitable
from typing import Any

from msgspec import Raw, Struct

from rekindle.acp.jsonrpc import REQUEST_CANCELLED, request_key
from rekindle.acp.translate.permissions import CANCELLED, permission_to_v2
from rekindle.client.events import Asked, Called, latest_change
from rekindle.client.models import as_choices
from rekindle.client.permissions import OnPermission, Question
from rekindle.client.rpc import Rpc
from rekindle.client.session_record import Record
from rekindle.client.turn import Course
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import Kind, Side

Json = dict[str, Any]


class _Open(Struct):
    request_id: Raw
    question: Question
    task: "asyncio.Future[None] | None" = None


class Asking:
    """The open questions of one session. Without `on_permission`, the turn's reader answers."""

    def __init__(self, rpc: Rpc, record: Record, on_permission: OnPermission | None) -> None:
        self._rpc = rpc
        self._record = record
        self._on_permission = on_permission
        self._open: dict[int, _Open] = {}
        """By seq: nothing keeps an agent from giving two questions the same id."""

    def take(self, request_id: Raw, line: bytes, course: Course | None) -> None:
        """Take a question of the agent's, and have it answered."""
        seq = self._record.note(Side.AGENT, Kind.PERMISSION, line)
        question = self._question(seq, line)
        self._open[seq] = _Open(request_id, question)
        if course is not None and course.is_cancelled:
            # It has crossed with that. Nobody who was stopped may still be allowed something.
            question.cancel()
            return
        if self._on_permission is not None:
            self._consult(self._open[seq], self._on_permission, course)
        elif course is None:
            # Nobody is there to be asked.
            question.reject()
        if course is not None:
            course.tell(Asked(question, is_yours=self._on_permission is None))

    def cancel(self) -> None:
        """Answer all that is open: the turn was cancelled."""
        for asked in list(self._open.values()):
            asked.question.cancel()

    def withdraw(self, request_id: Raw) -> None:
        """Let a question go which the agent does not want answered any more."""
        key = request_key(request_id)
        for seq, asked in list(self._open.items()):
            if request_key(asked.request_id) == key:
                del self._open[seq]
                asked.question.is_answered = True
                line = self._answer_withdrawn(asked.request_id)
                self._record.note(Side.CLIENT, Kind.OUTCOME, line)
                _stop(asked)

    def _answer_withdrawn(self, request_id: Raw) -> bytes:
        # From version 2 on there is an outcome for it.
        if self._record.protocol > 1:
            return self._rpc.answer(request_id, CANCELLED)
        return self._rpc.refuse(request_id, REQUEST_CANCELLED, "withdrawn")

    def _question(self, seq: int, line: bytes) -> Question:
        params = as_object(as_object(decode_object(line)).get("params"))
        told = permission_to_v2(params) if "toolCall" in params else params
        changed = latest_change(self._record.transcript, seq)
        return Question(
            title=as_str(told.get("title")) or "",
            call=changed.call if isinstance(changed, Called) else None,
            choices=as_choices(as_array(told.get("options"))),
            params=params,
            answer=lambda choice_id: self._answer(seq, choice_id),
        )

    def _answer(self, seq: int, choice_id: str | None) -> None:
        asked = self._open.pop(seq)
        outcome: Json = {"outcome": "cancelled"}
        if choice_id is not None:
            outcome = {"outcome": "selected", "optionId": choice_id}
        line = self._rpc.answer(asked.request_id, {"outcome": outcome})
        self._record.note(Side.CLIENT, Kind.OUTCOME, line)
        _stop(asked)

    def _consult(self, asked: _Open, on_permission: OnPermission, course: Course | None) -> None:
        try:
            answering = on_permission(asked.question)
        except Exception as error:  # noqa: BLE001 - whoever prompted gets to see it
            _fail(asked.question, error, course)
            return
        if isawaitable(answering):
            asked.task = asyncio.ensure_future(answering)
            asked.task.add_done_callback(lambda task: _conclude(asked.question, task, course))
        else:
            asked.question.reject()


def _conclude(question: Question, task: "asyncio.Future[None]", course: Course | None) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _fail(question, error, course)
    else:
        question.reject()


def _fail(question: Question, error: BaseException, course: Course | None) -> None:
    # Before it is answered: that may be the end of the turn.
    if course is not None:
        course.blame(error)
    question.reject()


def _stop(asked: _Open) -> None:
    """Let nobody think about a question any more which is answered."""
    if asked.task is not None and asked.task is not asyncio.current_task():
        asked.task.cancel()
