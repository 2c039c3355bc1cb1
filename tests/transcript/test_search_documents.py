from typing import Any

from rekindle.model import DocumentKind, SearchDocument
from rekindle.transcript.model import (
    GapItem,
    PlanItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.search_documents import search_documents, title_document


def said(
    *blocks: dict[str, Any], role: Role = Role.USER, id_: str | None = None
) -> TranscriptMessage:
    message = TranscriptMessage(role=role, seq=3, at_us=7, id=id_)
    message.replace(list(blocks))
    return message


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def words(*items: Any) -> list[str]:  # noqa: ANN401 - as it comes
    return [
        passage.text
        for passage in search_documents(TranscriptTurn(number=2, at_us=1, items=list(items)))
    ]


def test_a_document_has_its_place() -> None:
    turn = TranscriptTurn(
        number=2, at_us=1, items=[said(text("Hello"), role=Role.THOUGHT, id_="m")]
    )
    assert list(search_documents(turn)) == [
        SearchDocument(turn=2, seq=3, at_us=7, kind="thought", ident="thought:m", text="Hello")  # type: ignore[arg-type]
    ]


def test_a_title_belongs_to_turn_0() -> None:
    expected = SearchDocument(turn=0, seq=0, at_us=7, kind=DocumentKind.TITLE, text="A  title")
    assert title_document("A \x02title", 7) == expected


def test_text_and_names_of_attachments_are_included() -> None:
    link = {"type": "resource_link", "name": "notes", "uri": "file:///p/a.md"}
    embedded = {"type": "resource", "resource": {"uri": "file:///p/b.md", "text": "long"}}
    found = words(said(text("See "), link, embedded, {"type": "image", "data": "xx"}, text("!")))
    assert found == ["See \nnotes\n\nfile:///p/a.md\n\nfile:///p/b.md\n!"]


def test_titles_and_paths_of_tool_calls_are_included() -> None:
    fields = {
        "title": "Edit",
        "locations": [{"path": "/p/a.py", "line": 3}, "odd"],
        "content": [
            {"type": "diff", "path": "/p/a.py", "newText": "not this"},
            {"type": "diff", "changes": [{"path": "/p/c.py", "oldPath": "/p/b.py"}]},
        ],
        "rawOutput": "nor this",
    }
    assert words(ToolCallItem(id="t", seq=1, at_us=1, fields=fields)) == [
        "Edit\n/p/a.py\n/p/b.py\n/p/c.py"
    ]


def test_entries_of_plans_are_included() -> None:
    entries = [{"content": "First"}, "odd", {"content": "Then"}]
    assert words(PlanItem(seq=1, at_us=1, entries=entries)) == ["First\n\nThen"]


def test_an_empty_item_with_an_id_has_a_document() -> None:
    assert words(said(), said(id_="m"), GapItem(seq=1, at_us=1, lost=2)) == [""]


def test_control_characters_are_removed() -> None:
    assert words(said(text("a\x00b\x02c\x03d\te\nf\x1b"))) == ["a b c d\te\nf "]
