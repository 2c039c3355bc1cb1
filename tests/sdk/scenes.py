"""What the agent does in a turn: as the example agent, a scene for each word that calls for one."""

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
    """The last of `prompts`, and what is told in answer to it."""

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
        """Say something, a word at a time."""
        for piece in re.findall(r"\S+\s*", words):
            await self.tell(acp.update_agent_message_text(piece))


async def play(turn: Turn) -> Literal["end_turn", "cancelled"]:
    """Play a turn, and return why it stopped."""
    for phrase, scene in SCENES.items():
        if re.search(rf"\b{phrase}\b", turn.words, re.IGNORECASE):
            await scene(turn)
        if turn.cancelled.is_set():
            return "cancelled"
    await turn.say("That is all.")
    return "end_turn"


async def think(turn: Turn) -> None:
    """Think aloud."""
    await turn.tell(acp.update_agent_thought_text("I think that this is a thought."))


async def plan(turn: Turn) -> None:
    """Make a plan and go through it."""
    statuses: list[tuple[PlanEntryStatus, ...]] = [("pending", "pending"), ("completed", "pending")]
    for row in statuses:
        entries = [acp.plan_entry(it, status=now) for it, now in zip(PLAN, row, strict=True)]
        await turn.tell(acp.update_plan(entries))


async def read(turn: Turn) -> None:
    """Tell of a file being read."""
    call = acp.start_tool_call(str(uuid.uuid4()), "Read notes.txt", kind="read", status="pending")
    await turn.tell(call)
    content = [acp.tool_content(acp.text_block("Remember the milk."))]
    done = acp.update_tool_call(call.tool_call_id, status="completed", content=content)
    await turn.tell(done)


async def edit(turn: Turn) -> None:
    """Tell of a file being edited, if the user allows it."""
    call = acp.start_tool_call(str(uuid.uuid4()), "Edit notes.txt", kind="edit", status="pending")
    await turn.tell(call)
    question = ToolCallUpdate(tool_call_id=call.tool_call_id, title=call.title)
    chosen = await turn.ask(question, PERMISSIONS)
    status = "completed" if chosen == "allow" else "failed"
    await turn.tell(acp.update_tool_call(call.tool_call_id, status=status))


async def slow(turn: Turn) -> None:
    """Do nothing until cancelled."""
    await turn.say("I am waiting until you cancel.")
    await turn.cancelled.wait()


async def recall_first(turn: Turn) -> None:
    """Say what the user said first."""
    await turn.say(f"You said first: {remembered(turn)[0]}\n")


async def recall_number(turn: Turn) -> None:
    """Say how many prompts there were before this one."""
    await turn.say(f"You sent {len(remembered(turn))} prompts before this one.\n")


SCENES: dict[str, Callable[[Turn], Awaitable[None]]] = {
    "think": think,
    "plan": plan,
    "read": read,
    "edit": edit,
    "slow": slow,
    "what did i say first": recall_first,
    "how many prompts": recall_number,
}


def remembered(turn: Turn) -> list[str]:
    """Return what the user said before, as far as a model would know."""
    handed_over = [line for block in turn.prompts[0][:-1] for line in block.split("\n")]
    users = [line.removeprefix("User: ") for line in handed_over if line.startswith("User: ")]
    return users + [blocks[-1] for blocks in turn.prompts[:-1]]
