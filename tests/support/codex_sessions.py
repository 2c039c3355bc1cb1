"""Sessions of Codex's: every type of record, and every trap."""

import json
from typing import Any

from codex_files import CWD, PICTURE, SESSION, CodexFile, text, thread

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f():
 one
-two
+2
@@
-- gone
+++ here
*** Add File: /abs/new.txt
+hello
+world
*** Delete File: old.txt
*** Update File: from.txt
*** Move to: to.txt
@@
-x
+y
*** End Patch"""
UNIFIED = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"

Json = dict[str, Any]


def legacy() -> CodexFile:
    """Return a session with every kind of record that is known, as it was until 2026."""
    it = CodexFile()
    it.context()
    it.event("thread_settings_applied", thread_settings={})
    it.begin(1)
    it.ask("Do it\u2028all \N{GRINNING FACE}")
    it.event("agent_reasoning", text="**Thinking**")
    it.item("reasoning", summary=[text("**Thinking**", "summary_text")], encrypted_content="gAAA")
    it.answer("I look first.", "msg_a")
    it.call("call_1", "shell", {"command": ["bash", "-lc", "ls -l"], "workdir": CWD})
    it.output("call_1", json.dumps({"output": "a.py\n", "metadata": {"exit_code": 0}}))
    it.call("call_2", "exec_command", {"cmd": "false"})
    it.output(
        "call_2", "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n"
    )
    it.call("call_3", "shell_command", {"command": "cat x"})
    it.output("call_3", "Exit code: 0\nWall time: 0 seconds\nOutput:\n```\ninside\n```\n")
    it.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_4", status="done")
    changes = {
        f"{CWD}/a.py": {"type": "update", "unified_diff": UNIFIED, "move_path": None},
        "/abs/new.txt": {"type": "add", "content": "hello\nworld"},
        "old.txt": {"type": "delete", "content": "was"},
    }  # fmt: skip
    it.event(
        "patch_apply_end", call_id="call_4", stdout="Success.", stderr="", success=True,
        changes=changes, status="completed",
    )  # fmt: skip
    it.output("call_4", "Success. Updated the following files:\nM a.py", "custom_tool_call_output")
    it.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_5")
    it.output("call_5", "apply_patch verification failed: no such line", "custom_tool_call_output")
    it.call("call_6", "shell", {"command": ["apply_patch", PATCH]})
    it.output("call_6", "aborted by user after 1.0s")
    steps = [{"step": "One", "status": "completed"}, {"step": "Two", "status": "in_progress"}]
    it.call("call_7", "update_plan", {"explanation": "x", "plan": steps})
    it.output("call_7", "Plan updated")
    action = {"type": "exec", "command": ["ls", "a b"]}
    it.item("local_shell_call", call_id="call_8", status="completed", action=action)
    it.output("call_8", "a b\n")
    calls(it)
    it.answer("Done.", "msg_b")
    it.end(1)
    second_turn(it)
    return it


def calls(it: CodexFile) -> None:
    """Write calls of all other kinds, with what was shown of them."""
    search = {"type": "search", "query": "weather"}
    it.item("web_search_call", status="completed", action=search)
    it.event("web_search_end", call_id="ws_1", query="weather", action=search)
    page = {"type": "open_page", "url": "https://example.org"}
    it.event("web_search_end", call_id="ws_2", query="", action=page)
    it.item("web_search_call", id="ws_2", status="completed", action=page)
    it.item(
        "web_search_call", id="ws_3", action={"type": "find_in_page", "url": "u", "pattern": "p"}
    )
    it.call("call_m", "mcp__files__read", {"path": "x"})
    invocation = {"server": "files", "tool": "read", "arguments": {"path": "x"}}
    blocks = [
        text("inside", "text"),
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "z"},
    ]
    it.event(
        "mcp_tool_call_end",
        call_id="call_m",
        invocation=invocation,
        result={"Ok": {"content": blocks}},
    )
    it.output("call_m", [text("inside")])
    it.event("mcp_tool_call_end", call_id="call_n", invocation=invocation, result={"Err": "no"})
    it.call("call_v", "view_image", {"path": "/p.png"})
    it.output("call_v", [{"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}])
    it.item(
        "image_generation_call",
        id="ig_1",
        status="completed",
        revised_prompt="A cat",
        result=PICTURE,
    )
    it.event("image_generation_end", call_id="ig_1", status="completed", result=PICTURE)
    it.item("tool_search_call", call_id="call_t", execution="client", arguments={"query": "q"})
    it.item("tool_search_output", call_id="call_t", status="completed", execution="x", tools=[])
    it.call("call_s", "spawn_agent", {"message": "Help me"})
    it.output("call_s", json.dumps({"agent_id": thread(7)}))
    it.event(
        "sub_agent_activity",
        event_id="ev_1",
        agent_thread_id=thread(7),
        agent_path="/root/a",
        kind="started",
    )


def second_turn(it: CodexFile) -> None:
    """Write a turn with pictures, words meanwhile, a compaction, a review, and an interruption."""
    it.begin(2)
    url = f"data:image/png;base64,{PICTURE}"
    it.message("user", text("Look"), {"type": "input_image", "image_url": url})
    it.event("user_message", message="Look", images=[], local_images=["/home/user/p.png"])
    it.ask("Also that", images=["https://example.org/p.png"])
    it.ask("# Context from my IDE setup:\n\n## My request for Codex:\nAnd this")
    it.message("user", text("<turn_aborted>\nThe user interrupted.\n</turn_aborted>"))
    it.message(
        "user",
        text(
            "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 2\n"
            "Duration: 0.1 seconds\nOutput:\nno\n</result>\n</user_shell_command>"
        ),
    )
    it.add(
        "compacted", {"message": "What was so far", "replacement_history": [{"type": "message"}]}
    )
    it.event("context_compacted")
    it.item("compaction", encrypted_content="x")
    it.add("world_state", {"full": True})
    it.event(
        "entered_review_mode", target={"type": "uncommittedChanges"}, user_facing_hint="changes"
    )
    finding = {"title": "A bug", "body": "There.", "code_location": {"absolute_file_path": "/a"}}
    it.event(
        "exited_review_mode", review_output={"overall_explanation": "Good", "findings": [finding]}
    )
    it.add(
        "inter_agent_communication",
        {"author": "/root/a", "content": "I am done", "trigger_turn": False},
    )
    it.event("turn_aborted", turn_id="turn-2", reason="interrupted")
    it.begin(3)
    it.ask("Once more")
    it.end(3, error={"message": "You have hit your limit."})


def paginated() -> CodexFile:
    """Return a session with every kind of record that is known, as it is since 2026."""
    it = CodexFile(mode="paginated")
    it.context()
    it.add("token_usage_record", {"usage": {}})
    it.begin(1)
    it.message(
        "user", text("Look"), {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    )
    content = [
        text("Look", "text"), {"type": "local_image", "path": "/p.png"},
        {"type": "skill", "name": "deploy", "path": "/s/SKILL.md"},
        {"type": "mention", "name": "app", "path": "app://x"},
    ]  # fmt: skip
    it.done("UserMessage", "u1", content=content)
    it.done("Reasoning", "rs_1", summary_text=["One", "Two"], raw_content=["raw"])
    it.item("reasoning", id="rs_1", summary=[text("One", "summary_text")], encrypted_content="x")
    it.answer("Working.", "msg_1")
    it.call("call_1", "exec_command", {"cmd": "cat a"}, id="fc_1")
    read = {"type": "read", "cmd": "cat a", "name": "a", "path": f"{CWD}/a"}
    run: Json = {
        "command": ["/bin/bash", "-lc", "cat a"],
        "cwd": f"file://{CWD}",
        "source": "agent",
        "exit_code": 0,
    }
    it.done(
        "CommandExecution",
        "call_1",
        parsed_cmd=[read],
        status="completed",
        aggregated_output="42\n",
        **run,
    )
    it.output("call_1", "Chunk ID: 55acd1\nProcess exited with code 0\nOutput:\n42\n")
    shell = "<user_shell_command>\n<command>\nls\n</command>\n<result>\nx\n</result>"
    it.message("user", text(f"{shell}\n</user_shell_command>"))
    search = {"type": "search", "cmd": "rg x", "query": "x", "path": "src"}
    it.done(
        "CommandExecution",
        "call_2",
        parsed_cmd=[search],
        status="failed",
        aggregated_output="no\n",
        **run,
    )
    it.done(
        "CommandExecution",
        "call_3",
        parsed_cmd=[{"type": "list_files", "path": None}],
        status="completed",
        **run,
    )
    it.done(
        "CommandExecution",
        "call_4",
        parsed_cmd=[{"type": "unknown"}],
        status="declined",
        stdout="out",
        **run,
    )
    it.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_5")
    changes = {
        f"{CWD}/a.py": {
            "type": "update",
            "unified_diff": "@@ -3 +3 @@\n-two\n+2",
            "move_path": f"{CWD}/b.py",
        }
    }
    it.done("FileChange", "call_5", changes=changes, status="completed", stdout="ok", stderr="")
    it.output("call_5", "Success", "custom_tool_call_output")
    it.call("call_6", "update_plan", {"plan": [{"step": "One", "status": "pending"}]})
    it.output("call_6", "Plan updated")
    given = {"server": "files", "tool": "read", "arguments": {"path": "x"}}
    it.done(
        "McpToolCall",
        "call_7",
        status="completed",
        result={"content": [text("in", "text")]},
        **given,
    )
    it.done("McpToolCall", "call_8", status="failed", error={"message": "no"}, **given)
    it.done(
        "DynamicToolCall",
        "call_9",
        tool="own",
        arguments={"a": 1},
        status="completed",
        content_items=[
            {"type": "inputText", "text": "yes"},
            {"type": "inputImage", "imageUrl": "https://x"},
        ],
    )
    it.done(
        "DynamicToolCall",
        "call_a",
        namespace="n",
        tool="own",
        arguments={},
        status="failed",
        error="no",
    )
    it.done("WebSearch", "ws_1", query="weather", action={"type": "search", "queries": ["a", "b"]})
    it.item("web_search_call", id="ws_1", action={"type": "search", "query": "weather"})
    it.done("ImageView", "call_b", path="/p.png")
    it.done("ImageGeneration", "ig_1", status="completed", revised_prompt="A cat", result=PICTURE)
    it.done("Extension", "ig_2", kind="image_gen.generation", status="completed", result="")
    it.done("Extension", "ws_2", kind="web.search", query="q", action={"type": "search"})
    it.done("Extension", "zz", kind="clock.sleep")
    it.done(
        "CollabAgentToolCall",
        "call_c",
        tool="spawn_agent",
        status="completed",
        receiver_thread_ids=[thread(7)],
        prompt="Help",
    )
    it.done("CollabAgentToolCall", "call_d", tool="wait", status="in_progress")
    it.done(
        "SubAgentActivity",
        "call_e",
        kind="started",
        agent_thread_id=thread(7),
        agent_path="/root/a",
    )
    rest(it)
    it.turn(2)
    return it


def rest(it: CodexFile) -> None:
    """Write what is no call."""
    it.done("HookPrompt", "h", fragments=[])
    it.done("Plan", "plan_1", text="# The plan")
    it.add("compacted", {"message": "", "window_id": "w"})
    it.done("ContextCompaction", "cc")
    it.done("EnteredReviewMode", "r1", user_facing_hint="all")
    it.done("ExitedReviewMode", "r2", review_output=None)
    it.answer("Done.", "msg_2")
    it.end(1)


def rolled_back() -> CodexFile:
    """Return a session in which turns were taken back, some of them twice."""
    it = CodexFile()
    it.context()
    for number in (1, 2, 3):
        it.turn(number)
    it.event("thread_rolled_back", num_turns=2)
    it.turn(4)
    it.event("thread_rolled_back", num_turns=1)
    it.turn(5)
    return it


def bare() -> list[bytes]:
    """Return a session as it was written before September 2025."""
    it = CodexFile()
    it.lines.clear()
    it.put(
        {
            "id": SESSION,
            "timestamp": "2025-06-01T10:00:00.000Z",
            "instructions": "Be kind",
            "git": {},
        }
    )
    it.put({"record_type": "state"})
    it.put(_said("user", "<user_instructions>\n\nBe kind.\n\n</user_instructions>"))
    it.put(
        _said(
            "user",
            f"<environment_context>\nCurrent working directory: {CWD}\n</environment_context>",
        )
    )
    it.put(_said("user", "Question 1"))
    it.put(
        {"type": "reasoning", "id": "rs", "summary": [text("Hm", "summary_text")], "content": None}
    )
    it.put(
        {
            "type": "function_call",
            "name": "shell",
            "arguments": '{"command":["ls"]}',
            "call_id": "call_1",
        }
    )
    it.put(
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": '{"output":"a\\n","metadata":{"exit_code":2}}',
        }
    )
    it.put(_said("assistant", "Answer 1"))
    it.put({"record_type": "state"})
    it.put(_said("user", "Question 2"))
    it.put(_said("assistant", "Answer 2"))
    return it.lines


def _said(role: str, words: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": None, "role": role, "content": [text(words, kind)]}
