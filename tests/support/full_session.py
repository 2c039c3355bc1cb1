"""One session with every kind of item, for tests of output."""

import base64

from recorded_sessions import NOW, answered, asked, entry, text
from rekindle.model import (
    AgentIdentity,
    Change,
    Counted,
    EntryBatch,
    Kind,
    Opened,
    Titled,
    TitleSource,
)

PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        "gg=="
    )
).decode()
KEY = "ghp_0123456789abcdefghijABCDEFGHIJ123456"
SESSION = "ses_all"

ANSWER = """\
I found **two** things in `parser.py`:

1. an [off-by-one](https://example.com/a?b=1&c=2)
2. a <b>tag</b> that is text

```python
if a < b and "x":
    print("```")
```

| what | where |
|------|-------|
| loop | 12    |

![chart](https://example.com/chart.png) and [a file](src/parser.py)
"""


def update(kind: str, /, protocol: int = 1, **fields: object) -> EntryBatch:
    said = {"params": {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}}
    return entry(SESSION, Kind.UPDATE, said, NOW + 2_000_000, protocol)


def said(kind: str, block: object) -> EntryBatch:
    return update(kind, content=block)


def everything() -> list[Change]:
    """Return the changes that record the session."""
    agent = AgentIdentity(name="OpenCode", version="1.2", command=("opencode", "acp"))
    diff = {"type": "diff", "path": "/p/parser.py", "oldText": "a\nb\n", "newText": "a\nc\n"}
    prompt = [
        text("Fix the parser.\n\nMind the <edge> cases, and `this`: " + KEY),
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "image", "mimeType": "image/svg+xml", "data": PIXEL},
        {"type": "resource_link", "uri": "file:///p/parser.py", "name": "parser.py"},
        {"type": "resource", "resource": {"uri": "file:///p/a.txt", "text": "inside ``` it"}},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
    ]
    return [
        Opened(session_id=SESSION, at_us=NOW, agent=agent, cwd="/p", directories=("/q",)),
        Titled(session_id=SESSION, at_us=NOW, source=TitleSource.USER, title="Fix *the* <parser>"),
        entry(SESSION, Kind.PROMPT, {"id": 1, "params": {"prompt": prompt}}, NOW),
        said("agent_thought_chunk", text("Let me look.\n\n- first\n- then")),
        said("agent_message_chunk", text(ANSWER[:40])),
        said("agent_message_chunk", text(ANSWER[40:])),
        update(
            "tool_call",
            toolCallId="t1",
            title="Read parser.py",
            kind="read",
            status="completed",
            rawInput={"path": "/p/parser.py", "api_key": "abcd1234efgh"},
            content=[{"type": "content", "content": text("```py\nimport re\n```")}],
        ),
        update(
            "tool_call", toolCallId="t2", title="Edit", kind="edit", status="failed", content=[diff]
        ),
        entry(
            SESSION,
            Kind.PERMISSION,
            {
                "id": 9,
                "params": {
                    "toolCall": {"toolCallId": "t2"},
                    "options": [{"optionId": "y", "name": "Allow once"}],
                },
            },
        ),
        entry(
            SESSION,
            Kind.OUTCOME,
            {"id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}},
        ),
        entry(SESSION, Kind.TERMINAL, {"terminalId": "x", "output": "\x1b[31mred\x1b[0m <out>"}),
        update(
            "tool_call",
            toolCallId="t3",
            title="Run `make`",
            kind="execute",
            status="in_progress",
            content=[{"type": "terminal", "terminalId": "x"}],
        ),
        update("tool_call", toolCallId="t4", kind="search"),
        update("tool_call", toolCallId="t5", title="Ask", rawOutput={"n": 1}, status="completed"),
        update(
            "plan",
            entries=[
                {"content": "Read *all*", "status": "completed"},
                {"content": "Fix it", "status": "pending"},
            ],
        ),
        update("_custom_update", what="<it>"),
        answered(SESSION, NOW + 3_000_000),
        entry(SESSION, Kind.HANDOVER, {}, NOW + 4_000_000),
        asked(SESSION, "And now?", NOW + 60_000_000),
        said("agent_message_chunk", text("Unclosed:\n\n```sh\nmake <all>")),
        entry(SESSION, Kind.GAP, {"lostEntries": 2}, NOW + 61_000_000),
        entry(
            SESSION, Kind.ANSWER, {"error": {"code": 1, "message": "no <more>"}}, NOW + 62_000_000
        ),
        asked(SESSION, "Still there?", NOW + 63_000_000),
        entry(SESSION, Kind.REMINDER, {}, NOW + 64_000_000),
        Counted(session_id=SESSION, at_us=NOW, turns=3, messages=5),
    ]
