import pytest

from rekindle.model import LeaseHolder
from rekindle.proxy.flow import AgentReply, Refusal
from rekindle.proxy.validation import (
    LeasedElsewhere,
    check_folder,
    lost_session,
    outlived_session,
    read_session_id,
    read_setup,
    refusal_of,
    rekindle_meta,
    unknown_session,
)


@pytest.mark.parametrize("value", [None, "", 5, []])
def test_a_session_id_must_be_a_text(value: object) -> None:
    with pytest.raises(Refusal) as refused:
        read_session_id("session/load", {"sessionId": value})
    assert (refused.value.code, refused.value.data) == (
        -32602,
        {"field": "sessionId", "value": value},
    )


@pytest.mark.parametrize("path", ["relative", "", None, 5, "/a\0b", "/a\ud800"])
def test_a_folder_must_be_an_absolute_path(path: object) -> None:
    with pytest.raises(Refusal, match="session/new: cwd must be"):
        check_folder("session/new", "cwd", path)


def test_a_setup_lacks_what_only_rekindle_reads() -> None:
    params = {
        "sessionId": "s1",
        "cwd": "/p",
        "replayFrom": {"type": "start"},
        "additionalDirectories": ["/q"],
        "_meta": {"rekindle": {"x": 1}, "other": 2},
    }
    assert read_setup("session/resume", params) == {
        "cwd": "/p",
        "additionalDirectories": ["/q"],
        "_meta": {"other": 2},
        "mcpServers": [],
    }


def test_a_setup_keeps_the_servers_of_the_client() -> None:
    params = {"cwd": "/p", "mcpServers": [{"name": "x"}]}
    assert read_setup("session/new", params) == params


@pytest.mark.parametrize("directories", ["/p", {}, 5])
def test_additional_directories_must_be_an_array(directories: object) -> None:
    with pytest.raises(Refusal, match="additionalDirectories must be an array of paths"):
        read_setup("session/new", {"cwd": "/p", "additionalDirectories": directories})


def test_each_additional_directory_must_be_absolute() -> None:
    with pytest.raises(Refusal, match="additionalDirectories must be an absolute path"):
        read_setup("session/new", {"cwd": "/p", "additionalDirectories": ["/a", "b"]})


def test_the_meta_of_a_request_may_be_of_any_type() -> None:
    assert rekindle_meta({"_meta": {"rekindle": {"a": 1}}}) == {"a": 1}
    assert rekindle_meta({"_meta": 5}) == {}


def test_the_refusal_of_a_leased_session_names_its_holder() -> None:
    refusal = LeasedElsewhere(
        "s1",
        LeaseHolder(token="t", pid=7, machine="there"),  # noqa: S106 - not a password
        may_take_over=False,
    )
    assert "process 7 on there" in refusal.message
    assert refusal.data == {"sessionId": "s1", "pid": 7, "host": "there"}


def test_an_unknown_session_may_have_a_reason() -> None:
    assert unknown_session("s1").message == "no session s1"
    assert unknown_session("s1", "it left").message == "cannot use session s1: it left"


def test_the_agents_own_error_is_forwarded() -> None:
    refusal = refusal_of(AgentReply(error={"code": 5, "message": "no", "data": 1}), "fly")
    assert (refusal.code, refusal.message, refusal.data) == (5, "no", 1)


@pytest.mark.parametrize("error", [None, {}, {"code": "5", "message": "no"}, {"code": 5}])
def test_an_agent_without_a_usable_error_did_not_answer(error: dict[str, object] | None) -> None:
    refusal = refusal_of(AgentReply(error=error), "fly")
    assert (refusal.code, refusal.message) == (
        -32603,
        "the agent did not answer the request to fly",
    )


def test_a_session_id_with_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Refusal, match="sessionId contains half of a surrogate pair") as refused:
        read_session_id("session/resume", {"sessionId": "s\ud800"})
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("may_take_over", "remedy"),
    [
        (False, "restart Rekindle with --takeover to use it here"),
        (True, "load or resume it again to use it here"),
    ],
)
def test_the_advice_for_a_leased_session_is_one_that_helps(
    *, may_take_over: bool, remedy: str
) -> None:
    holder = LeaseHolder(token="t", pid=7, machine="there")  # noqa: S106 - not a password
    refusal = LeasedElsewhere("s1", holder, may_take_over=may_take_over)
    assert refusal.message.endswith(f"or {remedy}")


def test_a_lost_session_names_the_other_process() -> None:
    error = lost_session("s", LeaseHolder(token="t", pid=7, machine="there"))  # noqa: S106
    assert error["message"] == (
        "another process has taken over this session (pid 7 on there); open it again to continue"
        " there"
    )
    assert error["data"] == {"sessionId": "s", "pid": 7, "host": "there"}


@pytest.mark.parametrize(("pid", "host"), [(7, "process 7"), (0, "a process")])
def test_the_refusal_for_a_running_agent_names_two_remedies(pid: int, host: str) -> None:
    former = LeaseHolder(token="t", pid=pid, machine="there", agent_group=99)  # noqa: S106
    refusal = outlived_session("s", former)
    assert str(refusal) == (
        f"this session was in use by {host} on there, whose agent still runs: end it with"
        " `kill -- -99`, or open the session again to continue anyway"
    )
