"""The actions of a turn: each is selected by a word or phrase in the prompt.

No action uses the file system or runs a command. They only send updates that claim it.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import PurePath

from rekindle.example_agent.rpc import INTERNAL_ERROR, Json, RpcError
from rekindle.example_agent.session import Turn, prompt_text
from rekindle.example_agent.subagent import Subagent
from rekindle.example_agent.updates import call_update, text_block

MAX_COUNT = 10_000_000
CRASH_STATUS = 3
_TITLE_WORDS = 6
_CONTEXT_SIZE = 128_000
_TOKENS_PER_PROMPT = 50
_NOTHING = "I remember nothing before this."

_PLAN = ("Look at the question", "Find an answer", "Say it")
_PERMISSIONS: list[Json] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]


def play(turn: Turn) -> None:
    """Run all actions that the prompt selects, and a chat answer if none has sent a message."""
    for phrase, scene in ACTIONS:
        if re.search(rf"\b{phrase}\b", turn.prompt_text, re.IGNORECASE):
            scene(turn)
    if not turn.has_answered:
        chat(turn)
    turn.check_cancelled()


def think(turn: Turn) -> None:
    """Send a thought."""
    turn.think("The user wants me to think. I think that this is a thought.")


def plan(turn: Turn) -> None:
    """Send a plan, and complete its steps."""
    for done in range(len(_PLAN) + 1):
        entries = [
            {"content": content, "priority": "medium", "status": _plan_status(index, done)}
            for index, content in enumerate(_PLAN)
        ]
        turn.send_update({"sessionUpdate": "plan", "entries": entries})


def _plan_status(index: int, done: int) -> str:
    if index < done:
        return "completed"
    return "in_progress" if index == done else "pending"


def read(turn: Turn) -> None:
    """Send a tool call that reads a file."""
    path = _notes_path(turn)
    call = _call(turn, "read", f"Read {path}", locations=[{"path": path, "line": 1}])
    content = [{"type": "content", "content": text_block("Remember the milk.\n")}]
    turn.send_update(call_update(call["toolCallId"], status="completed", content=content))


def edit(turn: Turn) -> None:
    """Send a tool call that edits a file, if the user allows it.

    It requests the permission every time, also after "always allow": tests need the request.
    """
    path = _notes_path(turn)
    content = [_diff(path)]
    call = _call(turn, "edit", f"Edit {path}", locations=[{"path": path}], content=content)
    if turn.ask_permission(call, _PERMISSIONS) in ("allow-once", "allow-always"):
        turn.send_update(call_update(call["toolCallId"], status="in_progress"))
        turn.send_update(call_update(call["toolCallId"], status="completed"))
    else:
        turn.send_update(call_update(call["toolCallId"], status="failed"))


def run(turn: Turn) -> None:
    """Send a tool call that runs a command."""
    call = _call(turn, "execute", "echo hello", rawInput={"command": "echo hello"})
    turn.send_update(call_update(call["toolCallId"], status="in_progress"))
    terminal = {
        "type": "terminal",
        "terminalId": f"{call['toolCallId']}/terminal",
        "command": "echo hello",
        "cwd": turn.conversation.cwd,
        "output": "hello\n",
        "exitCode": 0,
    }
    turn.send_update(call_update(call["toolCallId"], status="completed", content=[terminal]))


def delegate(turn: Turn) -> None:
    """Have a sub-agent edit a file. It goes on working if the prompt has `slow` or `crash`."""
    if not turn.session.takes_subagents:
        turn.send_message("I have no sub-agents that you could see.")
        return
    path = _notes_path(turn)
    helper = Subagent(turn, "Editor", f"Edits {path}")
    helper.exchange("Buy oat milk instead.")
    helper.say("I am on it.")
    helper.edit(path, _diff(path), _PERMISSIONS)
    if re.search(r"\b(slow|crash)\b", turn.prompt_text, re.IGNORECASE):
        return
    helper.say("It is done.")
    helper.set_state("idle", stopReason="end_turn")
    helper.exchange("I have edited the notes.", is_answer=True)
    turn.send_message("My sub-agent has edited the notes.")


def title(turn: Turn) -> None:
    """Set the title of the session from the prompt, unless the user has set one."""
    if turn.conversation.is_titled_by_user:
        return
    name = " ".join(turn.prompt_text.split()[:_TITLE_WORDS])
    turn.send_update({"sessionUpdate": "session_info_update", "title": name})
    turn.conversation.title = name


def usage(turn: Turn) -> None:
    """Send the fill level of the context."""
    used = _TOKENS_PER_PROMPT * (len(turn.earlier_prompts) + 1)
    cost = {"amount": 0.0, "currency": "USD"}
    turn.send_update(
        {"sessionUpdate": "usage_update", "used": used, "size": _CONTEXT_SIZE, "cost": cost}
    )


def count(turn: Turn) -> None:
    """Send the numbers up to the one in the prompt."""
    # Nine digits are enough to exceed the limit, and not too many for `int`.
    for number in re.findall(r"\bcount to ([0-9]{1,9})", turn.prompt_text, re.IGNORECASE):
        turn.count(min(int(number), MAX_COUNT))


def slow(turn: Turn) -> None:
    """Wait until the turn is cancelled."""
    turn.send_message("I am waiting until you cancel.")
    turn.wait_for_cancel()


def crash(turn: Turn) -> None:
    """End the whole process in the middle of a message."""
    turn.send_message("I am about to")
    sys.stderr.write("rekindle example-agent: crashed, as the prompt asked\n")
    sys.stderr.flush()
    os._exit(CRASH_STATUS)


def error(turn: Turn) -> None:
    """Fail the prompt."""
    turn.check_cancelled()
    raise RpcError(INTERNAL_ERROR, "failed, as the prompt asked")


def recall_first(turn: Turn) -> None:
    """Send the first prompt of the conversation."""
    remembered = _known_prompts(turn)
    turn.send_message(f"You said first: {remembered[0]}" if remembered else _NOTHING)


def recall_last(turn: Turn) -> None:
    """Send the previous prompt."""
    remembered = _known_prompts(turn)
    turn.send_message(f"You said last: {remembered[-1]}" if remembered else _NOTHING)


def recall_number(turn: Turn) -> None:
    """Send the number of earlier prompts."""
    number = len(_known_prompts(turn))
    turn.send_message(
        f"You sent {_count(number, 'prompt')} before this one." if number else _NOTHING
    )


def tell_system_prompt(turn: Turn) -> None:
    """Send the mode and the text of the client's system prompt."""
    prompt = turn.conversation.system_prompt
    if prompt is None:
        turn.send_message("I have no system prompt.")
    else:
        text = " ".join(block["text"] for block in prompt["content"])
        turn.send_message(f"My system prompt ({prompt['mode']}): {text}")


