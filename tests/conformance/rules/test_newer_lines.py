"""Rules for logins, options, sub-agents, batches and the like, with handmade input."""

import pytest

from handmade_lines import (
    CALL,
    OPTION,
    Case,
    Rule,
    S,
    answered,
    ask,
    assert_rule,
    came,
    chunk,
    greeted,
    new,
    no,
    ok,
    opened,
    turn_of,
    update,
    v1,
    v2,
)
from rekindle.conformance.rules import frames, options, replays, responses, turns, updates
from rekindle.conformance.trace import Exchange, received
from rekindle.jsonvalue import Json

LOGIN: Json = {"id": "key", "methodId": "key", "name": "Key", "type": "agent"}
TERMINAL: Json = LOGIN | {"type": "terminal"}
CHOSEN: Json = OPTION | {"configId": "m", "options": [{"value": "a", "name": "A"}]}
GROUPED: Json = CHOSEN | {"options": [{"group": "g", "options": [{"value": "a"}]}]}
OTHER: Json = CHOSEN | {"configId": "n", "id": "n"}
CHILD = "child"


def logins(*methods: Json) -> Exchange:
    return greeted(authMethods=list(methods))


def status(value: object) -> Exchange:
    return answered(ask(1, "session/status"), ok(1, status=value))


def modes(current: str, *known: str) -> Json:
    return {"currentModeId": current, "availableModes": [{"id": it} for it in known]}


def terminal(**fields: object) -> Exchange:
    return logins(TERMINAL | fields)


