"""A small ACP agent without a model: for the demo, for tests, for trying things out.

It is deterministic: words in a prompt choose what it does (see `scenes`). It speaks version 1 of
the protocol, version 2, or whichever of them the client asks for. It uses the standard
library alone and nothing else of Rekindle, so that it can stand for an agent somebody else wrote.
"""

from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.serve import serve

__all__ = ["LIFECYCLE", "Options", "serve"]
