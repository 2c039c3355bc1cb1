from rekindle.acp.translate.plans import plan_to_v1, plan_to_v2


def test_plans_are_translated_both_ways() -> None:
    entry = {"content": "x", "priority": "high", "status": "completed"}
    plan = plan_to_v2([entry, {"content": "y"}])
    assert plan["planId"] == "main"
    assert plan["entries"][1] == {"content": "y", "priority": "medium", "status": "pending"}
    assert plan_to_v2([], "p")["planId"] == "p"
    assert plan_to_v1(plan) == plan["entries"]
    assert plan_to_v1({"type": "markdown"}) is None
    urgent = {"type": "items", "entries": [{"content": "y", "priority": "urgent"}]}
    assert plan_to_v1(urgent) == [{"content": "y", "priority": "medium"}]
    cancelled = {**plan, "entries": [{**entry, "status": "cancelled"}, {"content": "z"}]}
    assert plan_to_v1(cancelled) == [
        {**entry, "_meta": {"rekindle": {"status": "cancelled"}}},
        {"content": "z"},
    ]
