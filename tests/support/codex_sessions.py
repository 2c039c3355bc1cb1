"""Sessions of Codex, with every type of record and every trap."""

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
    """Return a session with every known type of record, in the format until 2026."""
    file = CodexFile()
    file.context()
    file.event("thread_settings_applied", thread_settings={})
    file.begin(1)
    file.ask("Do it\u2028all \N{GRINNING FACE}")
    file.event("agent_reasoning", text="**Thinking**")
    file.item("reasoning", summary=[text("**Thinking**", "summary_text")], encrypted_content="gAAA")
    file.answer("I look first.", "msg_a")
    file.call("call_1", "shell", {"command": ["bash", "-lc", "ls -l"], "workdir": CWD})
    file.output("call_1", json.dumps({"output": "a.py\n", "metadata": {"exit_code": 0}}))
    file.call("call_2", "exec_command", {"cmd": "false"})
    file.output(
        "call_2", "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n"
    )
    file.call("call_3", "shell_command", {"command": "cat x"})
    file.output("call_3", "Exit code: 0\nWall time: 0 seconds\nOutput:\n```\ninside\n```\n")
    file.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_4", status="done")
    changes = {
        f"{CWD}/a.py": {"type": "update", "unified_diff": UNIFIED, "move_path": None},
        "/abs/new.txt": {"type": "add", "content": "hello\nworld"},
        "old.txt": {"type": "delete", "content": "was"},
    }  # fmt: skip
    file.event(
        "patch_apply_end", call_id="call_4", stdout="Success.", stderr="", success=True,
        changes=changes, status="completed",
    )  # fmt: skip
    file.output(
        "call_4", "Success. Updated the following files:\nM a.py", "custom_tool_call_output"
    )
    file.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_5")
    file.output(
        "call_5", "apply_patch verification failed: no such line", "custom_tool_call_output"
    )
    file.call("call_6", "shell", {"command": ["apply_patch", PATCH]})
    file.output("call_6", "aborted by user after 1.0s")
    steps = [{"step": "One", "status": "completed"}, {"step": "Two", "status": "in_progress"}]
    file.call("call_7", "update_plan", {"explanation": "x", "plan": steps})
    file.output("call_7", "Plan updated")
    action = {"type": "exec", "command": ["ls", "a b"]}
    file.item("local_shell_call", call_id="call_8", status="completed", action=action)
    file.output("call_8", "a b\n")
    calls(file)
    file.answer("Done.", "msg_b")
    file.end(1)
    second_turn(file)
    return file


