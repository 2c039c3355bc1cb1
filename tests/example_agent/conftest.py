from collections.abc import Callable, Iterator

import pytest

from acp import EXAMPLE_AGENT, Client

Start = Callable[..., Client]


@pytest.fixture
def agent() -> Iterator[Start]:
    """Start agents of the test's own."""
    clients: list[Client] = []

    def start(*flags: str) -> Client:
        clients.append(Client(*EXAMPLE_AGENT, *flags))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """Start one agent for all tests that need only a session of their own."""
    client = Client(*EXAMPLE_AGENT, "--offer", "all")
    yield client
    client.close()


@pytest.fixture
def client(shared: Client) -> Client:
    shared.passed.clear()
    return shared
