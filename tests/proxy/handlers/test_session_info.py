"""`session/archive`, `session/unarchive`, `session/set_title` and `session/status`."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine_pair import EnginePair, Sent, recorded_session
from rekindle.errors import StoreUnavailable
from rekindle.model import Change, Session
from rekindle.store.memory import MemoryStore
from selection import some

Json = dict[str, Any]
METHODS = ("session/archive", "session/unarchive", "session/set_title", "session/status")


def open_session(*offered: str) -> EnginePair:
    """Return an engine with an open session that had one turn."""
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *offered]))
    pair.do_open("s1")
    pair.do_said("s1 Hello | Hi")
    return pair


def stored(pair: EnginePair) -> Session:
    return pair.record.store.session("s1")


def params_of(method: str, session_id: str = "s1") -> Json:
    return {"sessionId": session_id} | ({"title": "Mine"} if "title" in method else {})


# -- unknown and deleted sessions -------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_deleted_session_is_unknown(method: str) -> None:
    pair = recorded_session()
    pair.do_deleted("s1")
    error = pair.request(1, method, **params_of(method)).error
    assert (error["code"], error["data"]) == (-32002, {"sessionId": "s1"})


@pytest.mark.parametrize("method", METHODS)
def test_a_session_without_a_folder_is_unknown(method: str) -> None:
    pair = recorded_session("archive", "title", "status")
    pair.do_homeless("s2 claude Hello | Hi")
    sent = pair.request(1, method, **params_of(method, "s2"))
    assert (sent.error["code"], sent.error["data"]) == (-32002, {"sessionId": "s2"})
    assert sent.to_agent == []


@pytest.mark.parametrize("method", METHODS)
def test_the_session_of_a_sub_agent_is_unknown(method: str) -> None:
    pair = recorded_session()
    pair.update("sub", "agent_message_chunk", content={"type": "text", "text": "x"})
    assert pair.record.store.session("sub").is_unopened
    error = pair.request(1, method, **params_of(method, "sub")).error
    assert error["code"] == -32002


@pytest.mark.parametrize("method", METHODS)
def test_a_dead_agent_is_not_started(method: str) -> None:
    pair = recorded_session("archive", "title", "status")
    pair.do_ended("1")
    pair.out.clear()
    result = pair.request(1, method, **params_of(method)).result
    assert "_meta" not in result
    assert not any("started" in line for line in pair.out)


@pytest.mark.parametrize("method", METHODS)
def test_an_agent_that_is_about_to_exit_is_not_awaited(method: str) -> None:
    pair = recorded_session()
    pair.do_silent("")
    assert "error" not in pair.request(1, method, **params_of(method)).response


# -- the store --------------------------------------------------------------------------------


class FullStore(MemoryStore):
    """A store that can be read but not written."""

    is_full = False

    def write(self, changes: list[Change], **_: object) -> None:  # type: ignore[override]
        if self.is_full and changes:
            raise StoreUnavailable("the disk is full")
        super().write(changes)


@pytest.mark.parametrize("method", METHODS[:3])
def test_a_change_that_is_not_stored_is_an_error(method: str) -> None:
    pair = EnginePair()
    store = pair.record.store = FullStore()
    pair.do_agent("Fake archive title")
    pair.do_open("s1")
    pair.do_said("s1 Hello | Hi")
    store.is_full = True
    sent = pair.request(1, method, **params_of(method))
    assert sent.error["code"] == -32603
    assert sent.error["message"].endswith("the disk is full")
    # The agent is not asked, and the session stays open.
    assert sent.to_agent == []
    assert pair.request(2, "session/status", sessionId="s1").result["status"] == "open"


def test_the_title_is_stored_before_the_response() -> None:
    pair = open_session("title")
    sent = pair.request(1, "session/set_title", sessionId="s1", title="Mine")
    assert stored(pair).title == "Mine"
    (update,) = sent.to_client
    assert update["params"]["update"] == {"sessionUpdate": "session_info_update", "title": "Mine"}
    assert pair.reply(sent.call["id"], {"title": "other"}).result == {"title": "Mine"}


def test_a_replay_has_the_title() -> None:
    pair = recorded_session()
    pair.request(1, "session/set_title", sessionId="s1", title="Mine")
    sent = pair.request(2, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    sent = pair.reply(sent.call["id"], {"sessionId": "a2"})
    updates = [it["params"]["update"] for it in sent.to_client if "params" in it]
    (update,) = [it for it in updates if it["sessionUpdate"] == "session_info_update"]
    assert update["title"] == "Mine"


def test_a_closed_session_gets_no_update() -> None:
    pair = open_session()
    pair.request(1, "session/close", sessionId="s1")
    sent = pair.request(2, "session/set_title", sessionId="s1", title="Mine")
    assert sent.result == {"title": "Mine"}
    pair.request(3, "session/resume", sessionId="s1", cwd="/p")
    (update,) = pair.update("s1", "session_info_update", title="Theirs").to_client
    assert "title" not in update["params"]["update"]


# -- archiving --------------------------------------------------------------------------------


def test_an_archived_session_is_freed_at_an_agent_that_cannot_close() -> None:
    pair = open_session("archive", "resume")
    sent = pair.request(1, "session/archive", sessionId="s1")
    assert sent.call["method"] == "session/archive"
    assert pair.reply(sent.call["id"], {}).result == {}
    # Late updates of the agent are ignored, and the session has to be restored.
    text = {"type": "text", "text": "late"}
    assert pair.update("s1", "agent_message_chunk", content=text).to_client == []
    sent = pair.request(2, "session/resume", sessionId="s1", cwd="/p")
    assert sent.call["method"] == "session/resume"
    assert pair.reply(sent.call["id"], {}).result["_meta"]["rekindle"] == {"restored": "native"}
    assert stored(pair).archived_us is not None


def test_a_prompt_to_an_archived_session_is_refused() -> None:
    pair = open_session()
    assert pair.request(1, "session/archive", sessionId="s1").result == {}
    assert pair.request(2, "session/prompt", sessionId="s1", prompt=[]).error["code"] == -32002


def test_archiving_releases_the_lease() -> None:
    pair = open_session()
    assert pair.record.store.leased_ids() == {"s1"}
    pair.request(1, "session/archive", sessionId="s1")
    assert pair.record.store.leased_ids() == set()


def test_a_session_of_another_process_is_archived_and_stays_open_there() -> None:
    pair = recorded_session()
    pair.do_held("s1")
    assert pair.request(1, "session/archive", sessionId="s1").result == {}
    assert stored(pair).archived_us is not None
    assert pair.record.store.leased_ids() == {"s1"}


def test_a_failed_archive_at_the_agent_is_not_taken_for_its_state() -> None:
    pair = open_session("archive", "list")
    sent = pair.request(1, "session/archive", sessionId="s1")
    pair.fail(sent.call["id"])
    session = stored(pair)
    assert (session.is_archived_by_agent, session.archived_us is not None) == (False, True)
    call = pair.request(2, "session/list").call
    row = {"sessionId": "s1", "cwd": "/p", "archived": False}
    assert pair.reply(call["id"], {"sessions": [row]}).result["sessions"] == []


def test_an_agent_that_has_lost_the_session_is_not_reported() -> None:
    pair = recorded_session("archive")
    sent = pair.request(1, "session/archive", sessionId="s1")
    result = pair.fail(sent.call["id"], -32002, "who?").result
    assert result["_meta"]["rekindle"]["agentError"] == {"code": -32002, "message": "who?"}
    assert pair.reports == []


def test_an_error_without_a_reason_is_reported() -> None:
    pair = recorded_session("archive")
    call = pair.request(1, "session/archive", sessionId="s1").call
    result = pair.from_agent({"id": call["id"], "error": {"code": -1}}).result
    error = {"code": -1, "message": "the agent gave no reason"}
    assert result["_meta"]["rekindle"]["agentError"] == error
    assert len(pair.reports) == 1


def test_a_session_of_another_agent_is_not_the_agents_to_change() -> None:
    pair = recorded_session()
    pair.do_killed("")
    pair.do_agent("Other archive title status")
    for method in METHODS:
        sent = pair.request(1, method, **params_of(method))
        assert sent.to_agent == []
        assert "error" not in sent.response


def test_an_id_that_the_agent_uses_for_another_session_is_not_changed() -> None:
    pair = recorded_session("archive")
    pair.do_open("s1")
    sent = pair.request(1, "session/archive", sessionId="s1")
    assert sent.to_agent == []
    assert stored(pair).archived_us is not None


def test_a_session_that_was_handed_over_is_changed_under_its_new_id() -> None:
    pair = recorded_session("title")
    loading = pair.request(1, "session/resume", sessionId="s1", cwd="/p")
    pair.reply(loading.call["id"], {"sessionId": "a2"})
    sent = pair.request(2, "session/set_title", sessionId="s1", title="Mine")
    assert sent.call["params"] == {"sessionId": "a2", "title": "Mine"}


# -- status -----------------------------------------------------------------------------------


def contents(store: MemoryStore) -> object:
    return [vars(it) if hasattr(it, "__dict__") else it for it in store._records.values()]  # noqa: SLF001


def test_status_changes_nothing() -> None:
    pair = recorded_session("list", "load", "resume")
    before = str(contents(pair.record.store)), pair.record.store.leased_ids()
    sent = pair.request(1, "session/status", sessionId="s1")
    assert sent.result == {"status": "saved"}
    assert (sent.to_agent, sent.recorded) == ([], [])
    assert (str(contents(pair.record.store)), pair.record.store.leased_ids()) == before


def test_a_session_that_another_process_uses_is_open() -> None:
    pair = recorded_session()
    pair.do_held("s1")
    assert pair.request(1, "session/status", sessionId="s1").result == {"status": "open"}
    pair.do_freed("s1")
    assert pair.request(2, "session/status", sessionId="s1").result == {"status": "saved"}


def test_a_session_is_open_while_its_agent_is_down() -> None:
    pair = open_session()
    pair.do_ended("1")
    assert pair.request(1, "session/status", sessionId="s1").result == {"status": "open"}


def test_a_closed_session_is_saved_even_if_the_agent_keeps_it() -> None:
    pair = open_session("status")
    pair.request(1, "session/close", sessionId="s1")
    sent = pair.request(2, "session/status", sessionId="s1")
    assert (sent.result, sent.to_agent) == ({"status": "saved"}, [])


@pytest.mark.parametrize("result", [{}, {"status": 1}, None, []])
def test_a_malformed_status_of_the_agent_does_not_count(result: object) -> None:
    pair = recorded_session("status")
    call = pair.request(1, "session/status", sessionId="s1").call
    assert pair.reply(call["id"], result).result == {"status": "saved"}


@pytest.mark.parametrize("state", [None, {"state": "running"}, "running"])
def test_a_version_2_client_receives_the_agents_state(state: object) -> None:
    pair = EnginePair()
    pair.do_speaks("2 2")
    pair.do_agent("Fake status")
    call = pair.request(1, "session/status", sessionId="theirs").call
    result = pair.reply(call["id"], {"status": "open", "state": state}).result
    shown = {"state": state} if isinstance(state, dict) else {}
    assert result == {"status": "open", **shown}


def test_a_waiting_permission_request_is_a_state() -> None:
    pair = EnginePair()
    pair.do_speaks("2 1")
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.request(1, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Go"}])
    ask = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": []}
    pair.from_agent({"id": 9, "method": "session/request_permission", "params": ask})
    result = pair.request(2, "session/status", sessionId="s1").result
    assert result == {"status": "open", "state": {"state": "requires_action"}}


# -- any order of requests --------------------------------------------------------------------

ACTIONS = st.tuples(
    st.sampled_from(["archive", "unarchive", "set_title", "close", "load", "cli", "fail"]),
    st.sampled_from(["s1", "s2"]),
)


@settings(max_examples=some(60))
@given(actions=st.lists(ACTIONS, max_size=12), has_methods=st.booleans(), version=st.integers(1, 2))
def test_the_list_follows_the_requests(
    actions: list[tuple[str, str]], *, has_methods: bool, version: int
) -> None:
    pair = EnginePair()
    pair.do_speaks(f"{version} 1")
    pair.do_agent("Fake close resume" + " archive title status" * has_methods)
    archived, titles, is_open = {}, {}, {}
    for name in ("s1", "s2"):
        pair.do_open(name)
        session = pair.record.store.session(name)
        assert session.turns == 0
        pair.request(1, "session/prompt", sessionId=name, prompt=[{"type": "text", "text": name}])
        settle(pair, {"stopReason": "end_turn"})
        archived[name], titles[name], is_open[name] = False, name, True
    for number, (action, name) in enumerate(actions):
        match action:
            case "cli":
                pair.do_archived(name)
                archived[name] = True
                continue
            case "set_title" | "fail":
                titles[name] = f"Title {number}"
                method, params = "set_title", {"title": f" Title  {number} "}
            case "load":
                method, params = "resume", {"cwd": "/p"}
                is_open[name] = True
            case _:
                method, params = action, {}
                archived[name] = {"archive": True, "unarchive": False}.get(action, archived[name])
                is_open[name] = is_open[name] and action == "unarchive"
        pair.request(2, f"session/{method}", sessionId=name, **params)
        settle(pair, {"sessionId": name, "title": "other"}, fails=action == "fail")
        assert not pair.reports or (action == "fail" and has_methods)
        pair.reports.clear()
        for wanted in ("exclude", "include", "only"):
            rows = pair.request(3, "session/list", archived=wanted).result["sessions"]
            assert {row["sessionId"]: row["archived"] for row in rows} == {
                id_: is_archived
                for id_, is_archived in archived.items()
                if wanted == "include" or is_archived is (wanted == "only")
            }
            assert all(row["title"] == titles[row["sessionId"]] for row in rows)
        status = "open" if is_open[name] else "saved"
        pair.request(4, "session/status", sessionId=name)
        response = settle(pair, {"status": "saved"})
        assert response["result"]["status"] == status


def settle(pair: EnginePair, result: Json, *, fails: bool = False) -> Json:
    """Answer the calls to the agent; return the last message to the client."""
    shown: list[Json] = []
    sent = Sent(pair.out)
    while True:
        shown += sent.to_client
        calls = [it for it in sent.to_agent if "id" in it]
        if not calls:
            return shown[-1]
        (call,) = calls
        sent = pair.fail(call["id"]) if fails else pair.reply(call["id"], result)
