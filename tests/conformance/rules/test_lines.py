"""Rules for lines, updates and responses, each with good and bad handmade input."""

import pytest

from handmade_lines import (
    CALL,
    ENTRY,
    INFO,
    OPTION,
    PLAN,
    Case,
    Rule,
    S,
    answered,
    ask,
    assert_rule,
    came,
    chunk,
    greeted,
    listed,
    new,
    no,
    ok,
    question,
    state,
    update,
    v1,
    v2,
)
from rekindle.conformance.rules import fields, frames, responses, updates
from rekindle.conformance.trace import received

CASES: list[Case] = [
    # Frames.
    ("plain text", v1(frames.invalid_messages), [ok(1)], [received(b"Welcome!")]),
    ("a batch", v1(frames.invalid_messages), [received(b"")], [received(b'[{"jsonrpc":"2.0"}]')]),
    ("no version", v1(frames.invalid_messages), [ok(1)], [received(b'{"id":1,"result":{}}')]),
    ("no UTF-8", v1(frames.invalid_messages), [ok(1)], [received(b'{"jsonrpc":"2.0","x":"\xff"}')]),
    ("method is a number", frames.bad_frames, [update("plan")], [came(method=7)]),
    ("neither", frames.bad_frames, [ok(1)], [came(params={})]),
    ("result and error", frames.bad_frames, [no(1)], [came(id=1, result={}, error={})]),
    ("code is text", frames.bad_frames, [no(1)], [came(id=1, error={"code": "1", "message": ""})]),
    ("no message", frames.bad_frames, [no(1)], [came(id=1, error={"code": 1})]),
    ("twice", frames.unexpected_responses, [ask(1, "x"), ok(1)], [ask(1, "x"), ok(1), ok(1)]),
    ("unasked", frames.unexpected_responses, [came(id=None, error={})], [ok(7)]),
    ("id as text", frames.unexpected_responses, [ask("1", "x"), ok("1")], [ask(1, "x"), ok("1")]),
    (
        "unanswered",
        lambda it: frames.unanswered_requests(it, ""),
        [answered(ask(1, "x"), ok(1))],
        [answered(ask(1, "x"), None)],
    ),
    ("odd method", frames.unknown_methods, [came(method="_x/y")], [came(method="craft/x")]),
    (
        "files",
        v1(frames.unsupported_calls),
        [question()],
        [came(id=1, method="fs/read_text_file")],
    ),
    ("a notice", v1(frames.unsupported_calls), [update("plan")], [update("notice", title="x")]),
    (
        "no id",
        v2(frames.bad_ids),
        [question(), came(id=0, method="x")],
        [came(id=None, method="x")],
    ),
    ("half an id", v1(frames.bad_ids), [came(id=None, method="x")], [came(id=1.5, method="x")]),
    ("true for an id", v2(frames.bad_ids), [came(id="", method="x")], [came(id=True, method="x")]),
    ("kind of v2", v1(frames.unknown_kinds), [update("plan")], [state("idle")]),
    ("kind of v1", v2(frames.unknown_kinds), [state("idle"), update("_x")], [update("tool_call")]),
    ("no kind", v2(frames.unknown_kinds), [state("idle")], [came(method="session/update")]),
    (
        "another session",
        lambda it: frames.unknown_sessions(it, {S}),
        [chunk("agent", "a")],
        [chunk("agent", "a", "ses_2")],
    ),
    (
        "a leaked update",
        v1(frames.leaked_updates),
        [
            ask(1, "session/prompt", sessionId=S),
            chunk("agent", "a", "ses_2"),
            chunk("agent", "b"),
            chunk("agent", "a"),
            ok(1),
            chunk("agent", "a", "ses_2"),
        ],
        [ask(1, "session/prompt", sessionId=S), chunk("agent", "a"), chunk("agent", "a", "ses_2")],
    ),
    (
        "a leaked update of v2",
        v2(frames.leaked_updates),
        [
            ask(1, "session/prompt", sessionId=S),
            ask(2, "session/prompt", sessionId="ses_2"),
            no(2),
            ask(3, "session/prompt", sessionId="ses_2"),
            ok(3),
            chunk("agent", "a", "ses_2"),
            chunk("agent", "a"),
            state("idle"),
            chunk("agent", "b"),
            chunk("agent", "c", "ses_2"),
        ],
        [
            ask(1, "session/prompt", sessionId=S),
            ok(1),
            chunk("agent", "a", "ses_2"),
            chunk("agent", "a"),
        ],
    ),
    ("field", v1(fields.extra_fields), [chunk("agent", "a", _meta={})], [chunk("agent", "a", x=1)]),
    (
        "field of a result",
        v1(fields.extra_fields),
        [ask(1, "session/load"), ok(1, modes={})],
        [ask(1, "session/load"), ok(1, sessionId=S)],
    ),
    (
        "modes in v2",
        v2(fields.extra_fields),
        [ask(1, "session/resume"), ok(1)],
        [ask(1, "session/resume"), ok(1, modes={})],
    ),
    (
        "field of a session",
        v1(fields.extra_fields),
        [ask(1, "session/list"), ok(1, sessions=[ENTRY])],
        [ask(1, "session/list"), ok(1, sessions=[ENTRY | {"model": "m"}])],
    ),
    (
        "field of a capability",
        v1(fields.extra_fields),
        [ask(1, "initialize"), ok(1, agentCapabilities={"loadSession": True})],
        [ask(1, "initialize"), ok(1, agentCapabilities={"sessionCapabilities": {"magic": {}}})],
    ),
    (
        "field of a block",
        v1(fields.extra_fields),
        [update("agent_message_chunk", content={"type": "text", "text": "a", "_meta": {"b": 1}})],
        [update("agent_message_chunk", content={"type": "text", "text": "a", "colour": "red"})],
    ),
    (
        "field of a diff",
        v2(fields.extra_fields),
        [update("tool_call_update", **CALL, content=[{"type": "_tree", "leaves": 3}])],
        [update("tool_call_update", **CALL, content=[{"type": "diff", "leaves": 3}])],
    ),
    (
        "field of an option",
        v1(fields.extra_fields),
        [question()],
        [question(options=[{"optionId": "o", "name": "Yes", "kind": "allow_once", "key": "y"}])],
    ),
    (
        "null for none",
        frames.null_arrays,
        [new(configOptions=[]).response],
        [ok(1, configOptions=None)],
    ),
    # Updates.
    (
        "call without id",
        v1(updates.bad_tool_calls),
        [update("tool_call", **CALL)],
        [update("tool_call", title="x")],
    ),
    ("call without title", v1(updates.bad_tool_calls), [], [update("tool_call", toolCallId="t")]),
    (
        "relative diff",
        v1(updates.bad_tool_calls),
        [
            update(
                "tool_call", **CALL, content=[{"type": "diff", "path": "/a"}, {"type": "content"}]
            )
        ],
        [update("tool_call", **CALL, content=[{"type": "diff", "path": "a"}])],
    ),
    (
        "relative change",
        v2(updates.bad_tool_calls),
        [update("tool_call_content_chunk", **CALL, content={"type": "diff", "changes": []})],
        [
            update(
                "tool_call_update",
                **CALL,
                content=[{"type": "diff", "changes": [{"path": "/a", "oldPath": "a"}]}],
            )
        ],
    ),
    (
        "call out of nowhere",
        v1(updates.untitled_calls),
        [update("tool_call", **CALL), update("tool_call_update", toolCallId="t")],
        [update("tool_call_update", toolCallId="t")],
    ),
    (
        "status of v2",
        v1(updates.bad_tool_calls),
        [update("tool_call", **CALL, status="failed")],
        [update("tool_call", **CALL, status="cancelled")],
    ),
    (
        "unknown status",
        v2(updates.bad_tool_calls),
        [update("tool_call_update", **CALL, status="_odd")],
        [update("tool_call_update", **CALL, status="odd")],
    ),
    (
        "relative location",
        v1(updates.bad_tool_calls),
        [update("tool_call", **CALL, locations=[{"path": "/a"}])],
        [update("tool_call", **CALL, locations=[{"path": "a"}])],
    ),
    (
        "title later",
        v2(updates.untitled_calls),
        [update("tool_call_update", **CALL), update("tool_call_update", toolCallId="t")],
        [update("tool_call_update", toolCallId="t"), update("tool_call_update", **CALL)],
    ),
    (
        "plan without entries",
        v1(updates.bad_plans),
        [update("plan", entries=[PLAN])],
        [update("plan")],
    ),
    (
        "entry without content",
        v1(updates.bad_plans),
        [update("plan", entries=[PLAN | {"priority": "low"}])],
        [update("plan", entries=[PLAN | {"content": None}])],
    ),
    (
        "priority is a number",
        v1(updates.bad_plans),
        [update("plan", entries=[PLAN | {"status": "completed"}])],
        [update("plan", entries=[PLAN | {"priority": 7}])],
    ),
    (
        "cancelled in version 1",
        v1(updates.bad_plans),
        [],
        [update("plan", entries=[PLAN | {"status": "cancelled"}])],
    ),
    (
        "status of version 2",
        v2(updates.bad_plans),
        [
            update("plan", entries=[PLAN | {"status": "cancelled"}]),
            update("plan", entries=[PLAN | {"status": "_paused"}]),
        ],
        [update("plan", entries=[PLAN | {"status": ["paused"]}])],
    ),
    (
        "plan with half an entry",
        v1(updates.bad_plans),
        [update("plan", entries=[])],
        [update("plan", entries=[{"content": "x"}])],
    ),
    (
        "plan without id",
        v2(updates.bad_plans),
        [update("plan_update", plan={"type": "items", "planId": "p", "entries": [PLAN]})],
        [update("plan_update", plan={"type": "items", "entries": [PLAN]})],
    ),
    (
        "plan of a kind of its own",
        v2(updates.bad_plans),
        [update("plan_update", plan={"type": "_tree", "planId": "p"})],
        [update("plan_update", plan={"type": "_tree"})],
    ),
    (
        "terminal without id",
        updates.bad_terminals,
        [update("terminal_update", terminalId="t")],
        [update("terminal_update")],
    ),
    (
        "output in plain",
        updates.bad_terminals,
        [update("terminal_output_chunk", terminalId="t", data="aGk=")],
        [update("terminal_output_chunk", terminalId="t", data="hi!")],
    ),
    ("no output", updates.bad_terminals, [], [update("terminal_output_chunk", terminalId="t")]),
    (
        "folder in information",
        v1(updates.bad_session_info),
        [update("session_info_update", title=None)],
        [update("session_info_update", cwd="/")],
    ),
    (
        "title is a number",
        v1(updates.bad_session_info),
        [],
        [update("session_info_update", title=7)],
    ),
    (
        "no zone",
        v2(updates.bad_session_info),
        [update("session_info_update", updatedAt="2026-01-02T03:04:05+01:00")],
        [update("session_info_update", updatedAt="2026-01-02T03:04:05")],
    ),
    (
        "time is a number",
        v1(updates.bad_session_info),
        [],
        [update("session_info_update", updatedAt=7)],
    ),
    (
        "question of no session",
        v1(updates.bad_permission_requests),
        [question()],
        [question(sessionId="")],
    ),
    (
        "question of no call",
        v1(updates.bad_permission_requests),
        [question()],
        [question(toolCall={})],
    ),
    ("no title", v2(updates.bad_permission_requests), [question(title="May I?")], [question()]),
    ("no options", v1(updates.bad_permission_requests), [question()], [question(options=[])]),
    (
        "half an option",
        v1(updates.bad_permission_requests),
        [],
        [question(options=[{"optionId": "o"}])],
    ),
    (
        "asked while running",
        updates.permissions_without_state,
        [state("running"), state("requires_action"), question(), state("running")],
        [state("running"), question(), state("running")],
    ),
    (
        "asked, and nothing said",
        updates.permissions_without_state,
        [question(), state("requires_action")],
        [question()],
    ),
    # Responses.
    (
        "no info",
        v2(responses.bad_initialize),
        greeted(protocolVersion=2, info=INFO, capabilities={}),
        greeted(protocolVersion=2, capabilities={}),
    ),
    (
        "no capabilities",
        v2(responses.bad_initialize),
        greeted(info=INFO, capabilities={}),
        greeted(info=INFO),
    ),
    (
        "true for {}",
        v2(responses.bad_initialize),
        greeted(info=INFO, capabilities={"session": {}}),
        greeted(info=INFO, capabilities={"session": {"fork": True}}),
    ),
    (
        "session is true",
        v2(responses.bad_initialize),
        greeted(info=INFO, capabilities={}),
        greeted(info=INFO, capabilities={"session": True}),
    ),
    (
        "v1 body",
        v2(responses.bad_initialize),
        greeted(info=INFO, capabilities={}),
        greeted(protocolVersion=2, agentCapabilities={}),
    ),
    (
        "capabilities is a list",
        v1(responses.bad_initialize),
        greeted(),
        greeted(agentCapabilities=[]),
    ),
    (
        "load is {}",
        v1(responses.bad_initialize),
        greeted(agentCapabilities={"loadSession": True}),
        greeted(agentCapabilities={"loadSession": {}}),
    ),
    (
        "image is {}",
        v1(responses.bad_initialize),
        greeted(),
        greeted(agentCapabilities={"promptCapabilities": {"image": {}}}),
    ),
    (
        "list is true",
        v1(responses.bad_initialize),
        greeted(agentCapabilities={"sessionCapabilities": {"list": None}}),
        greeted(agentCapabilities={"sessionCapabilities": {"list": True}}),
    ),
    (
        "auth is an object",
        v1(responses.bad_auth_methods),
        greeted(authMethods=None),
        greeted(authMethods={"a": 1}),
    ),
    (
        "auth without id",
        v2(responses.bad_auth_methods),
        greeted(authMethods=[{"methodId": "k", "name": "Key"}]),
        greeted(authMethods=[{"id": "k", "name": "Key"}]),
    ),
    (
        "auth of another version",
        v2(responses.bad_auth_methods),
        greeted(protocolVersion=1, authMethods=[{"id": "k", "name": "Key"}]),
        greeted(protocolVersion=1, authMethods=[{"methodId": "k", "name": "Key"}]),
    ),
    (
        "version 1 that says 2",
        v2(fields.extra_fields),
        [ask(1, "initialize"), ok(1, protocolVersion=2, agentCapabilities={}, agentInfo=INFO)],
        [ask(1, "initialize"), ok(1, protocolVersion=2, capabilities={}, agentInfo=INFO)],
    ),
    ("no id", responses.missing_session_id, new(sessionId=S), new(sessionId="")),
    (
        "an error",
        responses.missing_session_id,
        new(sessionId=S),
        answered(ask(1, "session/new"), no(1)),
    ),
    ("null", responses.not_an_object, new(), answered(ask(1, "x"), came(id=1, result=None))),
    (
        "an array",
        lambda it: responses.not_an_object(it, or_null=True),
        answered(ask(1, "x"), came(id=1, result=None)),
        answered(ask(1, "x"), came(id=1, result=[])),
    ),
    ("refused", responses.not_an_object, new(), answered(ask(1, "x"), no(1))),
    ("not refused", responses.not_refused, answered(ask(1, "x"), no(1)), new()),
    ("no answer", responses.not_refused, answered(ask(1, "x"), no(1)), answered(ask(1, "x"), None)),
    (
        "another code",
        lambda it: responses.not_refused(it, -32602),
        answered(ask(1, "x"), no(1, -32602)),
        answered(ask(1, "x"), no(1, -32603)),
    ),
    (
        "advertised, and not there",
        responses.missing_method,
        answered(ask(1, "x"), no(1)),
        answered(ask(1, "x"), no(1, -32601)),
    ),
    ("advertised, and mute", responses.missing_method, new(), answered(ask(1, "x"), None)),
    (
        "same id",
        responses.shared_ids,
        [new(sessionId="a"), new(sessionId="b")],
        [new(sessionId="a"), new(sessionId="a")],
    ),
    ("no sessions", responses.bad_list, listed(ENTRY), new()),
    ("cursor is a number", responses.bad_list, listed(nextCursor=None), listed(nextCursor=7)),
    ("entry without id", responses.bad_list, listed(), listed({"cwd": "/"})),
    ("relative folder", responses.bad_list, listed(ENTRY), listed(ENTRY | {"cwd": "p"})),
    (
        "title is a number",
        responses.bad_list,
        listed(ENTRY | {"title": None}),
        listed(ENTRY | {"title": 7}),
    ),
    (
        "relative root",
        responses.bad_list,
        listed(ENTRY | {"additionalDirectories": ["/a"]}),
        listed(ENTRY | {"additionalDirectories": ["a"]}),
    ),
    (
        "roots are text",
        responses.bad_list,
        listed(ENTRY | {"additionalDirectories": None}),
        listed(ENTRY | {"additionalDirectories": "/a"}),
    ),
    (
        "no zone in a list",
        v1(responses.bad_times),
        listed(ENTRY),
        listed(ENTRY | {"updatedAt": "2026-01-02T03:04:05"}),
    ),
    ("words for a time", v1(responses.bad_times), listed(), listed(ENTRY | {"updatedAt": "now"})),
    (
        "option without id",
        lambda it: responses.bad_options([it], new(), 1),
        OPTION,
        {"name": "x", "currentValue": 1},
    ),
    (
        "option without value",
        lambda it: responses.bad_options([it], new(), 1),
        OPTION,
        {"id": "m", "name": "x"},
    ),
    (
        "boolean",
        lambda it: responses.bad_options([it], new(), 1),
        OPTION,
        OPTION | {"type": "boolean"},
    ),
    (
        "options missing",
        lambda it: responses.incomplete_options([OPTION], it, 1),
        new(configOptions=[OPTION]),
        new(configOptions=[]),
    ),
    (
        "option refused",
        lambda it: responses.incomplete_options([OPTION], it, 1),
        new(configOptions=[OPTION]),
        answered(ask(1, "x"), no(1)),
    ),
]


