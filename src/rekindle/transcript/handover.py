"""Write the history of a session for an agent that has lost it, or an interrupted turn again.

The text has a budget of characters. It contains the first task, because everything else depends on
it; then the last turns, each whole; then the plan if it is not finished. It names the number of
turns and characters that are left out. The reader is a model, but people can read it too. Each text
begins and ends as `preface` expects, so that it is never mistaken for the user's words.
"""

from collections.abc import Collection, Sequence
from typing import Any

from rekindle.transcript.model import PlanItem, Terminals, TranscriptTurn, shorten_middle
from rekindle.transcript.preface import ADVICE, END, user_words, without_end
from rekindle.transcript.reducer import Transcript

BUDGET = 40_000

_OPENING = f"""\
This conversation continues in a new process, and you do not remember it. The history is below.
Continue from there with the user's next message, which follows the history.
{ADVICE}"""
_REMINDER = f"""\
The last turn of this conversation was interrupted, and you may not remember it. It is repeated
below. The user's next message follows it. {ADVICE}"""
_UNSAVED = f"""\
The last turns of this conversation may not have been saved, and you may not remember them. They
are repeated below. The user's next message follows them. {ADVICE}"""
_MISSING = f"""\
Some turns of this conversation are missing from your memory, because you were restarted. They are
repeated below. The user's next message follows them. {ADVICE}"""
_ROOM_FOR_REMARKS = 100


def handover_text(transcript: Transcript, budget: int = BUDGET) -> str:
    """Return the history for the agent, in at most `budget` characters."""
    plan = shorten_middle(_open_plan(transcript), budget // 4)
    room = max(0, budget - len(_OPENING) - len(END) - len(plan) - _ROOM_FOR_REMARKS)
    first, kept = _choose(transcript, room)
    parts = [first]
    left_out = len(transcript.turns) - len(kept) - 1
    if left_out > 0:
        parts.append(f"[{left_out} {'turn' if left_out == 1 else 'turns'} omitted]")
    parts += kept
    parts.append(plan)
    return _framed(_OPENING, "\n\n".join(part for part in parts if part), budget)


def reminder_text(
    transcript: Transcript, turns: Sequence[TranscriptTurn], budget: int = BUDGET
) -> str:
    """Return the text with turns that an agent may not have saved; empty without turns."""
    are_cut_off = all(turn.was_cut_off for turn in turns)
    return _turns_text(_REMINDER if are_cut_off else _UNSAVED, transcript, turns, budget)


def missing_turns_text(
    transcript: Transcript, numbers: Collection[int], budget: int = BUDGET
) -> str:
    """Return the text with the turns that an agent has lost; empty if it has lost none."""
    turns = [turn for turn in transcript.turns if turn.number in numbers]
    return _turns_text(_MISSING, transcript, turns, budget)


def _turns_text(
    opening: str, transcript: Transcript, turns: Sequence[TranscriptTurn], budget: int
) -> str:
    parts = [_turn(turn, transcript.terminals) for turn in turns]
    return _framed(opening, "\n\n".join(parts), budget) if turns else ""


def carries_history(prompt: str) -> bool:
    """Return whether a prompt in an agent's own files contains a handover or a reminder."""
    return user_words(prompt) != prompt


def as_block(text: str) -> dict[str, Any]:
    """Return the content block that carries the text.

    An embedded resource would fit better, but some agents put resources after the user's text, and
    some drop them.
    """
    return {"type": "text", "text": text}


def _framed(opening: str, record: str, budget: int) -> str:
    """Return a record between its opening and its end, in at most `budget` characters."""
    room = budget - len(f"{opening}\n\n\n\n{END}")
    if room < 0:
        return opening[: max(budget, 1)]
    parts = [opening, shorten_middle(without_end(record), room)[:room], END]
    return "\n\n".join(part for part in parts if part)


def _choose(transcript: Transcript, room: int) -> tuple[str, list[str]]:
    """Return the first turn, shortened if necessary, and as many of the last turns as fit."""
    if not transcript.turns:
        return "", []
    first = _turn(transcript.turns[0], transcript.terminals)
    latest = _latest(transcript, room)
    rest = sum(len(turn) + 2 for turn in latest)
    task = first.partition("\nYou")[0]
    # The task is kept. The answer to it is shortened if whole later turns need the room.
    first = shorten_middle(first, max(min(len(task) + _ROOM_FOR_REMARKS, room // 2), room - rest))
    room -= len(first)
    kept: list[str] = []
    for turn in latest:
        if len(turn) + 2 > room:
            break
        kept.insert(0, turn)
        room -= len(turn) + 2
    if not kept and latest and room > 0:
        # Not even the last turn fits. A part of it is better than none.
        kept = [shorten_middle(latest[0], room)]
    return first, kept


def _latest(transcript: Transcript, room: int) -> list[str]:
    """Return the texts of the last turns, newest first, without the first turn.

    It stops when the room is used up, so a long session is not written as a whole.
    """
    latest: list[str] = []
    for turn in reversed(transcript.turns[1:]):
        latest.append(_turn(turn, transcript.terminals))
        room -= len(latest[-1]) + 2
        if room < 0:
            break
    return latest


def _turn(turn: TranscriptTurn, terminals: Terminals) -> str:
    lines = [line for item in turn.items for line in item.handover_lines(terminals)]
    if turn.was_cut_off:
        lines.append("[this turn was interrupted]")
    elif turn.error is not None:
        lines.append(f"[this turn failed: {turn.error.get('message', '')}]")
    elif turn.stop_reason not in {None, "end_turn"}:
        lines.append(f"[this turn ended with: {turn.stop_reason}]")
    return "\n".join(lines)


def _open_plan(transcript: Transcript) -> str:
    items = (item for turn in transcript.turns for item in turn.items)
    plans = [item for item in items if isinstance(item, PlanItem)]
    lines = plans[-1].open_steps() if plans else []
    return "\n".join(["Current plan:", *lines]) if lines else ""
