"""Run asynchronous tests, with real agents."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest

from rekindle.client import Agent, connect
from stdio_client import EXAMPLE_AGENT
from version_pairs import PAIRS, Pair, Start
from warm_start import forked_agents

TIMEOUT = 30.0


@pytest.fixture(autouse=True)
def agents_start_quickly() -> Iterator[None]:
    """Fork the agents, because each test starts some."""
    with forked_agents():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - as pytest plugins do
    values = {name: pyfuncitem.funcargs[name] for name in names}

    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT):
            await pyfuncitem.obj(**values)

    asyncio.run(bounded())
    return True


@pytest.fixture(params=PAIRS, ids=str)
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.param


@pytest.fixture
def start(pair: Pair, tmp_path: Path) -> Start:
    """Start the example agent with a memory: its own, or Rekindle's."""
    versions = ("--protocol", "2", "--only-v2") if pair.agent > 1 else ()

    def start(*more: str, **options: Any) -> AbstractAsyncContextManager[Agent]:  # noqa: ANN401 - connect's
        own: tuple[str | Path, ...] = (*EXAMPLE_AGENT, *versions, *more)
        if pair.behind_rekindle:
            options["store"] = tmp_path / "sessions.db"
        else:
            own = (*own, "--offer", "all", "--memory", tmp_path / "memory")
        return connect(own, behind_rekindle=pair.behind_rekindle, protocol=pair.client, **options)

    return start
