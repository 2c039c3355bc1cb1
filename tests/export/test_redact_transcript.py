import json
from typing import Any

import pytest

from rekindle.export.redact_transcript import redact, redact_session
from rekindle.model import AgentIdentity, Opened, Titled, TitleSource
from rekindle.store.memory import MemoryStore

KEY = "ghp_" + "aB3dE5gH7jK9" * 3


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"password": "hunter2hunter2"}, {"password": "***"}),
        ({"password": "SuperSecretPassword"}, {"password": "***"}),
        ({"password": {"value": "hunter2hunter2"}}, {"password": {"value": "***"}}),
        ({"tokens": ["abcd1234efgh0000"]}, {"tokens": ["***"]}),
        ({"tokens": [["abcd1234efgh0000"], 1]}, {"tokens": [["***"], 1]}),
        (
            {"env": [{"name": "API_KEY", "value": "abcd1234efgh5678"}]},
            {"env": [{"name": "API_KEY", "value": "***"}]},
        ),
        ({"key": "authToken", "value": "abcd1234efgh"}, {"key": "authToken", "value": "***"}),
        (["curl", "--token", "abcd1234efgh9999"], ["curl", "--token", "***"]),
        (["env", "DB_PASSWORD=correcthorse"], ["env", "DB_PASSWORD=***"]),
        ({"log": f"\x1b[32m{KEY}\x1b[0m"}, {"log": "\x1b[32mghp_***\x1b[0m"}),
        ({"out": json.dumps({"api_key": "zzzz1234zzzz5678"})}, {"out": '{"api_key": "***"}'}),
        ({"out": json.dumps({"log": f"line\n{KEY}"})}, {"out": '{"log": "line\\nghp_***"}'}),
        ({"url": "x", "token": f"see {KEY} there"}, {"url": "x", "token": "see ghp_*** there"}),
    ],
)
def test_secrets_are_masked_anywhere_in_a_value(given: object, shown: object) -> None:
    assert redact(given) == shown


@pytest.mark.parametrize(
    "value",
    [
        {"name": "PATH", "value": "/usr/bin:/opt/python3.11/bin"},
        {"password": {"type": "string", "description": "The one that you have chosen, 1 of 2"}},
        {"max_tokens": 4096, "token": None, "tokenType": "bearer-token-v2"},
        {"required": ["password", "username1"]},
        ["--token", "--verbose", "--token-file", "x1y2z3a4b5"],
        {"mimeType": "image/png", "data": KEY},
    ],
)
def test_other_values_are_unchanged(value: Any) -> None:  # noqa: ANN401 - JSON
    assert redact(value) == value


def test_the_texts_of_a_session_are_masked() -> None:
    agent = AgentIdentity(name=f"a {KEY}", command=("a", "--token", "abcd1234efgh9999"))
    title = Titled(session_id="s", at_us=1, source=TitleSource.USER, title=f"use {KEY}")
    store = MemoryStore()
    store.write([Opened(session_id="s", at_us=1, agent=agent, cwd=f"/{KEY}"), title])
    session = redact_session(store.session("s"))
    assert session.title == "use ghp_***"
    assert session.cwd == "/ghp_***"
    assert session.agent.name == "a ghp_***"
    assert session.agent.command == ("a", "--token", "***")
