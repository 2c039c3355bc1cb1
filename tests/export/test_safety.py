"""Documents never contain active content, whatever the messages are."""

import json

import pytest
from hypothesis import example, given, settings, strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from recorded_sessions import NOW, entry
from rekindle.export import markdown_html
from rekindle.export.acp import as_acp
from rekindle.export.html import as_html
from rekindle.export.json import as_json
from rekindle.export.json_depth import write_json
from rekindle.export.markdown import as_markdown, contained, fenced
from rekindle.export.markdown_html import render_markdown
from rekindle.model import AgentIdentity, Change, Kind, Opened, Titled, TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.text.sanitize import clean
from rekindle.transcript.model import OtherItem, TranscriptTurn
from rekindle.transcript.reducer import Transcript, fold
from safe_documents import INVISIBLE, check
from selection import some

HOSTILE = st.sampled_from(
    [
        "<script>alert(1)</script>", "</style><script>", "</title>",
        "<img src=x onerror=alert(1)>", '" onmouseover="alert(1)', "' onclick='x",
        "javascript:alert(1)", "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))",
        "[a](data:text/html;base64,PHM+)", "[a](vbscript:x)",
        "![i](https://evil.example/pixel.png)", "![i](javascript:x)", '<https://a.example/">',
        "<javascript:alert(1)>", '[a](https://a.example "t\\"onclick=x")', "]]>", "-->", "<!--",
        "<svg onload=alert(1)>", "&lt;script&gt;", "&#x6a;avascript:x",
        "[a]: javascript:x\n\n[a]", "\u202e", "\u2066", "\x1b[31m", "\x1b]0;x\x07", "\x9b",
        "\x00", "\ud800", "\u2028", "\r", "\n", "\n\n", "```", "~~~", "`", "    ", "> ", "- ",
        "1. ", "# ", "|a|b|\n|-|:-:|\n", "***", "__", "~~", "</details>", "<details>",
        "<base href=//evil>", "{{7*7}}", "&", '"', "'", "<", ">", "x", "\\", "<a href=x>",
        "<?php", "<![CDATA[", "[x](  https://a.example  )", "[x](//evil.example)",
        "[x](https://a.example/\u202e)", "99999999999. ", "=====", "\t",
        "\n    ```\n", "\n      ~~~\n", "\n```\n", "&#8238;", "&#x202e;", "&rlm;", "&#27;[2J",
        "\u200f", "\u061c",
    ]
)  # fmt: skip
TEXTS = st.lists(HOSTILE | st.text(max_size=5), max_size=8).map("".join)
URIS = st.builds(str.__add__, st.sampled_from(["", "https://a.example/", "mailto:"]), TEXTS)
RESOURCES = st.fixed_dictionaries({"uri": URIS, "text": TEXTS})
BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
    st.fixed_dictionaries({"type": TEXTS, "text": TEXTS, "extra": TEXTS}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["image", "audio"]),
            "mimeType": st.sampled_from(["image/png", "image/svg+xml", 'image/png" x="']) | TEXTS,
            "data": st.sampled_from(["AAAA", "PHN2Zz4="]) | TEXTS,
        }
    ),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": URIS, "name": TEXTS}),
    st.fixed_dictionaries(
        {
            "type": st.just("resource"),
            "resource": st.fixed_dictionaries({"uri": TEXTS, "text": TEXTS}),
        }
    ),
)
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("content"), "content": BLOCKS}),
    st.fixed_dictionaries(
        {"type": st.just("diff"), "path": TEXTS, "oldText": TEXTS, "newText": TEXTS}
    ),
    st.fixed_dictionaries({"type": st.just("terminal"), "terminalId": TEXTS}),
    st.fixed_dictionaries({"type": TEXTS, "x": TEXTS}),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[Change]:
    """Draw a malicious session."""
    text = draw(TEXTS)
    stored = text.encode("utf-8", "replace").decode()
    updates: list[dict[str, object]] = [
        {"sessionUpdate": "agent_message_chunk", "content": draw(BLOCKS)},
        {"sessionUpdate": "agent_thought_chunk", "content": draw(BLOCKS)},
        {
            "sessionUpdate": "tool_call",
            "toolCallId": draw(TEXTS),
            "title": draw(TEXTS),
            "kind": draw(TEXTS),
            "status": draw(st.sampled_from(["completed", "failed"]) | TEXTS),
            "rawInput": {draw(TEXTS): draw(TEXTS)},
            "content": draw(st.lists(PARTS, max_size=3)),
        },
        {"sessionUpdate": "plan", "entries": [{"content": draw(TEXTS), "status": draw(TEXTS)}]},
        {"sessionUpdate": draw(TEXTS), "x": draw(TEXTS)},
    ]
    return [
        Opened(
            session_id="s",
            at_us=NOW,
            agent=AgentIdentity(name=stored, version=stored),
            cwd=stored,
        ),
        Titled(session_id="s", at_us=NOW, source=TitleSource.USER, title=stored),
        entry("s", Kind.PROMPT, {"id": 1, "params": {"prompt": [draw(BLOCKS)]}}),
        *(entry("s", Kind.UPDATE, {"params": {"update": update}}) for update in updates),
        entry("s", Kind.ANSWER, {"id": 1, "error": {"message": draw(TEXTS)}}),
        entry("s", Kind.PROMPT, {"id": 2, "params": {"prompt": [draw(BLOCKS)]}}),
    ]


