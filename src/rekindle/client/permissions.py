"""The open permission requests of a session, and how they are answered."""

import asyncio
from inspect import isawaitable

from msgspec import Raw, Struct

from rekindle.acp.jsonrpc import REQUEST_CANCELLED, request_key
from rekindle.acp.translate.permissions import CANCELLED, permission_to_v2
from rekindle.client.events import PermissionRequested, ToolCallUpdated, latest_change
from rekindle.client.follow import EventSink, OtherTurns
from rekindle.client.models import OnPermission, PermissionRequest, as_choices
from rekindle.client.rpc import RpcConnection
from rekindle.client.session_record import SessionRecord
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object
from rekindle.model import Kind, Side


class _Pending(Struct):
    request_id: Raw
    request: PermissionRequest
    is_others: bool
    """Whether it belongs to a turn of another client."""
    task: "asyncio.Future[None] | None" = None
    """The running call of an asynchronous `on_permission`."""


class PermissionQueue:
    """The open permission requests of one session.

    `on_permission` answers them. Without it, the reader of the events does.
    """

    def __init__(
        self, rpc: RpcConnection, record: SessionRecord, on_permission: OnPermission | None
    ) -> None:
        self._rpc = rpc
        self._record = record
        self._on_permission = on_permission
        self._pending: dict[int, _Pending] = {}
        """The open requests by seq, because an agent may use the same id twice."""

    def receive(self, request_id: Raw, line: bytes, sink: EventSink | None) -> None:
        """Accept a request of the agent, and have it answered.

        `sink` receives the events of the turn to which the request belongs, if any.
        """
        seq = self._record.add(Side.AGENT, Kind.PERMISSION, line)
        request = self._read(seq, line)
        self._pending[seq] = _Pending(request_id, request, isinstance(sink, OtherTurns))
        if sink is not None and sink.is_cancelled:
            # The request crossed with the cancellation, and must not be allowed any more.
            request.cancel()
            return
        answer = self._on_permission
        if self._pending[seq].is_others and answer is PermissionRequest.reject:
            # The default must not decide about the turns of other clients.
            answer = None
        if answer is not None:
            self._consult(self._pending[seq], answer, sink)
        elif sink is None:
            # No reader exists.
            request.reject()
        if sink is not None:
            sink.add_event(PermissionRequested(request, needs_answer=answer is None))

    @property
    def waiting(self) -> list[PermissionRequest]:
        """The requests of turns of other clients that wait for a reader."""
        return [it.request for it in self._pending.values() if it.is_others and it.task is None]

    def cancel(self) -> None:
        """Answer all open requests as cancelled, except those of turns of other clients."""
        for pending in list(self._pending.values()):
            if not pending.is_others:
                pending.request.cancel()

    def leave(self) -> None:
        """Answer the requests of the own turn as cancelled. Other clients may answer the others."""
        self.cancel()
        for pending in self._pending.values():
            pending.request.is_answered = True
            _stop_task(pending)
        self._pending.clear()

    def withdraw(self, request_id: Raw) -> None:
        """Drop the requests that the agent has withdrawn, or that another client has answered.

        Their outcome is unknown here.
        """
        key = request_key(request_id)
        for seq, pending in list(self._pending.items()):
            if request_key(pending.request_id) == key:
                del self._pending[seq]
                pending.request.is_answered = True
                self._respond_withdrawn(pending.request_id)
                _stop_task(pending)

    def _respond_withdrawn(self, request_id: Raw) -> None:
        # Only version 2 has an outcome for it.
        if self._record.protocol > 1:
            self._rpc.respond(request_id, CANCELLED)
        else:
            self._rpc.respond_error(request_id, REQUEST_CANCELLED, "withdrawn")

    def _read(self, seq: int, line: bytes) -> PermissionRequest:
        params = as_object(as_object(decode_object(line)).get("params"))
        request = permission_to_v2(params) if "toolCall" in params else params
        changed = latest_change(self._record.transcript, seq)
        return PermissionRequest(
            title=as_str(request.get("title")) or "",
            tool_call=changed.tool_call if isinstance(changed, ToolCallUpdated) else None,
            choices=as_choices(as_array(request.get("options"))),
            params=params,
            answer=lambda choice_id: self._respond(seq, choice_id),
        )

    def _respond(self, seq: int, choice_id: str | None) -> None:
        pending = self._pending.pop(seq)
        outcome: Json = {"outcome": "cancelled"}
        if choice_id is not None:
            outcome = {"outcome": "selected", "optionId": choice_id}
        line = self._rpc.respond(pending.request_id, {"outcome": outcome})
        self._record.add(Side.CLIENT, Kind.OUTCOME, line)
        _stop_task(pending)

    def _consult(
        self, pending: _Pending, on_permission: OnPermission, sink: EventSink | None
    ) -> None:
        try:
            result = on_permission(pending.request)
        except Exception as error:  # noqa: BLE001 - the reader of the turn receives it
            _reject_with(pending.request, error, sink)
            return
        if isawaitable(result):
            pending.task = asyncio.ensure_future(result)
            pending.task.add_done_callback(lambda task: _conclude(pending.request, task, sink))
        else:
            pending.request.reject()


def _conclude(
    request: PermissionRequest, task: "asyncio.Future[None]", sink: EventSink | None
) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _reject_with(request, error, sink)
    else:
        request.reject()


def _reject_with(request: PermissionRequest, error: BaseException, sink: EventSink | None) -> None:
    # The error is set first, because the rejection may end the turn.
    if sink is not None:
        sink.fail_at_end(error)
    request.reject()


def _stop_task(pending: _Pending) -> None:
    """Cancel the call of `on_permission` for a request that has been answered."""
    if pending.task is not None and pending.task is not asyncio.current_task():
        pending.task.cancel()
