"""The pairs of protocol versions that the tests of the client API use."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from rekindle.client import Agent


class Pair(NamedTuple):
    """The versions of client and agent, and whether Rekindle is between them."""

    client: int
    agent: int
    behind_rekindle: bool

    def __str__(self) -> str:
        return f"{'rekindle' if self.behind_rekindle else 'bare'}-{self.client}-{self.agent}"


PAIRS = [
    Pair(1, 1, behind_rekindle=False),
    Pair(2, 2, behind_rekindle=False),
    *(Pair(client, agent, behind_rekindle=True) for client in (1, 2) for agent in (1, 2)),
]

Start = Callable[..., AbstractAsyncContextManager[Agent]]