def calls(file: CodexFile) -> None:
    """Add calls of all other kinds, with the events that the user saw."""
    search = {"type": "search", "query": "weather"}
    file.item("web_search_call", status="completed", action=search)
    file.event("web_search_end", call_id="ws_1", query="weather", action=search)
    page = {"type": "open_page", "url": "https://example.org"}
    file.event("web_search_end", call_id="ws_2", query="", action=page)
    file.item("web_search_call", id="ws_2", status="completed", action=page)
    file.item(
        "web_search_call", id="ws_3", action={"type": "find_in_page", "url": "u", "pattern": "p"}
    )
    file.call("call_m", "mcp__files__read", {"path": "x"})
    invocation = {"server": "files", "tool": "read", "arguments": {"path": "x"}}
    blocks = [
        text("inside", "text"),
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "z"},
    ]
    file.event(
        "mcp_tool_call_end",
        call_id="call_m",
        invocation=invocation,
        result={"Ok": {"content": blocks}},
    )
    file.output("call_m", [text("inside")])
    file.event("mcp_tool_call_end", call_id="call_n", invocation=invocation, result={"Err": "no"})
    file.call("call_v", "view_image", {"path": "/p.png"})
    file.output(
        "call_v", [{"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}]
    )
    file.item(
        "image_generation_call",
        id="ig_1",
        status="completed",
        revised_prompt="A cat",
        result=PICTURE,
    )
    file.event("image_generation_end", call_id="ig_1", status="completed", result=PICTURE)
    file.item("tool_search_call", call_id="call_t", execution="client", arguments={"query": "q"})
    file.item("tool_search_output", call_id="call_t", status="completed", execution="x", tools=[])
    file.call("call_s", "spawn_agent", {"message": "Help me"})
    file.output("call_s", json.dumps({"agent_id": thread(7)}))
    file.event(
        "sub_agent_activity",
        event_id="ev_1",
        agent_thread_id=thread(7),
        agent_path="/root/a",
        kind="started",
    )


def second_turn(file: CodexFile) -> None:
    """Add a turn with images, steering, a compaction, a review, and an interruption."""
    file.begin(2)
    url = f"data:image/png;base64,{PICTURE}"
    file.message("user", text("Look"), {"type": "input_image", "image_url": url})
    file.event("user_message", message="Look", images=[], local_images=["/home/user/p.png"])
    file.ask("Also that", images=["https://example.org/p.png"])
    file.ask("# Context from my IDE setup:\n\n## My request for Codex:\nAnd this")
    file.message("user", text("<turn_aborted>\nThe user interrupted.\n</turn_aborted>"))
    file.message(
        "user",
        text(
            "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 2\n"
            "Duration: 0.1 seconds\nOutput:\nno\n</result>\n</user_shell_command>"
        ),
    )
    file.add(
        "compacted", {"message": "What was so far", "replacement_history": [{"type": "message"}]}
    )
    file.event("context_compacted")
    file.item("compaction", encrypted_content="x")
    file.add("world_state", {"full": True})
    file.event(
        "entered_review_mode", target={"type": "uncommittedChanges"}, user_facing_hint="changes"
    )
    finding = {"title": "A bug", "body": "There.", "code_location": {"absolute_file_path": "/a"}}
    file.event(
        "exited_review_mode", review_output={"overall_explanation": "Good", "findings": [finding]}
    )
    file.add(
        "inter_agent_communication",
        {"author": "/root/a", "content": "I am done", "trigger_turn": False},
    )
    file.event("turn_aborted", turn_id="turn-2", reason="interrupted")
    file.begin(3)
    file.ask("Once more")
    file.end(3, error={"message": "You have hit your limit."})


def paginated() -> CodexFile:
    """Return a session with every known type of record, in the format since 2026."""
    file = CodexFile(mode="paginated")
    file.context()
    file.add("token_usage_record", {"usage": {}})
    file.begin(1)
    file.message(
        "user", text("Look"), {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    )
    content = [
        text("Look", "text"), {"type": "local_image", "path": "/p.png"},
        {"type": "skill", "name": "deploy", "path": "/s/SKILL.md"},
        {"type": "mention", "name": "app", "path": "app://x"},
    ]  # fmt: skip
    file.done("UserMessage", "u1", content=content)
    file.done("Reasoning", "rs_1", summary_text=["One", "Two"], raw_content=["raw"])
    file.item("reasoning", id="rs_1", summary=[text("One", "summary_text")], encrypted_content="x")
    file.answer("Working.", "msg_1")
    file.call("call_1", "exec_command", {"cmd": "cat a"}, id="fc_1")
    read = {"type": "read", "cmd": "cat a", "name": "a", "path": f"{CWD}/a"}
    run: Json = {
        "command": ["/bin/bash", "-lc", "cat a"],
        "cwd": f"file://{CWD}",
        "source": "agent",
        "exit_code": 0,
    }
    file.done(
        "CommandExecution",
        "call_1",
        parsed_cmd=[read],
        status="completed",
        aggregated_output="42\n",
        **run,
    )
    file.output("call_1", "Chunk ID: 55acd1\nProcess exited with code 0\nOutput:\n42\n")
    shell = "<user_shell_command>\n<command>\nls\n</command>\n<result>\nx\n</result>"
    file.message("user", text(f"{shell}\n</user_shell_command>"))
    search = {"type": "search", "cmd": "rg x", "query": "x", "path": "src"}
    file.done(
        "CommandExecution",
        "call_2",
        parsed_cmd=[search],
        status="failed",
        aggregated_output="no\n",
        **run,
    )
    file.done(
        "CommandExecution",
        "call_3",
        parsed_cmd=[{"type": "list_files", "path": None}],
        status="completed",
        **run,
    )
    file.done(
        "CommandExecution",
        "call_4",
        parsed_cmd=[{"type": "unknown"}],
        status="declined",
        stdout="out",
        **run,
    )
    file.item("custom_tool_call", name="apply_patch", input=PATCH, call_id="call_5")
    changes = {
        f"{CWD}/a.py": {
            "type": "update",
            "unified_diff": "@@ -3 +3 @@\n-two\n+2",
            "move_path": f"{CWD}/b.py",
        }
    }
    file.done("FileChange", "call_5", changes=changes, status="completed", stdout="ok", stderr="")
    file.output("call_5", "Success", "custom_tool_call_output")
    file.call("call_6", "update_plan", {"plan": [{"step": "One", "status": "pending"}]})
    file.output("call_6", "Plan updated")
    given = {"server": "files", "tool": "read", "arguments": {"path": "x"}}
    file.done(
        "McpToolCall",
        "call_7",
        status="completed",
        result={"content": [text("in", "text")]},
        **given,
    )
    file.done("McpToolCall", "call_8", status="failed", error={"message": "no"}, **given)
    file.done(
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
    file.done(
        "DynamicToolCall",
        "call_a",
        namespace="n",
        tool="own",
        arguments={},
        status="failed",
        error="no",
    )
    file.done(
        "WebSearch", "ws_1", query="weather", action={"type": "search", "queries": ["a", "b"]}
    )
    file.item("web_search_call", id="ws_1", action={"type": "search", "query": "weather"})
    file.done("ImageView", "call_b", path="/p.png")
    file.done("ImageGeneration", "ig_1", status="completed", revised_prompt="A cat", result=PICTURE)
    file.done("Extension", "ig_2", kind="image_gen.generation", status="completed", result="")
    file.done("Extension", "ws_2", kind="web.search", query="q", action={"type": "search"})
    file.done("Extension", "zz", kind="clock.sleep")
    file.done(
        "CollabAgentToolCall",
        "call_c",
        tool="spawn_agent",
        status="completed",
        receiver_thread_ids=[thread(7)],
        prompt="Help",
    )
    file.done("CollabAgentToolCall", "call_d", tool="wait", status="in_progress")
    file.done(
        "SubAgentActivity",
        "call_e",
        kind="started",
        agent_thread_id=thread(7),
        agent_path="/root/a",
    )
    rest(file)
    file.turn(2)
    return file


def rest(file: CodexFile) -> None:
    """Add items that are not calls."""
    file.done("HookPrompt", "h", fragments=[])
    file.done("Plan", "plan_1", text="# The plan")
    file.add("compacted", {"message": "", "window_id": "w"})
    file.done("ContextCompaction", "cc")
    file.done("EnteredReviewMode", "r1", user_facing_hint="all")
    file.done("ExitedReviewMode", "r2", review_output=None)
    file.answer("Done.", "msg_2")
    file.end(1)


def rolled_back() -> CodexFile:
    """Return a session with rolled back turns, some of them rolled back twice."""
    file = CodexFile()
    file.context()
    for number in (1, 2, 3):
        file.turn(number)
    file.event("thread_rolled_back", num_turns=2)
    file.turn(4)
    file.event("thread_rolled_back", num_turns=1)
    file.turn(5)
    return file


def bare() -> list[bytes]:
    """Return the lines of a session in the format before September 2025."""
    file = CodexFile()
    file.lines.clear()
    file.put(
        {
            "id": SESSION,
            "timestamp": "2025-06-01T10:00:00.000Z",
            "instructions": "Be kind",
            "git": {},
        }
    )
    file.put({"record_type": "state"})
    file.put(_said("user", "<user_instructions>\n\nBe kind.\n\n</user_instructions>"))
    file.put(
        _said(
            "user",
            f"<environment_context>\nCurrent working directory: {CWD}\n</environment_context>",
        )
    )
    file.put(_said("user", "Question 1"))
    file.put(
        {"type": "reasoning", "id": "rs", "summary": [text("Hm", "summary_text")], "content": None}
    )
    file.put(
        {
            "type": "function_call",
            "name": "shell",
            "arguments": '{"command":["ls"]}',
            "call_id": "call_1",
        }
    )
    file.put(
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": '{"output":"a\\n","metadata":{"exit_code":2}}',
        }
    )
    file.put(_said("assistant", "Answer 1"))
    file.put({"record_type": "state"})
    file.put(_said("user", "Question 2"))
    file.put(_said("assistant", "Answer 2"))
    return file.lines


def _said(role: str, words: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": None, "role": role, "content": [text(words, kind)]}
