"""Pick one of the sessions, or a new one, and chat: an empty line ends it.

usage: pick_session.py [AGENT ARGS…]
"""

import asyncio
import sys

from rekindle.client import (
    Agent,
    ClientSession,
    MessageChunk,
    PermissionRequest,
    ToolCallUpdated,
    connect,
)

AGENT = sys.argv[1:] or [sys.executable, "-m", "rekindle", "example-agent"]


async def ask_user(request: PermissionRequest) -> None:
    """Let the user answer a permission request."""
    for number, choice in enumerate(request.choices):
        print(f"  {number}  {choice.name}")
    request.choose(request.choices[int(await read_line(f"{request.title}? "))])


async def pick(agent: Agent) -> ClientSession:
    """Return the session that the user picks."""
    sessions = [info async for info in agent.sessions()]
    for number, info in enumerate(sessions):
        when = f"{info.updated_at:%Y-%m-%d %H:%M}" if info.updated_at else "?"
        print(f"  {number}  {when}  {info.title or '(no title)'}")
    number = await read_line("Which one (nothing for a new one)? ")
    if not number:
        return await agent.new(".")
    info = sessions[int(number)]
    return await agent.load(info.id, info.cwd)


async def main() -> None:
    """Run the chat."""
    async with connect(AGENT, on_permission=ask_user) as agent:
        session = await pick(agent)
        while prompt := await read_line("> "):
            async for event in session.prompt(prompt):
                match event:
                    case MessageChunk(text=text):
                        print(text, end="", flush=True)
                    case ToolCallUpdated(call):
                        print(f"[{call.title}: {call.status}]")
                    case _:
                        pass
            print()


async def read_line(question: str) -> str:
    """Read a line from the user without blocking the connection."""
    try:
        return await asyncio.to_thread(input, question)
    except EOFError:
        return ""


asyncio.run(main())
