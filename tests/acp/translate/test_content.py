from rekindle.acp.translate.content import block_to_v1
from rekindle.acp.translate.tool_calls import part_to_v1


def show(terminal_id: str) -> str:
    return f"output of {terminal_id}"


def test_blocks_of_unknown_types_become_text() -> None:
    image = {"type": "image", "data": ""}
    assert block_to_v1(image) is image
    assert block_to_v1({"type": "video"}) == {"type": "text", "text": "[video]"}
    assert block_to_v1({"type": []}) == {"type": "text", "text": "[content]"}
    part = {"type": "content", "content": {"type": "video"}, "x": 1}
    assert part_to_v1(part, show) == {
        "type": "content",
        "content": {"type": "text", "text": "[video]"},
        "x": 1,
    }
