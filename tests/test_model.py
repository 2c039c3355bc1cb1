from rekindle.model import AgentIdentity, Side


def test_each_side_has_a_peer() -> None:
    assert [side.peer for side in Side] == [Side.AGENT, Side.CLIENT]


def test_an_agents_program_is_the_name_of_its_command() -> None:
    assert AgentIdentity(command=("/opt/bin/agent", "acp")).program == "agent"
    assert AgentIdentity().program is None
