"""Ask for a summary of the last session without leaving a trace in it: in a fork.

usage: fork_summary.py [AGENT ARGS…]
"""

import asyncio
import sys

from rekindle.client import connect

AGENT = sys.argv[1:] or [sys.executable, "-m", "rekindle", "example-agent"]


async def main() -> None:
    """Fork the session, ask for a summary, and delete the fork."""
    async with connect(AGENT) as agent:
        last = await anext(agent.sessions(), None)
        if last is None:
            sys.exit("there is no session yet: examples/resume_last.py makes one")
        fork = await agent.fork(last.id, last.cwd)
        print(await fork.ask("Sum up what we did, in three sentences. What did I say first?"))
        await agent.delete(fork.id)


asyncio.run(main())