def chat(turn: Turn) -> None:
    """Repeat the prompt, with the number of messages so far."""
    end = "" if turn.prompt_text.endswith((".", "!", "?")) else "."
    number = len(_known_prompts(turn)) + 1
    turn.send_message(
        f"You said: {turn.prompt_text}{end} That makes {_count(number, 'message')} so far."
    )


# The phrases that select actions, in the order in which the actions run.
ACTIONS: tuple[tuple[str, Callable[[Turn], None]], ...] = (
    ("think", think),
    ("plan", plan),
    ("read", read),
    ("edit", edit),
    ("run", run),
    ("delegate", delegate),
    ("title", title),
    ("usage", usage),
    ("count to [0-9]+", count),
    ("slow", slow),
    ("crash", crash),
    ("error", error),
    ("what did i say first", recall_first),
    ("what did i say last", recall_last),
    ("how many prompts", recall_number),
    ("your system prompt", tell_system_prompt),
)


def _notes_path(turn: Turn) -> str:
    return str(PurePath(turn.conversation.cwd) / "notes.txt")


def _diff(path: str) -> Json:
    return {"type": "diff", "path": path, "oldText": "the milk\n", "newText": "the oat milk\n"}


def _call(turn: Turn, kind: str, name: str, **details: object) -> Json:
    """Send a new tool call, and return it."""
    call: Json = {
        "sessionUpdate": "tool_call",
        "toolCallId": turn.conversation.new_id("call"),
        "title": name,
        "kind": kind,
        "status": "pending",
        **details,
    }
    turn.send_update(call)
    return call


def _known_prompts(turn: Turn) -> list[str]:
    """Return the earlier prompts that a model would know.

    These are the prompts in a handover before the first prompt, and all prompts since.
    """
    first = [*turn.earlier_prompts, turn.blocks][0]
    return [*_prompts_in_handover(first), *(prompt_text(blocks) for blocks in turn.earlier_prompts)]


def _prompts_in_handover(blocks: list[Json]) -> list[str]:
    """Return the user's lines of a transcript in the blocks before the prompt text."""
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
