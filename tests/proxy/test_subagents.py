"""The registry of sub-agents: ids, parents, and what is forgotten with a session."""

from rekindle.jsonvalue import Json
from rekindle.proxy.live_session import LiveSession, LiveSessions
from rekindle.proxy.session_clients import SuffixedIds
from rekindle.proxy.subagents import LiveSubagent, Subagents, is_announcement


def update(session_id: object, **fields: object) -> Json:
    return {"sessionUpdate": "subagent_update", "sessionId": session_id, **fields}


class Family:
    """Two sessions of an agent, `s` and `t`, and their sub-agents."""

    def __init__(self) -> None:
        self.sessions = LiveSessions()
        self.s = self.sessions.bind("s", "agent-s")
        self.t = self.sessions.bind("t", "t")
        self.subagents = Subagents()

    def announce(
        self, parent: LiveSession | LiveSubagent, session_id: object
    ) -> LiveSubagent | None:
        return self.subagents.announce(parent, update(session_id), self.sessions)

    def add(self, parent: LiveSession | LiveSubagent, session_id: str) -> LiveSubagent:
        subagent = self.announce(parent, session_id)
        assert subagent is not None
        return subagent


def test_a_sub_agent_keeps_the_agents_id() -> None:
    family = Family()
    assert not family.subagents
    child = family.add(family.s, "c")
    nested = family.add(child, "d")
    assert (child.id, child.parent_id, child.record_id) == ("c", "s", "s.c")
    assert (nested.parent_id, nested.record_id, nested.parent_record_id) == ("c", "s.c.d", "s.c")
    assert (child.parent_agent_id, nested.parent_agent_id) == ("agent-s", "c")
    assert nested.root is family.s
    assert family.subagents.of("s") == [child, nested]
    assert family.subagents.record_id("d") == "s.c.d"
    assert family.subagents.record_id("s") == "s"
    assert family.announce(family.s, "c") is child
    assert family.subagents


def test_an_id_that_the_client_knows_already_gets_a_number() -> None:
    family = Family()
    family.sessions.bind("c", "another")
    assert family.add(family.s, "c").id == "c~2"
    family.s.suffixed = SuffixedIds(frozenset({"d"}), "~x")
    assert family.add(family.s, "d").id == "d~x"


def test_an_announcement_of_something_else_is_ignored() -> None:
    family = Family()
    child = family.add(family.s, "c")
    assert family.announce(family.s, None) is None
    assert family.announce(family.s, "t") is None
    assert family.announce(family.t, "c") is None
    assert family.subagents.of("t") == []
    assert child.parent_id == "s"


def test_ids_in_updates_become_those_of_the_client() -> None:
    family = Family()
    family.sessions.bind("c", "another")
    family.add(family.s, "c")
    message = {"senderSessionId": "agent-s", "recipientSessionId": "c", "x": "agent-s"}
    assert family.subagents.with_client_ids(message, family.sessions) == {
        "senderSessionId": "s",
        "recipientSessionId": "c~2",
        "x": "agent-s",
    }
    same = {"senderSessionId": "t", "recipientSessionId": "unknown"}
    assert family.subagents.with_client_ids(same, family.sessions) is same


def test_sub_agents_are_forgotten_with_their_session_or_agent() -> None:
    family = Family()
    child = family.add(family.s, "c")
    family.add(child, "d")
    other = family.add(family.t, "e")
    assert family.subagents.drop("s") == ["c", "d"]
    assert family.subagents.get("c") is family.subagents.get_by_agent_id("d") is None
    assert family.subagents.get("e") is other
    family.subagents.agent_exited()
    assert not family.subagents


def test_only_reported_work_counts_as_working() -> None:
    family = Family()
    child = family.add(family.s, "c")
    working: list[object] = []
    for state in (None, {"state": "running"}, {"state": "requires_action"}, {"state": "idle"}):
        family.subagents.announce(family.s, update("c", state=state), family.sessions)
        working.append(list(family.subagents.working()) == [child])
    assert working == [False, True, True, False]


def test_history_that_the_record_has_is_ignored() -> None:
    family = Family()
    family.s.updates.discard_history()
    family.s.memory.advance("restore")
    child = family.add(family.s, "c")
    assert child.is_ignored
    family.s.memory.advance("restored")
    assert child.is_ignored
    family.add(family.s, "c")
    assert not child.is_ignored
    family.s.is_closed = True
    assert child.is_ignored


def test_announcements() -> None:
    assert is_announcement("subagent_update")
    assert not is_announcement("session_message")