@settings(max_examples=some(80), deadline=None)
@given(sessions())
def test_no_document_contains_active_content(changes: list[Change]) -> None:
    store = MemoryStore()
    store.write(changes)
    session, transcript = store.session("s"), fold(store.read("s"))
    turns = transcript.turns
    assert check("".join(as_html(session, transcript, turns))).styles == 1
    assert not INVISIBLE.search("".join(as_markdown(session, transcript, turns)))
    as_data = "".join(as_json(session, transcript, turns))
    json.loads(as_data)
    exported = [line for version in (1, 2) for line in as_acp(session, transcript, turns, version)]
    assert all(json.loads(line) for line in exported)
    for text in (as_data, *exported):
        assert not INVISIBLE.search(text)
        assert "\u2028" not in text


@settings(deadline=None)
@given(TEXTS)
def test_any_markdown_becomes_harmless_html(text: str) -> None:
    check(render_markdown(text))


def test_only_web_links_are_active() -> None:
    assert render_markdown("[a](https://b.example)") == (
        '<p><a href="https://b.example" rel="noopener noreferrer">a</a></p>\n'
    )
    assert render_markdown("[a](javascript:alert(1))") == '<p><span class="link">a</span></p>\n'
    assert render_markdown("![a](https://b.example/p.png)").startswith(
        '<p><a href="https://b.example/p'
    )
    assert render_markdown("<b>x</b>") == "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"
    assert render_markdown("```html\n<b>\n```") == "<pre><code>&lt;b&gt;\n</code></pre>\n"


def test_a_text_too_long_for_markdown_is_preformatted() -> None:
    assert render_markdown("*" * 300_000) == f"<pre>{'*' * 300_000}</pre>"


@settings(deadline=None)
@given(st.text(st.sampled_from("`~ab\n ")))
def test_a_fence_is_longer_than_any_fence_inside(text: str) -> None:
    (fence,) = [it for it in MarkdownIt().parse(fenced(text, "x")) if it.type == "fence"]
    assert fence.content.rstrip() == text.rstrip()


