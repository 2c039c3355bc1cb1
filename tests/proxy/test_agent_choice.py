"""The option that chooses the agent."""

from engine_pair import EnginePair
from rekindle.proxy.agent_choice import OPTION_ID


def offering(*flags: str) -> EnginePair:
    pair = EnginePair()
    pair.do_with(" ".join(["agents", *flags]))
    pair.do_agent("First")
    pair.do_open("s1")
    return pair


def test_an_option_of_this_name_is_the_agents_if_there_is_no_choice() -> None:
    pair = EnginePair()
    pair.do_agent("First")
    pair.do_open("s1")
    params = {"sessionId": "s1", "configId": OPTION_ID, "value": "second"}
    assert pair.request(7, "session/set_config_option", **params).call["params"] == params


def test_lines_without_a_list_of_options_stay_unchanged() -> None:
    pair = offering()
    text = {"type": "text", "text": '"configOptions":'}
    sent = pair.update("s1", "agent_message_chunk", content=text, x={"configOptions": 1})
    assert sent.to_client[0]["params"]["update"]["x"] == {"configOptions": 1}
    broken = '{"method":"x","params":{"configOptions":[}'
    pair.out.clear()
    pair.play(f"a> {broken}")
    assert f"<c {broken}" in pair.out
