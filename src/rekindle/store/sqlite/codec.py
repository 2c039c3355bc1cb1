"""Convert database rows to model values, and back."""

import json
from typing import Any, cast

import msgspec
from msgspec import MsgspecError

from rekindle.errors import StoreError
from rekindle.jsonvalue import as_str
from rekindle.model import (
    AgentIdentity,
    Entry,
    Kind,
    Opened,
    Origin,
    Page,
    Session,
    Side,
    TitleSource,
)
from rekindle.store.sqlite.schema import seq_at
from rekindle.store.sqlite.sql import PLACEHOLDER

Row = tuple[Any, ...]

CODEC_LINES = 0

_ENTRY_TYPES = (int, int, str, str, int, int, int, bytes)
_SESSION_TYPES = (
    str, str, str | None, str | None, str, str | None, str,
    str | None, str | None, str | None, int, int, str | None,
    int | None, int | None, int, int, str | None, int, int, int | None,
)  # fmt: skip
_parse_origin = msgspec.json.Decoder(Origin).decode


def decode_entries(row: Row) -> list[Entry]:
    """Return the entries of one row of `stretch`. Raises ValueError if the row is malformed.

    Raises StoreError if it was written by a newer Rekindle.
    """
    first, count, side, kind, at_us, protocol, codec, data = row
    if tuple(map(type, row)) != _ENTRY_TYPES:
        raise ValueError(f"row {first} does not contain entries")
    seq = seq_at(first)
    if codec != CODEC_LINES:
        raise StoreError(
            f"entry {seq} has an encoding that this Rekindle does not know; upgrade Rekindle"
        )
    lines = cast("bytes", data).split(b"\n") if count > 1 else [data]
    if len(lines) != count:
        raise ValueError(f"row {first} does not have its {count} entries")
    # Looked up once per row, because every chunk that is read comes through here.
    entry_side, entry_kind = Side(side), Kind(kind)
    return [
        Entry(
            seq=seq + offset,
            side=entry_side,
            kind=entry_kind,
            at_us=at_us,
            line=line,
            protocol=protocol,
        )
        for offset, line in enumerate(lines)
    ]


def decode_session(row: Row) -> Session:
    """Return the session of one row of `sql.SESSION`. Raises ValueError if it is malformed."""
    (
        id_, agent_session_id, agent_name, agent_version, command, cwd, directories,
        user_title, agent_title, prompt_title, created_us, updated_us, parent_id,
        archived_us, deleted_us, turns, messages, origin, saved_turns, agent_archived, last,
    ) = row  # fmt: skip
    if not all(map(isinstance, row, _SESSION_TYPES)):
        raise ValueError(f"the row of {id_} is not a valid session")
    titles = {
        TitleSource.USER: user_title,
        TitleSource.AGENT: agent_title,
        TitleSource.PROMPT: prompt_title,
    }
    source = next((source for source, title in titles.items() if title is not None), None)
    return Session(
        id=id_,
        agent_session_id=agent_session_id,
        agent=AgentIdentity(
            name=agent_name, version=agent_version, command=tuple(json.loads(command))
        ),
        cwd=cwd,
        directories=tuple(json.loads(directories)),
        title=titles[source] if source else None,
        title_source=source,
        created_us=created_us,
        updated_us=updated_us,
        parent_id=parent_id,
        archived_us=archived_us,
        deleted_us=deleted_us,
        last_seq=seq_at(last or 0),
        turns=turns,
        messages=messages,
        origin=None if origin is None else decode_origin(origin),
        saved_turns=saved_turns,
        is_archived_by_agent=bool(agent_archived),
    )


def decode_origin(written: str) -> Origin:
    """Return the origin that is stored as JSON. Raises ValueError if it is malformed."""
    try:
        return _parse_origin(written)
    except (MsgspecError, RecursionError) as error:
        raise ValueError(f"not a valid origin: {error}") from None


def opened_values(opened: Opened) -> dict[str, Any]:
    """Return the values for `sql.OPEN`."""
    agent = opened.agent
    directories = opened.directories
    return {
        "id": opened.session_id,
        "agent_session_id": opened.agent_session_id,
        "agent_name": agent.name if agent else None,
        "agent_version": agent.version if agent else None,
        "command": json.dumps(agent.command) if agent else None,
        # A file's name may not be UTF-8. The command itself is stored as ASCII.
        "program": as_str(agent.program) if agent else None,
        "cwd": opened.cwd,
        "directories": None if directories is None else json.dumps(directories),
        "parent_id": opened.parent_id,
    }


def page_conditions(page: Page) -> tuple[list[str], dict[str, Any]]:
    """Return the SQL conditions that select a page, and their values."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if page.cwd is not None:
        conditions.append("cwd = :cwd")
        values["cwd"] = page.cwd
    if page.folders:
        conditions.append("cwd in (select value from json_each(:folders))")
        values["folders"] = json.dumps(page.folders)
    if page.under:
        conditions.append(_below(page.under, values))
    if page.agent is not None:
        names = ("agent_name", "program")
        parts = " or ".join(f"instr(lower({name}), lower(:agent)) > 0" for name in names)
        conditions.append(f"({parts})")
        values["agent"] = page.agent
    if page.before is not None:
        conditions.append("(updated_us, id) < (:before_us, :before_id)")
        values["before_us"], values["before_id"] = page.before
    return conditions + _state_conditions(page), values


def _state_conditions(page: Page) -> list[str]:
    """Return the SQL conditions on the state of a session."""
    conditions = ["deleted_us is not null" if page.deleted else "deleted_us is null"]
    if page.archived:
        conditions.append("archived_us is not null")
    elif not page.with_archived:
        conditions.append("archived_us is null")
    if page.placeholders:
        conditions.append(f"{PLACEHOLDER} and origin is null")
    elif page.with_subagents and not page.with_unopened:
        conditions.append("(cwd is not null or parent_id is not null)")
    elif not page.with_unopened:
        conditions.append("cwd is not null")
    if page.prompted:
        conditions.append("turns > 0")
    return conditions


def _below(folders: tuple[str, ...], values: dict[str, Any]) -> str:
    """Return the condition that a session's folder is one of these, or inside one of them."""
    either: list[str] = []
    for number, folder in enumerate(folders):
        values |= {f"folder{number}": folder, f"inside{number}": folder.rstrip("/") + "/"}
        either.append(
            f"cwd = :folder{number} or substr(cwd, 1, length(:inside{number})) = :inside{number}"
        )
    # Scanning all sessions by time is fast enough. Sorting those of a home folder is not.
    return f"({' or '.join(either)})"
