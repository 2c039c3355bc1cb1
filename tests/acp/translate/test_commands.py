from rekindle.acp.translate.commands import commands_to_v1, commands_to_v2


def test_commands_are_translated_both_ways() -> None:
    v1 = [
        {"name": "a", "description": "A", "input": {"hint": "h"}},
        {"name": "b", "description": "B", "input": None},
    ]
    v2 = [
        {
            "type": "command",
            "name": "a",
            "description": "A",
            "input": {"type": "text", "hint": "h"},
        },
        {"type": "command", "name": "b", "description": "B"},
    ]
    assert commands_to_v2(v1) == v2
    assert commands_to_v1(v2) == [v1[0], {"name": "b", "description": "B"}]
    unknown = [{"type": "skill", "name": "s"}, {**v2[0], "input": {"type": "form"}}]
    assert commands_to_v1(unknown) == [{"name": "a", "description": "A"}]
