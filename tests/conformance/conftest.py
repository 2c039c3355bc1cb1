from collections.abc import Iterator

import pytest

from warm_start import forked_agents


@pytest.fixture(autouse=True)
def agents_start_quickly() -> Iterator[None]:
    """Fork the agents, because each scenario starts one."""
    with forked_agents():
        yield
