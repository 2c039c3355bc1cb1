"""Permission requests: ask the right clients, and accept one answer.

| clients of the session                     | are asked                           |
|--------------------------------------------|-------------------------------------|
| the one that prompted                      | always                              |
| those that opted in, when they opened it   | always                              |
| others                                     | if the one that prompted has left   |
| observers                                  | never                               |

So a second window that approves everything does not decide about the prompts of the first. A
request that no client can answer waits for one. The first answer counts; the other clients are
informed that theirs is not needed any more. A client that answers with an error has no opinion, as
long as another client may still answer.

The requests are kept with the open requests: under `NO_CLIENT` as long as the agent waits, and
under each client that was asked. An answer arrives in `client_messages`, and those from and to
other processes pass through `host_messages`.
"""

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import notification, response
from rekindle.acp.rewrite import with_session_id
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.outbox import REQUIRES_ACTION, RUNNING, Outbox
from rekindle.proxy.peers import NO_CLIENT, ClientConnection, Peer
from rekindle.proxy.translation import translate_permission

CANCELLED = {"outcome": {"outcome": "cancelled"}}
"""The result of a permission request that no user will answer."""


class PermissionRequests:
    """The permission requests of one engine."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._conn = outbox.conn

    # -- asking ----------------------------------------------------------------------------

    def ask(self, root: LiveSession, request: OpenRequest) -> None:
        """Ask the clients of a session. `root` is the session, or that of its sub-agent."""
        self._conn.requests.add(NO_CLIENT, Raw(request.sent_id), request)
        if request.session_id == root.id:
            self.report_state(root, is_waiting=True)
        self._route(root, request)

    def route(self, root: LiveSession) -> None:
        """Ask the remaining clients after a client has come, or the prompting client has left."""
        for request in self._open_in(root.id):
            self._route(root, request)

    def client_left(self, root: LiveSession, peer: Peer) -> None:
        """Ask other clients instead of a client that has closed the session, if necessary."""
        for request in self._open_in(root.id):
            self._conn.requests.withdraw(peer, request.sent_id)
        self.route(root)

    def _route(self, root: LiveSession, request: OpenRequest) -> None:
        for peer in self._conn.requests.asked(Raw(request.sent_id)):
            if peer in root.clients and root.clients[peer].is_observer:
                # It has opened the session again, as an observer.
                self._withdraw(request, peer)
        translated = b""
        if any(map(self._conn.translates_for, self._conn.audience(root))):
            # The translator notes the tool call for all clients, also for those not asked.
            own = self._conn.live(request.session_id)
            translated = translate_permission(self._conn, own, request.line)
        for client in self._asked_clients(root):
            if self._conn.requests.find(client.peer, Raw(request.sent_id)) is not None:
                continue
            self._conn.requests.add(client.peer, Raw(request.sent_id), request)
            line = request.line
            if self._conn.translates_for(client):
                line = translated
                is_subagents = request.session_id not in {None, root.id}
                if is_subagents and not client.takes_subagents:
                    # The user must be asked, and this client knows only the root.
                    line = with_session_id(line, str(request.session_id), root.id)
            self._outbox.send(client.peer, line)

    def _asked_clients(self, root: LiveSession) -> list[ClientConnection]:
        prompter = root.turn.prompter
        prompting = root.clients.get(prompter)
        is_gone = prompting is None or prompting.is_observer
        return [
            client
            for client in self._conn.audience(root)
            if not root.clients[client.peer].is_observer
            and (is_gone or client.peer == prompter or root.clients[client.peer].wants_permissions)
        ]

    def _open_in(self, root_id: str) -> list[OpenRequest]:
        """Return the requests of a session and of its sub-agents."""
        asking = {root_id, *(it.id for it in self._conn.subagents.of(root_id))}
        return [
            it
            for it in self._conn.requests.waiting_for(NO_CLIENT)
            if it.session_id in asking and it.method == methods.REQUEST_PERMISSION
        ]

    def is_waiting(self, root_id: str) -> bool:
        """Return whether a request of a session, or of one of its sub-agents, is open."""
        return bool(self._open_in(root_id))

    # -- answers ---------------------------------------------------------------------------

    def is_abstention(self, client: Peer, request_id: Raw, *, is_error: bool) -> bool:
        """Note an error response if another client may still answer; return whether that is so."""
        if not is_error:
            return False
        requests = self._conn.requests
        request = requests.find(client, request_id)
        if request is None or requests.find(NO_CLIENT, request_id) is None:
            return False
        if len(requests.asked(request_id)) == 1:
            return False
        requests.close(client, request_id)
        return True

    def answered(self, request: OpenRequest, *, by: Peer = NO_CLIENT) -> None:
        """Withdraw a request from the clients that have it, except `by`: it has its answer."""
        requests, sent_id = self._conn.requests, Raw(request.sent_id)
        requests.close(NO_CLIENT, sent_id)
        for peer in requests.asked(sent_id):
            if peer == by:
                requests.withdraw(peer, request.sent_id)
            else:
                self._withdraw(request, peer)

    def _withdraw(self, request: OpenRequest, peer: Peer) -> None:
        """Inform a client that a request needs no answer of it any more."""
        self._conn.requests.withdraw(peer, request.sent_id)
        params = {"requestId": Raw(request.sent_id)}
        self._outbox.send(peer, notification(methods.CANCEL_REQUEST, params))

    def turn_cancelled(self, root_id: str, by: Peer) -> None:
        """Answer the requests of a cancelled turn, except the requests at the canceller.

        Version 1 wants a client that cancels a turn to answer these itself.
        """
        for request in self._open_in(root_id):
            if by not in self._conn.requests.asked(Raw(request.sent_id)):
                self._cancel(request, by)

    def cancel(self, root_id: str, by: Peer) -> None:
        """Answer all requests of a session as cancelled: the client `by` closes it."""
        for request in self._open_in(root_id):
            self._cancel(request, by)

    def _cancel(self, request: OpenRequest, by: Peer) -> None:
        line = response(Raw(request.id), CANCELLED)
        self._outbox.journal.outcome(str(request.session_id), line)
        self._outbox.send_to_agent(line)
        self.answered(request, by=by)

    def report_state(self, live: LiveSession, *, is_waiting: bool) -> None:
        """Inform the clients that the turn waits for the user, or that it continues.

        A version 2 agent itself informs the clients of its version.
        """
        state = REQUIRES_ACTION if is_waiting else RUNNING
        is_v1_agent = self._conn.agent.capabilities.protocol == 1
        self._outbox.report_turn(live, state, but=live.turn.prompter, to_v2=is_v1_agent)
