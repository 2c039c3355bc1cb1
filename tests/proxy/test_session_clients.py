from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.proxy.session_clients import Attachment, SessionSetup, Translators


def test_a_client_that_loads_a_session_uses_it_without_further_rights() -> None:
    attachment = Attachment()
    assert not attachment.wants_permissions
    assert not attachment.is_observer
    assert not attachment.is_joining


def test_a_session_has_no_setup_before_it_is_opened() -> None:
    assert SessionSetup().params == {}


def test_all_translators_forget_what_a_rewind_has_removed() -> None:
    translators = Translators()
    assert not translators.are_in_use
    translators.forget({"t"})
    translators.to_v1, translators.to_v2 = LiveToV1(), LiveToV2("made")
    assert translators.are_in_use
    translators.to_v1.tool_calls.know(["t"])
    translators.to_v2.know(["t"], has_plan=True)
    translators.to_v2.continue_message(NamedMessage("agent_message_chunk", "m"))
    translators.forget({"t"})
    (call,) = translators.to_v1.tool_calls.tool_call({"toolCallId": "t"})
    assert call["sessionUpdate"] == "tool_call"
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {}}
    assert translators.to_v2.chunk(chunk)["messageId"] == "made-1"
