"""Load a session by words of its title, and show what was said.

usage: load_by_title.py WORDS [AGENT ARGS…]
"""

import asyncio
import sys

from rekindle.client import Message, connect

WORDS = sys.argv[1].lower() if len(sys.argv) > 1 else sys.exit(__doc__)
AGENT = sys.argv[2:] or [sys.executable, "-m", "rekindle", "example-agent"]


async def main() -> None:
    """Find, load and show the session."""
    async with connect(AGENT) as agent:
        async for info in agent.sessions():
            if WORDS in (info.title or "").lower():
                session = await agent.load(info.id, info.cwd)
                for item in session.history:
                    if isinstance(item, Message):
                        print(f"{item.role}: {item.text}")
                return
    sys.exit(f"no session has {WORDS!r} in its title")


asyncio.run(main())