CASES: list[Case] = [
    # Logins.
    ("two ids", v1(responses.repeated_auth_ids), logins(LOGIN), logins(LOGIN, LOGIN)),
    (
        "odd type",
        responses.bad_auth_types,
        logins(LOGIN, LOGIN | {"type": "_own"}),
        logins(LOGIN | {"type": "own"}),
    ),
    ("no type", responses.bad_auth_types, logins(TERMINAL), logins({"methodId": "key"})),
    ("unasked", responses.unrequested_terminal_login, logins(LOGIN), logins(TERMINAL)),
    (
        "arguments",
        v1(responses.bad_terminal_login),
        terminal(args=["--login"]),
        terminal(args="--login"),
    ),
    (
        "variables of version 1",
        v1(responses.bad_terminal_login),
        terminal(env={"A": "1"}),
        terminal(env=[{"name": "A", "value": "1"}]),
    ),
    (
        "variables of version 2",
        v2(responses.bad_terminal_login),
        terminal(env=[{"name": "A", "value": "1"}]),
        terminal(env={"A": "1"}),
    ),
    (
        "a variable twice",
        v2(responses.bad_terminal_login),
        terminal(env=[]),
        terminal(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    ),
    (
        "no name",
        responses.missing_info,
        greeted(agentInfo={"name": "a", "version": "1"}),
        greeted(agentInfo={"name": "a", "version": ""}),
    ),
    # Session methods.
    ("odd status", responses.bad_status, status("saved"), status("gone")),
    ("own status", responses.bad_status, status("_own"), status(None)),
    (
        "no status",
        responses.bad_status,
        status("open"),
        answered(ask(1, "session/status"), no(1)),
    ),
    ("other", lambda it: responses.other_status(it, "open"), status("open"), status("saved")),
    # Modes and options.
    (
        "unknown mode",
        lambda it: options.bad_modes(new(), it),
        modes("ask", "ask", "code"),
        modes("plan", "ask", "code"),
    ),
    (
        "mode without id",
        lambda it: options.bad_modes(new(), it),
        modes("ask", "ask"),
        {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {}]},
    ),
    (
        "mode update",
        lambda it: options.bad_mode_updates(it, S),
        [update("current_mode_update", currentModeId="ask")],
        [update("current_mode_update", modeId="ask")],
    ),
    (
        "no choice",
        options.invalid_values,
        [ok(1, configOptions=[CHOSEN, GROUPED])],
        [ok(1, configOptions=[CHOSEN | {"currentValue": "b"}])],
    ),
    (
        "no choice in an update",
        options.invalid_values,
        [update("config_option_update", configOptions=[GROUPED])],
        [update("config_option_update", configOptions=[GROUPED | {"currentValue": "b"}])],
    ),
    (
        "not boolean",
        options.invalid_values,
        [ok(1, configOptions=[{"type": "boolean", "currentValue": False}])],
        [ok(1, configOptions=[{"type": "boolean", "currentValue": "no"}])],
    ),
    (
        "partial update",
        v2(options.partial_updates),
        # An option that disappears for good is not lacking.
        [
            ask(1, "session/new"),
            ok(1, sessionId=S, configOptions=[CHOSEN, OTHER]),
            update("config_option_update", configOptions=[CHOSEN]),
            ask(2, "session/set_config_option", sessionId=S),
            ok(2, configOptions=[CHOSEN]),
        ],
        [
            ask(1, "session/new"),
            ok(1, sessionId=S, configOptions=[CHOSEN, OTHER]),
            update("config_option_update", configOptions=[CHOSEN]),
            ask(2, "session/set_config_option", sessionId=S),
            ok(2, configOptions=[CHOSEN, OTHER]),
        ],
    ),
    # Updates.
    (
        "another name",
        updates.changed_names,
        [
            update("tool_call_update", **CALL, name="read"),
            update("tool_call_update", **CALL),
            update("tool_call_update", "ses_2", **CALL, name="write"),
        ],
        [
            update("tool_call_update", **CALL, name="read"),
            update("tool_call_update", **CALL, name="write"),
        ],
    ),
    (
        "relative terminal",
        updates.bad_terminal_folders,
        [update("terminal_update", terminalId="t", cwd="/a")],
        [update("terminal_update", terminalId="t", cwd="a")],
    ),
    (
        "moved terminal",
        updates.bad_terminal_folders,
        [
            update("terminal_update", terminalId="t", cwd="/a"),
            update("terminal_update", terminalId="u", cwd="/b"),
        ],
        [
            update("terminal_update", terminalId="t", cwd="/a"),
            update("terminal_update", terminalId="t", cwd="/b"),
        ],
    ),
    (
        "after a cancel",
        lambda it: turns.any_late_updates(it, turn_of()),
        [update("usage_update", "ses_2")],
        [update("session_info_update", title="Late")],
    ),
    # Sub-agents.
    (
        "late announcement",
        lambda it: frames.bad_subagents(it, {S}),
        [update("subagent_update", sessionId=CHILD), chunk("agent", "a", CHILD)],
        [chunk("agent", "a", CHILD), update("subagent_update", sessionId=CHILD)],
    ),
    (
        "late announcement of a sender",
        lambda it: frames.bad_subagents(it, {S}),
        [
            update("subagent_update", sessionId=CHILD),
            update("session_message", messageId="m", senderSessionId=CHILD),
        ],
        [
            update("session_message", messageId="m", senderSessionId=CHILD),
            update("subagent_update", sessionId=CHILD),
        ],
    ),
    (
        "nameless",
        lambda it: frames.bad_subagents(it, {S}),
        [update("subagent_update", sessionId=CHILD, cwd="/a")],
        [update("subagent_update")],
    ),
    (
        "relative child",
        lambda it: frames.bad_subagents(it, {S}),
        [update("subagent_update", sessionId=CHILD, cwd=None)],
        [update("subagent_update", sessionId=CHILD, cwd="a")],
    ),
    (
        "unknown child",
        lambda it: frames.unknown_sessions(it, {S}),
        [update("subagent_update", sessionId=CHILD), chunk("agent", "a", CHILD)],
        [chunk("agent", "a", CHILD)],
    ),
    (
        "sub-agent without a capability",
        v1(frames.unsupported_calls),
        [chunk("agent", "a")],
        [update("subagent_update", sessionId=CHILD)],
    ),
    (
        "running child",
        replays.running_subagents,
        opened(
            update("subagent_update", sessionId=CHILD, state={"state": "running"}),
            update("subagent_update", sessionId=CHILD, state={"state": "idle"}),
        ),
        opened(update("subagent_update", sessionId=CHILD, state={"state": "running"})),
    ),
    # Replays.
    (
        "another id",
        lambda it: replays.changed_prompt_ids(
            it,
            [
                turn_of(
                    update("user_message", messageId="m", content=[{"type": "text", "text": "Hi"}]),
                    answer=ok(1, messageId="m"),
                )
            ],
        ),
        # An agent need not keep a prompt.
        opened(chunk("user", "Hi", messageId="m"), chunk("user", "Other", messageId="o")),
        opened(chunk("user", "Hi", messageId="n")),
    ),
    # Lines.
    ("empty message", frames.bad_error_messages, [no(1)], [came(id=1, error={"message": " "})]),
    (
        "two lines",
        frames.bad_error_messages,
        [ok(1), came(id=1, error=None)],
        [came(id=1, error={"code": 1, "message": "a\nb"})],
    ),
    (
        "meta is text",
        frames.bad_meta,
        [ok(1, _meta={"a": 1}), ok(2, _meta=None), update("x", rawInput={"_meta": "any"})],
        [ok(1, sessions=[{"_meta": "x"}])],
    ),
    (
        "answers in an array",
        v2(frames.invalid_messages),
        [received(b'[{"jsonrpc":"2.0","id":1,"result":{}}]')],
        [received(b'[{"jsonrpc":"2.0","method":"x"}]')],
    ),
    (
        "answers in an array of version 1",
        v1(frames.invalid_messages),
        [ok(1)],
        [received(b'[{"jsonrpc":"2.0","id":1,"result":{}}]')],
    ),
    (
        "truncated",
        v1(frames.unknown_kinds),
        [update("history_truncated")],
        [update("history_forgotten")],
    ),
]


@pytest.mark.parametrize(
    ("rule", "good", "bad"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_rule_accepts_good_input_and_finds_faults_in_bad_input(
    rule: Rule, good: object, bad: object
) -> None:
    assert_rule(rule, good, bad)


def test_late_exit_is_a_fault() -> None:
    lines = [ok(1)]
    assert list(frames.late_exits(lines, exited_in_time=True)) == []
    assert [it.lines for it in frames.late_exits(lines, exited_in_time=False)] == [(lines[0],)]
