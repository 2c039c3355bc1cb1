from rekindle.acp.capabilities import Capabilities
from rekindle.proxy.advertising import advertise_v1, advertise_v2

METHODS = (
    "load",
    "list",
    "resume",
    "close",
    "delete",
    "fork",
    "archive",
    "set_title",
    "status",
    "rewind",
    "edit_prompt",
)


def test_a_version_1_client_sees_the_whole_lifecycle_and_who_serves_it() -> None:
    own = {"agentCapabilities": {"sessionCapabilities": {"list": {"x": 1}}, "other": True}}
    capabilities = Capabilities(methods=frozenset({"session/list"}))
    advertised = advertise_v1(own, capabilities, "9")["agentCapabilities"]
    assert advertised["loadSession"] is True
    assert advertised["other"] is True
    assert advertised["sessionCapabilities"]["list"] == {"x": 1}
    assert advertised["sessionCapabilities"]["fork"] == {}
    served_by = advertised["_meta"]["rekindle"]["methods"]
    assert served_by == {it: "agent" if it == "list" else "rekindle" for it in METHODS}


def test_a_version_2_client_sees_all_optional_methods_and_the_cursors() -> None:
    agents = {"fork": {"x": 1}, "archive": None, "prompt": {}}
    own = {"capabilities": {"session": agents, "_meta": {"own": 2}}}
    advertised = advertise_v2(own, Capabilities(protocol=2), "9")["capabilities"]
    assert advertised["session"] == {
        "delete": {},
        "fork": {"x": 1},
        "archive": {},
        "title": {},
        "status": {},
        "prompt": {},
    }
    assert advertised["_meta"]["own"] == 2
    assert advertised["_meta"]["rekindle"]["version"] == "9"
    assert "_rekindle_seq" in advertised["_meta"]["rekindle"]["replayFrom"]


def test_the_marker_of_an_agent_that_can_rewind_is_completed() -> None:
    markers = {"rewind": {"x": 1}}
    v1 = advertise_v1({"agentCapabilities": {"sessionCapabilities": markers}}, Capabilities(), "9")
    shown = v1["agentCapabilities"]["sessionCapabilities"]["rewind"]
    assert shown == {"x": 1, "edit_prompt": True}
    v2 = advertise_v2({"capabilities": {"session": markers}}, Capabilities(protocol=2), "9")
    assert v2["capabilities"]["session"]["rewind"] == shown
