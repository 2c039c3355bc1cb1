"""Undo what `setup` did to an editor's JSON file.

For each change, Rekindle notes the backup of the file and a digest of the new entries; the contents
stay in the backup, because they may have secrets. Undoing goes from the newest change to the
oldest one:

* If the file is as that change left it, its text becomes that of the backup again.
* Otherwise the fields of each entry get back the text that they have in the backup.
* An entry that was changed since, or whose backup is gone, loses `rekindle run` only.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct

from rekindle.cli.editors.agents import launcher_prefix
from rekindle.cli.editors.entries import Action, AgentEntry, Outcome
from rekindle.cli.editors.json_agents import FIELDS, REGISTRY_TYPES, JsonAgents
from rekindle.cli.editors.jsonc import Value, find, remove, replace_text, set_value, update
from rekindle.cli.editors.save import read
from rekindle.errors import FileUnclear
from rekindle.jsonvalue import as_object


class WrittenEntry(Struct, frozen=True, kw_only=True):
    """An entry that a change has written."""

    digest: str
    """The digest of the fields that Rekindle writes."""
    type_before: str | None = None
    """The type of the entry before the change, if it had one."""
    existed: bool = True
    """Whether the entry existed before the change."""


class SetupChange(Struct, frozen=True, kw_only=True):
    """A change of one file."""

    file: str
    backup: str | None
    """The text before the change, None if the file did not exist."""
    digest: str
    """The digest of the text after the change."""
    agents: dict[str, WrittenEntry]


def record_change(
    agents: JsonAgents, path: Path, backup: Path | None, before: str, after: str
) -> None:
    """Note a change of the entries of a file. Raises OSError."""
    written: dict[str, WrittenEntry] = {}
    for entry in agents.entries(after):
        old, new = (find(text, (agents.key, entry.name)) for text in (before, after))
        if new is not None and (old is None or _digest(old) != _digest(new)):
            type_before = as_object(old.data).get("type") if old else None
            written[entry.name] = WrittenEntry(
                digest=_digest(new),
                type_before=type_before if isinstance(type_before, str) else None,
                existed=old is not None,
            )
    change = SetupChange(
        file=os.path.realpath(path),
        backup=str(backup) if backup else None,
        digest=_text_digest(after),
        agents=written,
    )
    _save([*_load(), change])


def undo(
    agents: JsonAgents, path: Path, text: str, names: Sequence[str] | None
) -> tuple[str, list[Outcome]]:
    """Return the text with the entries of these names, or all, as they were before `setup`.

    Raises FileUnclear.
    """
    before = {entry.name: entry for entry in agents.entries(text)}
    selected = [name for name in before if names is None or name in names]
    for change in reversed(_changes_of(path)):
        text = _undo_change(agents, text, change, selected)
    outcomes: list[Outcome] = []
    for name in selected:
        entry = next((it for it in agents.entries(text) if it.name == name), None)
        if entry is not None and entry.is_wrapped:
            try:
                text = _strip(agents, text, entry)
            except FileUnclear as error:
                outcomes.append(Outcome(name=name, action=Action.SKIPPED, text=str(error)))
                continue
        if entry is None:
            outcomes.append(Outcome(name=name, action=Action.REMOVED))
        elif before[name].is_wrapped:
            outcomes.append(Outcome(name=name, action=Action.RESTORED))
    return text, outcomes


def forget_changes(path: Path, names: Sequence[str]) -> None:
    """Forget the changes of these entries. Raises OSError."""
    file, rest = os.path.realpath(path), list[SetupChange]()
    for change in _load():
        left = {
            name: entry
            for name, entry in change.agents.items()
            if change.file != file or name not in names
        }
        if left:
            rest.append(msgspec.structs.replace(change, agents=left))
    _save(rest)


def _undo_change(
    agents: JsonAgents, text: str, change: SetupChange, selected: Sequence[str]
) -> str:
    backup = _backup_text(change)
    is_whole = set(change.agents) <= set(selected) and change.digest == _text_digest(text)
    if is_whole and change.backup and backup is not None:
        return backup
    for name, written in change.agents.items():
        path = (agents.key, name)
        current = find(text, path)
        if name not in selected or current is None or _digest(current) != written.digest:
            continue
        old = find(backup, path) if backup is not None else None
        if not written.existed and set(current.data) <= set(FIELDS):
            text = remove(text, path)
            text = _without_empty_object(agents, text, backup or "")
        elif old is not None and backup is not None:
            text = _restore_fields(text, path, old, backup)
        elif written.type_before in REGISTRY_TYPES:
            text = set_value(text, (*path, "type"), written.type_before)
            for field in FIELDS[1:]:
                text = remove(text, (*path, field))
    return text


def _restore_fields(text: str, path: tuple[str, ...], old: Value, backup: str) -> str:
    for field in FIELDS:
        place = (*path, field)
        before, now = (old.members or {}).get(field), find(text, place)
        if before is None:
            text = text if now is None else remove(text, place)
        elif now is None:
            text = set_value(text, place, before.data)
        else:
            text = replace_text(text, place, backup[before.start : before.end])
    return text


def _without_empty_object(agents: JsonAgents, text: str, backup: str) -> str:
    """Remove the object of all agents if it is empty, and was not there before."""
    holder = find(text, (agents.key,))
    if holder is None or holder.data or find(backup, (agents.key,)) is not None:
        return text
    return remove(text, (agents.key,))


def _strip(agents: JsonAgents, text: str, entry: AgentEntry) -> str:
    """Remove `rekindle run` from a command. The user's words before it stay."""
    if not entry.agent:
        raise FileUnclear("the agent's own command is not clear")
    program, *arguments = (*launcher_prefix(entry.command), *entry.agent)
    return update(text, (agents.key, entry.name), {"command": program, "args": arguments})


# -- the notes --------------------------------------------------------------------------------


def _notes_path() -> Path:
    return platformdirs.user_data_path("rekindle", appauthor=False) / "setup.json"


def _load() -> list[SetupChange]:
    """Return all changes, oldest first. A file that is missing or malformed has none."""
    try:
        return msgspec.json.decode(_notes_path().read_bytes(), type=list[SetupChange])
    except (OSError, msgspec.MsgspecError):
        return []


def _save(changes: list[SetupChange]) -> None:
    path = _notes_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The file is private from the start.
    fd, name = tempfile.mkstemp(prefix=".setup.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(changes))
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _changes_of(path: Path) -> list[SetupChange]:
    file = os.path.realpath(path)
    return [change for change in _load() if change.file == file]


def _backup_text(change: SetupChange) -> str | None:
    """Return the text before a change, None if it is not known any more."""
    if change.backup is None:
        return ""
    try:
        text = read(Path(change.backup))
        find(text, ())
    except FileUnclear:
        return None
    return text or None


def _digest(value: Value) -> str:
    fields = as_object(value.data)
    return _text_digest(json.dumps([fields.get(name) for name in FIELDS]))


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
