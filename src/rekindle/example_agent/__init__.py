"""A small ACP agent without a model, for the demo, for tests and for experiments.

It is deterministic: words in a prompt select its actions (see `actions`). It supports version 1 of
the protocol, version 2, or both. It uses only the standard library and nothing else of Rekindle, so
that it can represent any agent.
"""

from rekindle.example_agent.agent import serve
from rekindle.example_agent.options import LIFECYCLE, NEWER, Options

__all__ = ["LIFECYCLE", "NEWER", "Options", "serve"]
