"""Serving one client on the standard streams."""

import sys

from rekindle.example_agent.agent import Agent
from rekindle.example_agent.options import Options
from rekindle.example_agent.rpc import Connection

_STDOUT = 1


def serve(options: Options) -> int:
    """Serve one client on stdin and stdout until it hangs up; return the exit code."""
    try:
        agent = Agent(Connection(_STDOUT), options)
    except OSError as error:
        sys.stderr.write(f"rekindle example-agent: cannot use the memory folder: {error}\n")
        return 2
    try:
        for line in sys.stdin.buffer:
            agent.receive(line)
    except BrokenPipeError:
        pass  # the client has stopped listening: the same end as no longer talking
    except KeyboardInterrupt:
        return 130
    finally:
        agent.stop()
    return 0
