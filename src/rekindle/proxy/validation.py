"""What a request of the lifecycle must say, and the errors it gets otherwise."""

from typing import Any

from rekindle.acp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RESOURCE_NOT_FOUND
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import LeaseHolder
from rekindle.proxy.flow import AgentReply, Refusal


def read_session_id(method: str, params: dict[str, Any]) -> str:
    """Return the session that a request names."""
    session_id = as_str(params.get("sessionId"))
    if not session_id:
        raise invalid(method, "sessionId", params.get("sessionId"), "must be a session's id")
    return session_id


def read_setup(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return what the agent is told of a session that is opened: as asked, and nothing else."""
    check_folder(method, "cwd", params.get("cwd"))
    directories = as_array(params.get("additionalDirectories"))
    if params.get("additionalDirectories") is not None and not isinstance(
        params["additionalDirectories"], list
    ):
        value = params["additionalDirectories"]
        raise invalid(method, "additionalDirectories", value, "must be an array of paths")
    for directory in directories:
        check_folder(method, "additionalDirectories", directory)
    hidden = {"sessionId", "replayFrom"}
    setup = {name: value for name, value in params.items() if name not in hidden}
    # It is required, but many clients leave it out, and many agents fail without it.
    if not isinstance(setup.get("mcpServers"), list):
        setup["mcpServers"] = []
    return _without_ours(setup)


def check_folder(method: str, name: str, path: object) -> None:
    """Raise Refusal unless it is an absolute path."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise invalid(method, name, path, "must be an absolute path")
    if "\0" in path or as_str(path) != path:
        raise invalid(method, name, path, "must be a path that there can be")


def tidy(path: str) -> str:
    """Return a folder's path without what does not belong to its name."""
    return path.rstrip("/") or "/"


def our_meta(params: dict[str, Any]) -> dict[str, Any]:
    """Return what a request says to Rekindle."""
    return as_object(as_object(params.get("_meta")).get("rekindle"))


def invalid(method: str, name: str, value: object, what: str) -> Refusal:
    """Return the refusal of a parameter."""
    return Refusal(INVALID_PARAMS, f"{method}: {name} {what}", {"field": name, "value": value})


def unknown_session(session_id: str, why: str = "") -> Refusal:
    """Return the refusal of a session that cannot be used."""
    words = f"no session {session_id}" + (f": {why}" if why else "")
    return Refusal(RESOURCE_NOT_FOUND, words, {"sessionId": session_id})


def deleted_session(session_id: str) -> Refusal:
    """Return the refusal of a session that was deleted."""
    return unknown_session(session_id, "it was deleted; `rekindle undelete` brings it back")


def in_use(session_id: str, holder: LeaseHolder) -> Refusal:
    """Return the refusal of a session that another process drives."""
    return Refusal(
        INVALID_REQUEST,
        f"this session is in use by process {holder.pid} on {holder.host}: close it there, "
        "or fork it to go on beside it, or start rekindle with --takeover to move it here",
        {"sessionId": session_id, "pid": holder.pid, "host": holder.host},
    )


def refusal_of(reply: AgentReply, doing: str) -> Refusal:
    """Return the refusal that passes the agent's own on."""
    error = as_object(reply.error)
    code = error.get("code")
    words = as_str(error.get("message"))
    if not isinstance(code, int) or words is None:
        return Refusal(INTERNAL_ERROR, f"the agent did not answer when asked to {doing}")
    return Refusal(code, words, error.get("data"))


def _without_ours(setup: dict[str, Any]) -> dict[str, Any]:
    if "rekindle" not in as_object(setup.get("_meta")):
        return setup
    meta = {name: value for name, value in setup["_meta"].items() if name != "rekindle"}
    return {**setup, "_meta": meta}
