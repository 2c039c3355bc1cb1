"""What the agent does in a turn: a small scene for each word that calls for one.

Nothing here touches the file system or runs a command; the scenes only tell of it.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import PurePath

from rekindle.example_agent.dialect import call_update, text_block
from rekindle.example_agent.rpc import INTERNAL_ERROR, Json, RpcError
from rekindle.example_agent.turn import Turn, words

MAX_COUNT = 10_000_000
CRASH_STATUS = 3
_TITLE_WORDS = 6
_CONTEXT_SIZE = 128_000
_TOKENS_A_PROMPT = 50
_NOTHING = "I remember nothing before this."

_PLAN = ("Look at the question", "Find an answer", "Say it")
_PERMISSIONS: list[Json] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]


def play(turn: Turn) -> None:
    """Play every scene that the user's words call for; end with a word of the agent's own."""
    for phrase, scene in SCENES:
        if re.search(rf"\b{phrase}\b", turn.words, re.IGNORECASE):
            scene(turn)
    if not turn.has_spoken:
        chat(turn)
    turn.go_on()


def think(turn: Turn) -> None:
    """Think aloud."""
    turn.think("The user wants me to think. I think that this is a thought.")


def plan(turn: Turn) -> None:
    """Make a plan and go through it."""
    for done in range(len(_PLAN) + 1):
        entries = [
            {"content": content, "priority": "medium", "status": _plan_status(index, done)}
            for index, content in enumerate(_PLAN)
        ]
        turn.tell({"sessionUpdate": "plan", "entries": entries})


def _plan_status(index: int, done: int) -> str:
    if index < done:
        return "completed"
    return "in_progress" if index == done else "pending"


def read(turn: Turn) -> None:
    """Tell of a file being read."""
    path = _notes(turn)
    call = _call(turn, "read", f"Read {path}", locations=[{"path": path, "line": 1}])
    content = [{"type": "content", "content": text_block("Remember the milk.\n")}]
    turn.tell(call_update(call["toolCallId"], status="completed", content=content))


def edit(turn: Turn) -> None:
    """Tell of a file being edited, if the user allows it.

    It asks every time, also after "always allow": the question is what this scene is for.
    """
    path = _notes(turn)
    diff = {"type": "diff", "path": path, "oldText": "the milk\n", "newText": "the oat milk\n"}
    call = _call(turn, "edit", f"Edit {path}", locations=[{"path": path}], content=[diff])
    if turn.ask_permission(call, _PERMISSIONS) in ("allow-once", "allow-always"):
        turn.tell(call_update(call["toolCallId"], status="in_progress"))
        turn.tell(call_update(call["toolCallId"], status="completed"))
    else:
        turn.tell(call_update(call["toolCallId"], status="failed"))


def run(turn: Turn) -> None:
    """Tell of a command being run."""
    call = _call(turn, "execute", "echo hello", rawInput={"command": "echo hello"})
    turn.tell(call_update(call["toolCallId"], status="in_progress"))
    terminal = {
        "type": "terminal",
        "terminalId": f"{call['toolCallId']}/terminal",
        "command": "echo hello",
        "cwd": turn.conversation.cwd,
        "output": "hello\n",
        "exitCode": 0,
    }
    turn.tell(call_update(call["toolCallId"], status="completed", content=[terminal]))


def title(turn: Turn) -> None:
    """Name the session after the prompt."""
    name = " ".join(turn.words.split()[:_TITLE_WORDS])
    turn.tell({"sessionUpdate": "session_info_update", "title": name})
    turn.conversation.title = name


def usage(turn: Turn) -> None:
    """Tell how full the context is."""
    used = _TOKENS_A_PROMPT * (len(turn.earlier) + 1)
    cost = {"amount": 0.0, "currency": "USD"}
    turn.tell({"sessionUpdate": "usage_update", "used": used, "size": _CONTEXT_SIZE, "cost": cost})


def count(turn: Turn) -> None:
    """Count."""
    # Nine digits are enough to be above the limit, and never too many for `int`.
    for number in re.findall(r"\bcount to ([0-9]{1,9})", turn.words, re.IGNORECASE):
        turn.count(min(int(number), MAX_COUNT))


def slow(turn: Turn) -> None:
    """Do nothing until cancelled."""
    turn.say("I am waiting until you cancel.")
    turn.wait_for_cancel()


def crash(turn: Turn) -> None:
    """Take the whole process down, in the middle of a message."""
    turn.say("I am about to")
    sys.stderr.write("rekindle example-agent: crashed, as the prompt asked\n")
    sys.stderr.flush()
    os._exit(CRASH_STATUS)


def error(turn: Turn) -> None:
    """Fail the prompt."""
    turn.go_on()
    raise RpcError(INTERNAL_ERROR, "failed, as the prompt asked")


def recall_first(turn: Turn) -> None:
    """Say what the user said first."""
    remembered = _remembered(turn)
    turn.say(f"You said first: {remembered[0]}" if remembered else _NOTHING)


def recall_last(turn: Turn) -> None:
    """Say what the user said before this."""
    remembered = _remembered(turn)
    turn.say(f"You said last: {remembered[-1]}" if remembered else _NOTHING)


def recall_number(turn: Turn) -> None:
    """Say how many prompts there were before this one."""
    number = len(_remembered(turn))
    turn.say(f"You sent {_many(number, 'prompt')} before this one." if number else _NOTHING)


def chat(turn: Turn) -> None:
    """Say something friendly."""
    end = "" if turn.words.endswith((".", "!", "?")) else "."
    number = len(_remembered(turn)) + 1
    turn.say(f"You said: {turn.words}{end} That makes {_many(number, 'message')} so far.")


# Whole words that call for a scene, in the order in which the scenes of a turn are played.
SCENES: tuple[tuple[str, Callable[[Turn], None]], ...] = (
    ("think", think),
    ("plan", plan),
    ("read", read),
    ("edit", edit),
    ("run", run),
    ("title", title),
    ("usage", usage),
    ("count to [0-9]+", count),
    ("slow", slow),
    ("crash", crash),
    ("error", error),
    ("what did i say first", recall_first),
    ("what did i say last", recall_last),
    ("how many prompts", recall_number),
)


def _notes(turn: Turn) -> str:
    return str(PurePath(turn.conversation.cwd) / "notes.txt")


def _call(turn: Turn, kind: str, name: str, **details: object) -> Json:
    """Tell of a new tool call, and return it."""
    call: Json = {
        "sessionUpdate": "tool_call",
        "toolCallId": turn.conversation.new_id("call"),
        "title": name,
        "kind": kind,
        "status": "pending",
        **details,
    }
    turn.tell(call)
    return call


def _remembered(turn: Turn) -> list[str]:
    """Return what the user said before this prompt, as far as a model would know.

    That is what the session's first prompt was handed of an earlier conversation, and the words
    of every prompt since.
    """
    first = [*turn.earlier, turn.blocks][0]
    return [*_handed_over(first), *(words(blocks) for blocks in turn.earlier)]


def _handed_over(blocks: list[Json]) -> list[str]:
    """Return the user's lines of a transcript that stands before the user's words."""
    texts = [index for index, block in enumerate(blocks) if block["type"] == "text"]
    context = "\n".join(_text(block) for block in blocks[: texts[-1] if texts else None])
    lines = context.split("\n")
    return [line.removeprefix("User:").strip() for line in lines if line.startswith("User:")]


def _text(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case _:
            return ""


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
