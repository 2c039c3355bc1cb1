"""Rules for the config options and the modes of sessions, in answers and updates."""

from collections.abc import Iterator, Sequence

from rekindle.acp import methods
from rekindle.conformance.report import Fault
from rekindle.conformance.trace import Exchange, TraceLine, id_key
from rekindle.jsonvalue import Json, as_array, as_object, as_str

_OPTIONS = "configOptions"
_UPDATE = "config_option_update"
_ID_FIELDS = {1: "id", 2: "configId"}


def has_options(line: TraceLine) -> bool:
    """Return whether a line of the agent has config options."""
    return bool(_options(line))


def is_option_update(line: TraceLine) -> bool:
    """Return whether a line is an update of the config options."""
    return line.kind == _UPDATE


def _options(line: TraceLine) -> list[Json]:
    values = line.update if line.kind else as_object(line.message.get("result"))
    return [] if line.is_sent else [as_object(it) for it in as_array(values.get(_OPTIONS))]


def invalid_values(lines: Sequence[TraceLine]) -> Iterator[Fault]:
    """Find options whose value is not one of their choices."""
    for line in lines:
        for option in _options(line):
            value, kind = option.get("currentValue"), option.get("type")
            name = option.get("name")
            if kind == "boolean" and not isinstance(value, bool):
                yield Fault(f"the option {name!r} has the value {value!r}", (line,))
            elif kind == "select" and value not in _choices(option.get("options")):
                message = f"the option {name!r} has the value {value!r}, which is not a choice"
                yield Fault(message, (line,))


def _choices(options: object) -> list[object]:
    """Return the values that can be chosen. They may be in groups."""
    found: list[object] = []
    for option in map(as_object, as_array(options)):
        if "options" in option:
            found += _choices(option["options"])
        else:
            found.append(option.get("value"))
    return found


def partial_updates(lines: Sequence[TraceLine], protocol: int) -> Iterator[Fault]:
    """Find updates that lack an option of the session.

    An option may disappear for good. So it counts as lacking only if the session has it before and
    after the update.
    """
    states: dict[str, list[tuple[TraceLine, set[str]]]] = {}
    sessions = _requested_sessions(lines)
    for line in lines:
        if not line.is_sent and (line.kind == _UPDATE or has_options(line)):
            session_id = line.session_id if line.kind else sessions.get(id_key(line.id), "")
            session_id = session_id or as_str(_result(line).get("sessionId")) or ""
            ids = {str(it.get(_ID_FIELDS[protocol])) for it in _options(line)}
            states.setdefault(session_id, []).append((line, ids))
    for known in states.values():
        for (_, before), (line, ids), (_, after) in zip(known, known[1:], known[2:], strict=False):
            if line.kind == _UPDATE and (lacking := sorted((before & after) - ids)):
                yield Fault(f"config_option_update lacks {lacking}", (line,))


def _result(line: TraceLine) -> Json:
    return as_object(line.message.get("result"))


def _requested_sessions(lines: Sequence[TraceLine]) -> dict[tuple[str, str], str]:
    """Return the session of each request, by the key of its id. A fork is another session."""
    return {
        id_key(it.id): it.session_id
        for it in lines
        if it.is_sent and it.is_request and it.method != methods.FORK
    }


# -- modes ------------------------------------------------------------------------------


def mode_ids(modes: Json) -> list[str]:
    """Return the ids of the available modes."""
    found = [as_object(it).get("id") for it in as_array(modes.get("availableModes"))]
    return [it for it in found if isinstance(it, str)]


def bad_modes(created: Exchange, modes: Json) -> Iterator[Fault]:
    """Check the modes of a session."""
    ids, current = mode_ids(modes), modes.get("currentModeId")
    if len(ids) < len(as_array(modes.get("availableModes"))):
        yield Fault("a mode has no id", created.lines)
    if current not in ids:
        yield Fault(f"the mode {current!r} is not one of the available modes", created.lines)


def bad_mode_updates(lines: Sequence[TraceLine], session_id: str) -> Iterator[Fault]:
    """Find mode updates of a session without the mode."""
    for line in lines:
        is_update = line.kind == "current_mode_update" and line.session_id == session_id
        if is_update and not isinstance(line.update.get("currentModeId"), str):
            yield Fault("current_mode_update has no `currentModeId`", (line,))
