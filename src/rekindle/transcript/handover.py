"""Telling an agent that has forgotten what was said before, or only the end of it.

Within a budget of characters: the first task, because it is what all the rest is about; the
last turns, each whole; and the plan as far as it is open. Where something is left out, the
text says so. It is written for a model to read, and a person can read it too.
"""

import json
from collections.abc import Collection
from itertools import takewhile
from typing import Any

from rekindle.acp.terminal_output import Terminal
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.transcript.model import (
    Item,
    PlanItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript

BUDGET = 40_000

_OPENING = """\
This conversation was continued in a new process, and you have no memory of it. Below is
the record of what was said and done before, for your information. Go on from there: the
user's next message follows after it. Do not answer the record itself."""
_REMINDER = """\
The last turn of this conversation was cut off before it ended, and you may not remember it.
Below is the record of it, for your information. The user's next message follows after it. Do
not answer the record itself."""
_UNSAVED = """\
The last turns of this conversation may not have been saved, and you may not remember them.
Below is the record of them, for your information. The user's next message follows after it. Do
not answer the record itself."""
_MISSING = """\
Your copy of this conversation lacks the turns below, which took place before you were restarted.
This is the record of them, for your information. The user's next message follows after it. Do
not answer the record itself."""
_SIGNS = tuple(it.partition(",")[0] for it in (_OPENING, _REMINDER, _UNSAVED, _MISSING))
_LONGEST_RESULT = 2_000
_ROOM_FOR_REMARKS = 100
_OPEN = frozenset({"pending", "in_progress"})


def handover_text(transcript: Transcript, budget: int = BUDGET) -> str:
    """Return the text that is handed to the agent, of at most `budget` characters."""
    plan = _shorten(_open_plan(transcript), budget // 4)
    room = max(0, budget - len(_OPENING) - len(plan) - _ROOM_FOR_REMARKS)
    first, kept = _choose(transcript, room)
    parts = [_OPENING, first]
    left_out = len(transcript.turns) - len(kept) - 1
    if left_out > 0:
        parts.append(f"[{left_out} {'turn is' if left_out == 1 else 'turns are'} left out here]")
    parts += kept
    parts.append(plan)
    return "\n\n".join(part for part in parts if part)[: max(budget, 1)]


def reminder_text(
    transcript: Transcript, budget: int = BUDGET, *, with_last: bool = False
) -> str:
    """Return the text that tells an agent of the last turns, if they were cut off; else none.

    Agents may save a turn only when it has ended. With `with_last`, the agent may not have saved
    the last turn that ended, either.
    """
    turns = list(takewhile(lambda turn: turn.was_cut_off, reversed(transcript.turns)))
    opening = _REMINDER
    if with_last and len(turns) < len(transcript.turns):
        turns.append(transcript.turns[-len(turns) - 1])
        opening = _UNSAVED
    return _turns_text(opening, transcript, turns[::-1], budget)


def missing_turns_text(
    transcript: Transcript, numbers: Collection[int], budget: int = BUDGET
) -> str:
    """Return the text with the turns that an agent has lost; empty if it has lost none."""
    turns = [turn for turn in transcript.turns if turn.number in numbers]
    return _turns_text(_MISSING, transcript, turns, budget)


def _turns_text(
    opening: str, transcript: Transcript, turns: list[TranscriptTurn], budget: int
) -> str:
    parts = [_turn(turn, transcript.terminals) for turn in turns]
    return _shorten("\n\n".join([opening, *parts]), max(budget, 1)) if turns else ""


def carries_history(prompt: str) -> bool:
    """Tell whether a prompt, as an agent has kept it, has the record before the user's words."""
    return any(it in prompt for it in _SIGNS)


def as_block(words: str) -> dict[str, Any]:
    """Return the content block that carries the text.

    Not an embedded resource, though it would fit better: some agents put those after the
    user's words, and some do not remember them.
    """
    return {"type": "text", "text": words}


def _choose(transcript: Transcript, room: int) -> tuple[str, list[str]]:
    """Return the first turn, shortened if it must be, and as many of the last as fit."""
    if not transcript.turns:
        return "", []
    first = _turn(transcript.turns[0], transcript.terminals)
    latest = _latest(transcript, room)
    rest = sum(len(turn) + 2 for turn in latest)
    task = first.partition("\nYou")[0]
    # The task itself comes first; what was made of it has to leave room for whole later turns.
    first = _shorten(first, max(min(len(task) + _ROOM_FOR_REMARKS, room // 2), room - rest))
    room -= len(first)
    kept: list[str] = []
    for turn in latest:
        if len(turn) + 2 > room:
            break
        kept.insert(0, turn)
        room -= len(turn) + 2
    if not kept and latest and room > 0:
        # Not even the last turn fits: its end is worth more than nothing.
        kept = [_shorten(latest[0], room)]
    return first, kept


def _latest(transcript: Transcript, room: int) -> list[str]:
    """Return turns from the last one back, but for the first, until there is no room for more.

    A long session is not written down as a whole for the little that is told of it.
    """
    latest: list[str] = []
    for turn in reversed(transcript.turns[1:]):
        latest.append(_turn(turn, transcript.terminals))
        room -= len(latest[-1]) + 2
        if room < 0:
            break
    return latest


def _turn(turn: TranscriptTurn, terminals: dict[str, Terminal]) -> str:
    lines = [line for item in turn.items for line in _item(item, terminals)]
    if turn.was_cut_off:
        lines.append("[this turn was cut off]")
    elif turn.error is not None:
        lines.append(f"[this turn failed: {turn.error.get('message', '')}]")
    elif turn.stop_reason not in {None, "end_turn"}:
        lines.append(f"[this turn ended with: {turn.stop_reason}]")
    return "\n".join(lines)


def _item(item: Item, terminals: dict[str, Terminal]) -> list[str]:
    match item:
        case TranscriptMessage(role=Role.THOUGHT):
            return []
        case TranscriptMessage():
            speaker = "User" if item.role is Role.USER else "You"
            return [f"{speaker}: {_words(item)}"]
        case ToolCallItem():
            return _tool_call(item, terminals)
        case _:
            return []


def _words(message: TranscriptMessage) -> str:
    return "".join(
        words if (words := as_str(block.get("text"))) is not None else _attachment(block)
        for block in message.blocks
    )


def _attachment(block: dict[str, Any]) -> str:
    resource = as_object(block.get("resource"))
    uri = as_str(block.get("uri")) or as_str(resource.get("uri")) or ""
    return f"[{block.get('type', 'attachment')} {uri}]".replace(" ]", "]")


def _tool_call(call: ToolCallItem, terminals: dict[str, Terminal]) -> list[str]:
    fields = call.fields
    title = as_str(fields.get("title")) or as_str(fields.get("kind")) or "a tool"
    status = as_str(fields.get("status")) or "pending"
    lines = [f"You used a tool: {title} ({'not finished' if as_str(status) in _OPEN else status})"]
    parts = [_content(as_object(part), terminals) for part in as_array(fields.get("content"))]
    result = "\n".join(parts).strip()
    if not result and "rawOutput" in fields:
        raw = fields["rawOutput"]
        result = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    if result:
        lines.append(_shorten(result, _LONGEST_RESULT))
    return lines


def _content(part: dict[str, Any], terminals: dict[str, Terminal]) -> str:
    if part.get("type") == "terminal":
        terminal = terminals.get(str(part.get("terminalId")))
        return terminal.text if terminal is not None else ""
    if part.get("type") == "diff":
        old = as_str(part.get("oldText")) or ""
        new = as_str(part.get("newText")) or ""
        changed = [f"- {line}" for line in old.splitlines()] + [
            f"+ {line}" for line in new.splitlines()
        ]
        return "\n".join([f"change of {part.get('path', 'a file')}:", *changed])
    return as_str(as_object(part.get("content")).get("text")) or ""


def _open_plan(transcript: Transcript) -> str:
    plans = [item for turn in transcript.turns for item in turn.items if isinstance(item, PlanItem)]
    steps = [as_object(step) for step in as_array(plans[-1].entries)] if plans else []
    if not any(as_str(step.get("status")) in _OPEN for step in steps):
        return ""
    lines = [f"- {step.get('content', '')} ({step.get('status', 'pending')})" for step in steps]
    return "\n".join(["The plan, as it stands:", *lines])


def _shorten(words: str, room: int) -> str:
    """Keep the beginning and the end, and say what is missing between."""
    if len(words) <= room:
        return words
    gap = f"\n[{len(words) - room:,} characters are left out here]\n"
    half = max(0, room - len(gap)) // 2
    return words[:half] + gap + (words[-half:] if half else "")
