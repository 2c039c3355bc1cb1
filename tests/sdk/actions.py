"""The actions of an agent in a turn, selected by words in the prompt as in the example agent."""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import acp
from acp.schema import PermissionOption, PlanEntryStatus, ToolCallUpdate

PLAN = ("Look at the question", "Find an answer")
PERMISSIONS = [
    PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
    PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]


class Turn:
    """A turn for the last of `prompts`."""

    def __init__(
        self,
        prompts: list[list[str]],
        tell: Callable[[Any], Awaitable[None]],
        ask: Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[str | None]],
    ) -> None:
        self.prompts = prompts
        self.words = prompts[-1][-1]
        self.tell = tell
        self.ask = ask
        self.cancelled = asyncio.Event()

    async def say(self, words: str) -> None:
        """Send a message word by word."""
        for piece in re.findall(r"\S+\s*", words):
            await self.tell(acp.update_agent_message_text(piece))


async def play(turn: Turn) -> Literal["end_turn", "cancelled"]:
    """Run a turn, and return the stop reason."""
    for phrase, action in ACTIONS.items():
        if re.search(rf"\b{phrase}\b", turn.words, re.IGNORECASE):
            await action(turn)
        if turn.cancelled.is_set():
            return "cancelled"
    await turn.say("That is all.")
    return "end_turn"


async def think(turn: Turn) -> None:
    """Send a thought."""
    await turn.tell(acp.update_agent_thought_text("I think that this is a thought."))


async def plan(turn: Turn) -> None:
    """Send a plan, and complete a step."""
    statuses: list[tuple[PlanEntryStatus, ...]] = [("pending", "pending"), ("completed", "pending")]
    for row in statuses:
        entries = [acp.plan_entry(it, status=now) for it, now in zip(PLAN, row, strict=True)]
        await turn.tell(acp.update_plan(entries))


async def read(turn: Turn) -> None:
    """Send a tool call that reads a file."""
    call = acp.start_tool_call(str(uuid.uuid4()), "Read notes.txt", kind="read", status="pending")
    await turn.tell(call)
    content = [acp.tool_content(acp.text_block("Remember the milk."))]
    done = acp.update_tool_call(call.tool_call_id, status="completed", content=content)
    await turn.tell(done)


async def edit(turn: Turn) -> None:
    """Send a tool call that edits a file, if the user allows it."""
    call = acp.start_tool_call(str(uuid.uuid4()), "Edit notes.txt", kind="edit", status="pending")
    await turn.tell(call)
    question = ToolCallUpdate(tool_call_id=call.tool_call_id, title=call.title)
    chosen = await turn.ask(question, PERMISSIONS)
    status = "completed" if chosen == "allow" else "failed"
    await turn.tell(acp.update_tool_call(call.tool_call_id, status=status))


async def slow(turn: Turn) -> None:
    """Wait until the turn is cancelled."""
    await turn.say("I am waiting until you cancel.")
    await turn.cancelled.wait()


async def recall_first(turn: Turn) -> None:
    """Send the first prompt."""
    await turn.say(f"You said first: {known_prompts(turn)[0]}\n")


async def recall_number(turn: Turn) -> None:
    """Send the number of earlier prompts."""
    await turn.say(f"You sent {len(known_prompts(turn))} prompts before this one.\n")


ACTIONS: dict[str, Callable[[Turn], Awaitable[None]]] = {
    "think": think,
    "plan": plan,
    "read": read,
    "edit": edit,
    "slow": slow,
    "what did i say first": recall_first,
    "how many prompts": recall_number,
}


def known_prompts(turn: Turn) -> list[str]:
    """Return the earlier prompts that a model would know."""
    handed_over = [line for block in turn.prompts[0][:-1] for line in block.split("\n")]
    users = [line.removeprefix("User: ") for line in handed_over if line.startswith("User: ")]
    return users + [blocks[-1] for blocks in turn.prompts[:-1]]
