import pytest
from msgspec.structs import replace

from rekindle.model import (
    AgentIdentity,
    EntryBatch,
    IncomingSession,
    Kind,
    Session,
    Side,
    TitleSource,
)


def test_each_side_has_a_peer() -> None:
    assert [side.peer for side in Side] == [Side.AGENT, Side.CLIENT]


def test_program_of_an_agent_is_the_name_of_its_command() -> None:
    assert AgentIdentity(command=("/opt/bin/agent", "acp")).program == "agent"
    assert AgentIdentity().program is None


def test_agent_identity_is_its_name_or_else_its_program() -> None:
    command = ("/opt/bin/agent", "acp")
    assert AgentIdentity(name="Agent", command=command).identity == "Agent"
    assert AgentIdentity(name="", command=command).identity == "agent"
    assert AgentIdentity(command=command).identity == "agent"
    assert AgentIdentity(version="1").identity == ""


def test_lines_of_a_batch_have_no_newline() -> None:
    def batch(data: bytes, count: int) -> EntryBatch:
        return EntryBatch(
            session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=data, count=count
        )

    assert batch(b"a\nb", 2).lines == [b"a", b"b"]
    assert batch(b"", 1).lines == [b""]
    with pytest.raises(ValueError, match="newline"):
        batch(b"a\nb", 1)


@pytest.fixture
def purged() -> Session:
    return Session(
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


def test_purged_session_is_deleted_and_empty(purged: Session) -> None:
    assert purged.is_purged
    for change in ({"deleted_us": None}, {"cwd": "/p"}, {"turns": 1}, {"messages": 1}):
        assert not replace(purged, **change).is_purged


def test_session_to_merge_has_no_more_turns_than_entries(purged: Session) -> None:
    session = replace(purged, cwd="/p", last_seq=3, turns=9, messages=2)
    incoming = IncomingSession.from_session(session, {TitleSource.USER: "Mine"})
    assert (incoming.cwd, incoming.titles) == ("/p", {TitleSource.USER: "Mine"})
    assert (incoming.turns, incoming.messages) == (3, 2)