@pytest.mark.parametrize(
    ("rule", "good", "bad"), [it[1:] for it in CASES], ids=[it[0] for it in CASES]
)
def test_rule_accepts_good_input_and_finds_faults_in_bad_input(
    rule: Rule, good: object, bad: object
) -> None:
    assert_rule(rule, good, bad)


@pytest.mark.parametrize(
    ("time", "is_iso", "is_rfc"),
    [
        ("2026-01-02T03:04:05Z", True, True),
        ("2026-01-02t03:04:05.678z", True, True),
        ("2026-01-02T23:59:60+01:00", True, True),
        ("2026-01-02 03:04:05-00:30", True, True),
        ("20260102T030405Z", True, False),
        ("2026-W01-1T00:00:00Z", True, False),
        ("2026-01-02T03:04:05+0100", True, False),
        ("2026-02-30T03:04:05Z", False, False),
        ("2026-01-02T25:04:05Z", False, False),
        ("2026-01-02T03:04:05", False, False),
        ("2026-01-02", False, False),
        (1767323045, False, False),
    ],
)
def test_times_are_iso_8601_in_v1_and_rfc_3339_in_v2(
    time: object, is_iso: object, is_rfc: object
) -> None:
    listing = listed(ENTRY | {"updatedAt": time})
    assert (
        not list(responses.bad_times(listing, 1)),
        not list(responses.bad_times(listing, 2)),
    ) == (
        is_iso,
        is_rfc,
    )
