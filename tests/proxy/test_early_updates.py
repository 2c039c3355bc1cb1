"""What is told of sessions before they have a name."""

import pytest

from playbook import Playbook
from rekindle.proxy import live_session as module
from rekindle.proxy.live_session import LiveSessions


def test_what_is_held_of_unnamed_sessions_is_bounded() -> None:
    sessions = LiveSessions()
    line = b"x" * 1_000_000
    held = sum(sessions.hold_early(f"s{number}", line) for number in range(100))
    assert held == module.MOST_HELD // len(line)


def test_what_was_named_or_told_makes_room_again() -> None:
    sessions = LiveSessions()
    half = b"x" * (module.MOST_HELD // 2)
    assert sessions.hold_early("one", half)
    assert sessions.hold_early("other", half)
    assert not sessions.hold_early("other", b"x")
    assert sessions.bind("mine", "one").held == [half]
    assert sessions.hold_early("third", half)
    assert sessions.take_held(are_all_named=True) == [half] * 3
    assert sessions.hold_early("fourth", half + half)
    sessions.agent_ended()
    assert sessions.hold_early("fifth", half + half)


def test_what_there_is_no_room_for_is_told_and_recorded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = (
        '{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"%s"}}}'
    )
    monkeypatch.setattr(module, "MOST_HELD", len(update))
    played = Playbook().play(
        "\n".join(
            [
                "agent Fake load",
                'c> {"id":2,"method":"session/new","params":{"cwd":"/p","mcpServers":[]}}',
                "a> " + update % "_a",
                "a> " + update % "_b",
            ]
        )
    )
    assert f"<c {update % '_a'}" not in played
    assert f"#  s2 agent update\n<c {update % '_b'}" in played
