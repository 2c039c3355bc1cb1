"""The marks of sessions that only the agent has."""

from typing import Any

import pytest

from engine_pair import EnginePair, Sent
from rekindle.model import Titled, TitleSource

Json = dict[str, Any]
ROW = {"sessionId": "theirs", "cwd": "/p", "title": "Theirs"}
TEXT = {"type": "text", "text": "Hi"}


def pair_with(*offered: str) -> EnginePair:
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *offered]))
    return pair


def listing(pair: EnginePair, sent: Sent, *rows: Json) -> Sent:
    """Let the agent answer its `session/list`."""
    assert sent.call["method"] == "session/list"
    return pair.reply(sent.call["id"], {"sessions": rows})


def marked(*offered: str) -> EnginePair:
    """Return an engine whose client has renamed and archived a session of the agent."""
    pair = pair_with("list", *offered)
    listing(pair, pair.request(1, "session/archive", sessionId="theirs"), ROW)
    assert pair.request(2, "session/set_title", sessionId="theirs", title="Mine").to_agent == []
    return pair


def rows(pair: EnginePair, wanted: str) -> list[Json]:
    found: list[Json] = listing(pair, pair.request(3, "session/list", archived=wanted), ROW).result[
        "sessions"
    ]
    return found


def test_the_list_shows_the_marks() -> None:
    pair = marked()
    (row,) = rows(pair, "only")
    assert (row["title"], row["archived"]) == ("Mine", True)
    assert row["_meta"]["rekindle"] == {"isRecorded": False}
    assert rows(pair, "exclude") == []
    assert pair.request(4, "session/unarchive", sessionId="theirs").result == {}
    (row,) = rows(pair, "exclude")
    assert (row["title"], row["archived"]) == ("Mine", False)


@pytest.mark.parametrize(
    ("method", "fields", "title", "archived"),
    [("archive", {}, "Theirs", True), ("set_title", {"title": "Mine"}, "Mine", False)],
)
def test_one_mark_leaves_the_rest_to_the_agent(
    method: str, fields: Json, title: str, *, archived: bool
) -> None:
    pair = pair_with("list")
    listing(pair, pair.request(1, f"session/{method}", sessionId="theirs", **fields), ROW)
    (row,) = rows(pair, "include")
    assert (row["title"], row["archived"]) == (title, archived)


def test_the_marks_survive_without_the_agent() -> None:
    pair = marked()
    pair.do_ended("1")
    assert pair.request(4, "session/status", sessionId="theirs").result == {"status": "saved"}
    assert pair.request(5, "session/unarchive", sessionId="theirs").result == {}
    assert pair.request(6, "session/archive", sessionId="other").error["code"] == -32002


def test_a_session_without_marks_is_listed_as_before() -> None:
    pair = pair_with("list", "load")
    listing(pair, pair.request(1, "session/archive", sessionId="theirs"), ROW)
    assert rows(pair, "exclude") == []
    assert pair.request(2, "session/unarchive", sessionId="theirs").result == {}
    (row,) = rows(pair, "exclude")
    assert (row["title"], row["archived"]) == ("Theirs", False)
    listing(pair, pair.request(4, "session/set_title", sessionId="theirs", title="Mine"), ROW)
    cleared = Titled(session_id="theirs", at_us=1, source=TitleSource.USER, title=None)
    pair.record.store.write([cleared])
    (row,) = rows(pair, "exclude")
    assert row["title"] == "Theirs"
    # It can still be opened.
    loading = load(pair)
    for kind in ("user_message_chunk", "agent_message_chunk"):
        pair.update("theirs", kind, content=TEXT)
    assert pair.reply(loading.call["id"], {}).result["_meta"]["rekindle"] == {"restored": "native"}
    assert pair.record.store.session("theirs").turns == 1


@pytest.mark.parametrize("row", [{**ROW, "parentSessionId": "x"}, {"sessionId": "theirs"}])
def test_a_session_that_is_not_listed_is_unknown(row: Json) -> None:
    for method in ("session/archive", "session/unarchive", "session/status"):
        pair = pair_with("list")
        sent = listing(pair, pair.request(1, method, sessionId="theirs"), row)
        assert sent.error["code"] == -32002
        assert sent.error["data"] == {"sessionId": "theirs"}
        assert sent.recorded == []


def load(pair: EnginePair) -> Sent:
    return pair.request(5, "session/load", sessionId="theirs", cwd="/p", mcpServers=[])


def test_an_adopted_session_keeps_the_marks() -> None:
    pair = marked("load")
    loading = load(pair)
    pair.update("theirs", "user_message_chunk", content=TEXT)
    pair.update("theirs", "agent_message_chunk", content=TEXT)
    pair.update("theirs", "session_info_update", title="Theirs")
    assert pair.reply(loading.call["id"], {}).result["_meta"]["rekindle"] == {"restored": "native"}
    session = pair.record.store.session("theirs")
    assert (session.title, session.turns, session.cwd) == ("Mine", 1, "/p")
    assert session.archived_us is not None
    # The client learns the user's title with the next prompt, and never the agent's.
    pair.request(6, "session/prompt", sessionId="theirs", prompt=[TEXT])
    update, _ = pair.reply(6, {"stopReason": "end_turn"}).to_client
    assert update["params"]["update"]["title"] == "Mine"


def test_a_title_of_the_agent_is_hidden_from_a_client_that_adopts() -> None:
    pair = marked("load")
    load(pair)
    (update,) = pair.update("theirs", "session_info_update", title="Theirs").to_client
    assert "title" not in update["params"]["update"]


def test_a_failed_adoption_keeps_the_marks() -> None:
    pair = marked("load")
    sent = pair.fail(load(pair).call["id"])
    assert sent.error["code"] == -32002
    (row,) = rows(pair, "only")
    assert (row["title"], row["archived"]) == ("Mine", True)


def test_a_failed_adoption_of_an_unmarked_session_leaves_nothing() -> None:
    pair = pair_with("load")
    pair.fail(load(pair).call["id"])
    assert pair.record.store.known_ids(["theirs"]) == set()


def test_a_deleted_placeholder_is_not_listed() -> None:
    pair = marked()
    assert pair.request(4, "session/delete", sessionId="theirs").result == {}
    assert rows(pair, "include") == []
    assert pair.request(5, "session/unarchive", sessionId="theirs").error["code"] == -32002
