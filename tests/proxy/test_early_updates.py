"""Updates of sessions whose id the engine does not know yet."""

import pytest

from playbook import Playbook
from rekindle.proxy import message_queues


def test_an_early_update_without_room_is_recorded_and_forwarded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = (
        '{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"%s"}}}'
    )
    monkeypatch.setattr(message_queues, "MAX_EARLY_BYTES", len(update))
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
