from collections.abc import Callable, Iterator

import pytest

from stdio_client import EXAMPLE_AGENT, Client
from stdio_client_v2 import ClientV2

Start = Callable[..., Client]
StartV2 = Callable[..., ClientV2]


@pytest.fixture
def agent() -> Iterator[Start]:
    """Start agents for one test."""
    clients: list[Client] = []

    def start(*flags: str) -> Client:
        clients.append(Client(*EXAMPLE_AGENT, *flags))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def agent_v2() -> Iterator[StartV2]:
    """Start agents of version 2 for one test."""
    clients: list[ClientV2] = []

    def start(*flags: str) -> ClientV2:
        clients.append(ClientV2(*EXAMPLE_AGENT, "--protocol", "2", *flags))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """Start one agent for all tests that need only their own session."""
    client = Client(*EXAMPLE_AGENT, "--offer", "all")
    yield client
    client.close()


@pytest.fixture
def client(shared: Client) -> Client:
    shared.received.clear()
    return shared


@pytest.fixture(scope="module")
def shared_v2() -> Iterator[ClientV2]:
    """Start one agent of version 2 for all tests that need only their own session."""
    client = ClientV2(*EXAMPLE_AGENT, "--protocol", "2", "--offer", "all")
    yield client
    client.close()


@pytest.fixture
def v2(shared_v2: ClientV2) -> ClientV2:
    shared_v2.received.clear()
    return shared_v2
