from rekindle.transcript.item_index import IdRegistry, ItemIndex
from rekindle.transcript.model import PlanItem, Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.subagents import SubagentItem


def test_removed_items_are_forgotten_and_the_others_kept() -> None:
    message = TranscriptMessage(role=Role.AGENT, seq=1, at_us=1, id="m")
    call = ToolCallItem(seq=2, at_us=1, id="t", fields={})
    plan = PlanItem(seq=3, at_us=1, entries=[], id="p")
    subagent = SubagentItem(id="a", seq=4, at_us=1)
    kept = SubagentItem(id="b", seq=5, at_us=1)
    index = ItemIndex(
        by_id={(Role.AGENT, "m"): message},
        made_ids={Role.AGENT: "made"},
        last_with_made_id=message,
        tool_calls={"t": call},
        plans={"p": plan},
    )
    index.links.subagents = {"a": subagent, "b": kept}
    index.forget([message, call, subagent])
    assert (index.by_id, index.tool_calls, index.made_ids) == ({}, {}, {})
    assert index.last_with_made_id is None
    assert index.plans == {"p": plan}
    assert index.links.subagents == {"b": kept}


def test_an_id_in_use_gets_a_suffix() -> None:
    ids = IdRegistry()
    assert ids.claim("tool", "a", 3) == "a"
    assert ids.claim("user", "a", 4) == "a"
    assert ids.claim("tool", "a", 5) == "a~5"


def test_released_ids_can_be_claimed_again() -> None:
    ids = IdRegistry()
    for name in ("a", "b", "c"):
        ids.claim("tool", name, 1)
    ids.retire("~x")
    ids.claim("tool", "d", 2)
    ids.release({("tool", "b"), ("tool", "d"), ("user", "a")})
    assert (ids.retired_ids, ids.suffix) == ({"a", "c"}, "~x")
    assert [ids.claim("tool", name, 9) for name in ("a", "b", "d")] == ["a~9", "b", "d"]
    assert ids.retired_ids == {"a", "c"}
