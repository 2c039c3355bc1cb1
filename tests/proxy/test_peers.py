from rekindle.proxy.peers import (
    AGENT,
    FIRST_CLIENT,
    LEFT_CLIENT,
    NO_CLIENT,
    ClientConnection,
)


def test_the_agent_and_the_clients_have_different_numbers() -> None:
    assert LEFT_CLIENT < NO_CLIENT < AGENT < FIRST_CLIENT


def test_a_client_uses_version_1_until_it_says_otherwise() -> None:
    assert ClientConnection(peer=FIRST_CLIENT).protocol == 1
