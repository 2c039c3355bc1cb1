from rekindle.transcript.item_index import ItemIndex
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