@settings(deadline=None)
@given(st.lists(HOSTILE, max_size=6).map("".join))
@example("\n    ```\n&#8238;")
def test_text_after_a_message_is_not_part_of_it(text: str) -> None:
    """A heading after any message is a heading, and tags in the message are text."""
    tokens = MarkdownIt("commonmark").parse(f"{contained(clean(text))}\n\n## The next turn\n")
    heading = [it for it in tokens if it.type == "heading_open" and it.level == 0][-1:]
    assert heading
    assert tokens[-2].content == "The next turn"
    inner = [it for token in tokens for it in (token.children or [token])]
    assert not any(it.type in {"html_block", "html_inline"} for it in inner)
    assert not any(INVISIBLE.search(it.content) for it in inner if it.type.startswith("text"))


def test_tags_are_escaped_in_prose_and_kept_in_code() -> None:
    assert contained("a <b> `<c>` ``x ` <d>`` < e") == "a &lt;b> `<c>` ``x ` <d>`` < e"
    assert contained("```\n<b>\n```\n<c>") == "```\n<b>\n```\n&lt;c>"
    assert contained("~~~\n<b>") == "~~~\n<b>\n~~~"


def test_text_that_resembles_a_fence_is_not_one() -> None:
    assert contained("    ```\n\n</details>") == "    ```\n\n&lt;/details>"
    assert contained("    ```\n\n```\nopen") == "    ```\n\n```\nopen\n```"
    in_a_list = "1. a\n\n       ```\n       <b>\n       ```"
    assert contained(in_a_list) == in_a_list
    assert contained("`\n</div>`") == "```\n`\n</div>`\n```"
    assert contained("x" * 300_000).startswith("```\nxxx")


def test_harmful_entities_are_escaped() -> None:
    assert (
        render_markdown("see &#8238;gpj &rlm; `a`")
        == "<p>see \ufffdgpj \ufffd <code>a</code></p>\n"
    )
    assert contained("&#8238; &rlm; &amp; &nbsp;") == "&amp;#8238; &amp;rlm; &amp; &nbsp;"


def test_deeply_nested_values_are_written() -> None:
    nested = "[" * 390 + "]" * 390
    line = f'{{"params":{{"update":{{"sessionUpdate":"tool_call","rawInput":{nested}}}}}}}'
    store = MemoryStore()
    store.write([entry("s", Kind.UPDATE, json.loads(line))])
    session, transcript = store.session("s"), fold(store.read("s"))
    turns = transcript.turns
    assert transcript.turns[0].items[0].fields["rawInput"]  # type: ignore[union-attr]
    for render in (as_html, as_markdown, as_json):
        assert "".join(render(session, transcript, turns))
    assert len(list(as_acp(session, transcript, turns, 1))) == 1


def test_values_too_deep_to_encode_are_replaced() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "[nested too deeply]" in write_json({"value": deep})
    transcript = Transcript()
    item = OtherItem(seq=1, at_us=1, update={"sessionUpdate": "_odd", "value": deep}, protocol=1)
    transcript.turns.append(TranscriptTurn(number=1, at_us=1, items=[item]))
    store = MemoryStore()
    store.write([Opened(session_id="s", at_us=1)])
    session = store.session("s")
    (line,) = as_acp(session, transcript, transcript.turns, 1)
    assert "[nested too deeply]" in line


@pytest.mark.parametrize(
    ("markdown", "rendered"),
    [
        ("a  \nb\nc", "<p>a<br>\nb\nc</p>\n"),
        ("---", "<hr>\n"),
        ("`x` \\* ~~s~~", "<p><code>x</code> * <s>s</s></p>\n"),
        ("```\nx\n```", "<pre><code>x\n</code></pre>\n"),
        ("# a", "<h3>a</h3>\n"),
        ("7. a", '<ol start="7"><li>a</li>\n</ol>\n'),
        ("![](javascript:x)", '<p><span class="link">image</span></p>\n'),
    ],
)
def test_markdown_is_rendered_with_known_tags(markdown: str, rendered: str) -> None:
    assert render_markdown(markdown) == rendered


def test_an_unknown_token_is_text() -> None:
    unknown = Token("video", "video", 0, content="<v>")
    assert markdown_html._tag(unknown) == "&lt;v&gt;"  # noqa: SLF001 - no Markdown makes one
