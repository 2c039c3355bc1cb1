"""What is written to the store when a session is opened."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str, encode
from rekindle.model import Change, Entry, EntryBatch, Kind, Opened, Side
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.validation import tidy

_KEPT_OF_ANSWERS = ("sessionId", "modes", "models", "configOptions", "availableCommands")
_HARMLESS = ("sessionId", "cwd", "additionalDirectories")


def written_opening(
    conn: ConnectionState, live: LiveSession, method: str, ready: bytes
) -> list[Change]:
    """Return what is recorded of a session that was opened."""
    setup = live.setup
    directories = tuple(d for d in map(as_str, as_array(setup.get("additionalDirectories"))) if d)
    request = {"jsonrpc": "2.0", "method": method, "params": without_secrets(setup)}
    return [
        Opened(
            session_id=live.id,
            at_us=conn.at_us,
            # One that is yet to be told what was said does not know the session.
            agent_session_id=None if live.needs_handover else live.agent_id,
            agent=None if live.needs_handover else conn.agent.identity,
            cwd=tidy(as_str(setup["cwd"]) or ""),
            directories=directories,
        ),
        entry(
            conn,
            live.id,
            Side.CLIENT,
            Kind.SETUP,
            encode(request),
            protocol=conn.client_protocol,
        ),
        entry(conn, live.id, Side.AGENT, Kind.READY, ready),
    ]


def ready_line(result: dict[str, Any]) -> bytes:
    """Return what is recorded of the answer that opens a session.

    Named one by one, as with the request: an agent may say back what it was given.
    """
    kept = {name: result[name] for name in _KEPT_OF_ANSWERS if name in result}
    restored = as_object(as_object(result.get("_meta")).get("rekindle"))
    return encode({"jsonrpc": "2.0", "result": {**kept, "_meta": {"rekindle": restored}}})


def ready_entry(line: bytes, at_us: int) -> Entry:
    """Return an answer as the entry that it will be."""
    return Entry(seq=0, side=Side.AGENT, kind=Kind.READY, at_us=at_us, line=line)


def without_secrets(params: dict[str, Any]) -> dict[str, Any]:
    """Return what may be kept of the parameters of a request that opens a session.

    Named one by one, because what is not known to be harmless may be a secret: the
    environment, arguments, headers and addresses of MCP servers, and `_meta`.
    """
    kept = {name: params[name] for name in _HARMLESS if name in params}
    servers = [as_object(server) for server in as_array(params.get("mcpServers"))]
    kept["mcpServers"] = [
        {name: server[name] for name in ("type", "name") if name in server} for server in servers
    ]
    return kept


def entry(  # noqa: PLR0913 - what an entry is
    conn: ConnectionState,
    session_id: str,
    side: Side,
    kind: Kind,
    line: bytes,
    *,
    protocol: int | None = None,
) -> EntryBatch:
    """Return one line as what records it now, in the agent's version if not said otherwise."""
    version = conn.agent.own.protocol if protocol is None else protocol
    return EntryBatch(
        session_id=session_id,
        side=side,
        kind=kind,
        at_us=conn.at_us,
        data=line,
        protocol=version,
    )
