import pytest
from msgspec.structs import replace

from rekindle.model import AgentIdentity, EntryBatch, Kind, Session, Side


def test_each_side_has_a_peer() -> None:
    assert [side.peer for side in Side] == [Side.AGENT, Side.CLIENT]


def test_an_agents_program_is_the_name_of_its_command() -> None:
    assert AgentIdentity(command=("/opt/bin/agent", "acp")).program == "agent"
    assert AgentIdentity().program is None


def test_agent_identity_is_its_name_or_else_its_program() -> None:
    command = ("/opt/bin/agent", "acp")
    assert AgentIdentity(name="Agent", command=command).identity == "Agent"
    assert AgentIdentity(name="", command=command).identity == "agent"
    assert AgentIdentity(command=command).identity == "agent"
    assert AgentIdentity(version="1").identity == ""


def test_a_line_of_a_stretch_has_no_newline() -> None:
    def stretch(data: bytes, count: int) -> EntryBatch:
        return EntryBatch(
            session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=data, count=count
        )

    assert stretch(b"a\nb", 2).lines == [b"a", b"b"]
    assert stretch(b"", 1).lines == [b""]
    with pytest.raises(ValueError, match="newline"):
        stretch(b"a\nb", 1)


def test_a_purged_session_is_a_deleted_one_with_nothing_in_it() -> None:
    purged = Session(
        id="s",
        agent_session_id="s",
        agent=AgentIdentity(),
        cwd=None,
        directories=(),
        title=None,
        title_source=None,
        created_us=1,
        updated_us=1,
        parent_id=None,
        archived_us=None,
        deleted_us=1,
        last_seq=0,
        turns=0,
        messages=0,
    )
    assert purged.is_purged
    for told in ({"deleted_us": None}, {"cwd": "/p"}, {"turns": 1}, {"messages": 1}):
        assert not replace(purged, **told).is_purged
