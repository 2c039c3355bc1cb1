import base64

from rekindle.acp.terminal_output import Terminal
from rekindle.transcript.model import ToolCallItem
from rekindle.transcript.terminals import (
    fold_client_output,
    fold_meta,
    fold_output_chunk,
    fold_update,
    retire,
)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def call_with(*terminal_ids: str) -> ToolCallItem:
    content = [{"type": "terminal", "terminalId": it} for it in terminal_ids]
    return ToolCallItem(id="t", seq=1, at_us=1, fields={"content": content})


def test_updates_replace_output_and_chunks_extend_it() -> None:
    terminals: dict[str, Terminal] = {}
    fold_update(terminals, {"terminalId": "x", "command": "ls"}, 1)
    fold_output_chunk(terminals, {"terminalId": "x", "data": encoded("a")}, 2)
    fold_output_chunk(terminals, {"terminalId": "x", "data": encoded("b")}, 3)
    assert (terminals["x"].text, terminals["x"].rest) == ("ab", {"command": "ls"})
    fold_update(terminals, {"terminalId": "x", "output": {"data": encoded("c")}}, 4)
    assert (terminals["x"].text, terminals["x"].last_seq) == ("c", 4)


def test_output_of_a_client_terminal_replaces_the_earlier_one() -> None:
    terminals: dict[str, Terminal] = {}
    fold_client_output(terminals, {"terminalId": "x", "output": "a"}, 1)
    fold_client_output(terminals, {"terminalId": "x", "output": "ab"}, 2)
    assert terminals["x"].text == "ab"


def test_output_in_meta_is_appended() -> None:
    terminals: dict[str, Terminal] = {}
    fold_meta(terminals, {"terminal_output": {"terminal_id": "x", "data": "a"}}, 1)
    fold_meta(terminals, {"terminal_output_delta": {"terminal_id": "x", "data": "b"}}, 2)
    fold_meta(terminals, {"terminal_output": {"terminal_id": "x"}}, 3)
    assert (terminals["x"].text, terminals["x"].last_seq) == ("ab", 2)


def test_retired_terminals_get_a_suffix_in_their_tool_calls() -> None:
    terminals = {"x": Terminal(), "y~1": Terminal()}
    calls = [call_with("x", "y~1"), call_with("z")]
    retire(terminals, calls, "~2")
    assert terminals.keys() == {"x~2", "y~1"}
    shown = [part["terminalId"] for part in calls[0].fields["content"]]
    assert shown == ["x~2", "y~1"]
    assert calls[1].fields["content"][0]["terminalId"] == "z"
