"""Go on where you left off: resume this folder's last session, or begin the first.

usage: resume_last.py [AGENT ARGS…]
"""

import asyncio
import sys

from rekindle.client import connect

AGENT = sys.argv[1:] or [sys.executable, "-m", "rekindle", "example-agent"]


async def main() -> None:
    """Resume the session, and ask the agent about it."""
    async with connect(AGENT) as agent:
        last = await anext(agent.sessions("."), None)
        session = await agent.resume(last.id, last.cwd) if last else await agent.new(".")
        print(await session.ask("How many prompts did I send before this one?"))


asyncio.run(main())
