from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stdio_client import REKINDLE, Client

Start = Callable[..., Client]


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "sessions.db"


@pytest.fixture
def start(store_path: Path) -> Iterator[Start]:
    """Start agents behind `rekindle run`."""
    clients: list[Client] = []

    def start(*command: str | Path, options: tuple[str | Path, ...] = ()) -> Client:
        client = Client(*REKINDLE, "run", "--store", store_path, *options, "--", *command)
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()
