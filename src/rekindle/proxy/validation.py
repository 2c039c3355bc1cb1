"""Check the params of lifecycle requests, and build the refusals of invalid ones."""

from typing import Any, Self

from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
)
from rekindle.jsonvalue import as_array, as_object, as_str, without
from rekindle.model import LeaseHolder
from rekindle.proxy.flow import AgentReply, Refusal

# -- params ---------------------------------------------------------------------------------


def read_session_id(method: str, params: dict[str, Any]) -> str:
    """Return the session id of a request. Raises Refusal."""
    session_id = as_str(params.get("sessionId"))
    if not session_id:
        raise invalid(method, "sessionId", params.get("sessionId"), "must be a session id")
    if session_id != params["sessionId"]:
        # No session has such an id, because it cannot be stored.
        raise invalid(method, "sessionId", params["sessionId"], "contains half of a surrogate pair")
    return session_id


def read_setup(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the params that the agent receives when a session is opened. Raises Refusal.

    They are the client's, without the session id, the cursor and Rekindle's own `_meta`.
    """
    check_folder(method, "cwd", params.get("cwd"))
    directories = params.get("additionalDirectories")
    if directories is not None and not isinstance(directories, list):
        raise invalid(method, "additionalDirectories", directories, "must be an array of paths")
    for directory in as_array(params.get("additionalDirectories")):
        check_folder(method, "additionalDirectories", directory)
    setup = without(params, "sessionId", "replayFrom")
    # The field is required, but many clients omit it, and many agents fail without it.
    if not isinstance(setup.get("mcpServers"), list):
        setup["mcpServers"] = []
    if "rekindle" in as_object(setup.get("_meta")):
        setup["_meta"] = without(setup["_meta"], "rekindle")
    return setup


def check_folder(method: str, name: str, path: object) -> None:
    """Check that a param is an absolute path. Raises Refusal."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise invalid(method, name, path, "must be an absolute path")
    if "\0" in path or as_str(path) != path:
        raise invalid(method, name, path, "must be a valid path")


def rekindle_meta(params: dict[str, Any]) -> dict[str, Any]:
    """Return the `_meta.rekindle` of a request."""
    return as_object(as_object(params.get("_meta")).get("rekindle"))


# -- refusals -------------------------------------------------------------------------------


def invalid(method: str, name: str, value: object, what: str) -> Refusal:
    """Return the refusal of an invalid param."""
    return Refusal(INVALID_PARAMS, f"{method}: {name} {what}", {"field": name, "value": value})


def unknown_session(session_id: str, reason: str = "") -> Refusal:
    """Return the refusal of a session that cannot be used."""
    message = f"cannot use session {session_id}: {reason}" if reason else f"no session {session_id}"
    return Refusal(RESOURCE_NOT_FOUND, message, {"sessionId": session_id})


def deleted_session(session_id: str) -> Refusal:
    """Return the refusal of a deleted session."""
    return unknown_session(session_id, "it was deleted; `rekindle undelete` restores it")


class LeasedElsewhere(Refusal):
    """The refusal of a session that another process uses.

    With `may_take_over`, the session was open here, and the other process has taken it over:
    opening it again shares it or moves it back. `reason` is why a client of this process
    cannot attach to the other one.
    """

    def __init__(
        self, session_id: str, holder: LeaseHolder, *, may_take_over: bool, reason: str = ""
    ) -> None:
        remedy = (
            "load or resume it again to use it here"
            if may_take_over
            else "restart Rekindle with --takeover to use it here"
        )
        cannot = f", and cannot be shared with it because {reason}" if reason else ""
        super().__init__(
            INVALID_REQUEST,
            f"this session is in use by process {holder.pid} on {holder.machine}{cannot}: "
            f"close it there, fork it, or {remedy}",
            {"sessionId": session_id, "pid": holder.pid, "host": holder.machine},
        )
        self.session_id = session_id
        self.holder = holder
        self.may_take_over = may_take_over

    def because(self, reason: str) -> Self:
        """Return the same refusal with the reason why no client can attach."""
        return type(self)(
            self.session_id, self.holder, may_take_over=self.may_take_over, reason=reason
        )


def lost_session(session_id: str, holder: LeaseHolder) -> dict[str, Any]:
    """Return the error for open prompts of a session that another process has taken over."""
    return {
        "code": INVALID_REQUEST,
        "message": f"another process has taken over this session (pid {holder.pid} on"
        f" {holder.machine}); open it again to continue there",
        "data": {"sessionId": session_id, "pid": holder.pid, "host": holder.machine},
    }


def outlived_session(session_id: str, former: LeaseHolder) -> Refusal:
    """Return the refusal of a session whose former agent has not ended, though its host has."""
    host = f"process {former.pid}" if former.pid else "a process"
    group = former.agent_group
    return Refusal(
        INVALID_REQUEST,
        f"this session was in use by {host} on {former.machine}, whose agent still runs: end it"
        f" with `kill -- -{group}`, or open the session again to continue anyway",
        {"sessionId": session_id, "pid": former.pid, "host": former.machine, "agentGroup": group},
    )


def refusal_of(reply: AgentReply, action: str) -> Refusal:
    """Return the refusal that forwards the agent's own error, or reports its silence."""
    error = as_object(reply.error)
    code = error.get("code")
    message = as_str(error.get("message"))
    if not isinstance(code, int) or message is None:
        return Refusal(INTERNAL_ERROR, f"the agent did not answer the request to {action}")
    return Refusal(code, message, error.get("data"))
