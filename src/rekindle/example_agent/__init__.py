"""A small ACP v1 agent without a model: for the demo, for tests, for trying things out.

It is deterministic: words in a prompt choose what it does (see `scenes`). It uses the standard
library alone and nothing else of Rekindle, so that it can stand for an agent somebody else wrote.
"""

from rekindle.example_agent.options import LIFECYCLE, Options
from rekindle.example_agent.serve import serve

__all__ = ["LIFECYCLE", "Options", "serve"]
