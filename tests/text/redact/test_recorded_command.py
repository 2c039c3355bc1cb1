import json

import pytest
from hypothesis import given, strategies as st

from rekindle.text.redact.recorded_command import mask_command

SECRET = "hunter2-hunter2"  # noqa: S105 - it must not be recorded
KEY = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7" * 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("env", "OPENAI_API_KEY=sk-1", "agent"), ("env", "OPENAI_API_KEY=***", "agent")),
        (("agent", "--api-key=sk-1"), ("agent", "--api-key=***")),
        (("agent", "--token", "t", "acp"), ("agent", "--token", "***", "acp")),
        (("agent", "--client-secret", "s=1"), ("agent", "--client-secret", "***")),
        (("keyboard", "monkey=1"), ("keyboard", "monkey=***")),
        (("GH_PAT=x", "DB_PASS=x", "dbPass=x"), ("GH_PAT=***", "DB_PASS=***", "dbPass=***")),
        (("agent", "--api-key", "-abc"), ("agent", "--api-key", "***")),
        (("agent", "--auth", "hunter2"), ("agent", "--auth", "***")),
        (("ANTHROPIC_AUTH=hunter2", "agent"), ("ANTHROPIC_AUTH=***", "agent")),
        (("agent", "--header", "X-Auth: hunter2"), ("agent", "--header", "X-Auth: ***")),
        (("DBPASS=x", "MYSQL_PWD=x", "_auth=x:y"), ("DBPASS=***", "MYSQL_PWD=***", "_auth=***")),
    ],
)
def test_values_with_the_name_of_a_secret_are_masked(
    given: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert mask_command(given) == kept


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-lc", f"export KEY={SECRET}; exec agent"),
        ("bash", "-lc", f"KEY={SECRET} exec agent"),
        ("bash", "-lc", f"KEY='{SECRET} {SECRET}' agent"),
        ("bash", "-lc", f"agent --token {SECRET} && true"),
        ("bash", "-lc", f'agent --password "{SECRET} {SECRET}"'),
        ("bash", "-lc", f"curl -H 'X-Api-Key: {SECRET}' x"),
        ("bash", "-lc", f"sh -c 'agent --token {SECRET}'"),
        ("bash", "-lc", f"agent 'unclosed --token {SECRET}"),
        ("docker", "run", f"--env=KEY={SECRET}", "agent"),
        ("docker", "run", "-e", f"KEY={SECRET}", "agent"),
        ("agent", "--header", f"Authorization: Bearer {SECRET}"),
        ("agent", f"--header=Authorization: Basic {SECRET}"),
        ("agent", "-H", f"Cookie: session={SECRET}"),
        ("agent", f"postgres://me:{SECRET}@host/db"),
        ("agent", f"--url=https://me:{SECRET}@host"),
        ("agent", "-u", f"me:{SECRET}"),
        ("agent", json.dumps({"apiKey": SECRET})),
        ("agent", json.dumps({"servers": [{"env": {"GITHUB_TOKEN": SECRET}}]})),
        ("agent", json.dumps([{"name": "API_KEY", "value": SECRET}])),
        ("agent", json.dumps({"args": ["--token", SECRET]})),
        ("agent", json.dumps({"tokens": [SECRET]})),
        ("agent", json.dumps({"headers": {"authorization": [f"Bearer {SECRET}", 5]}})),
        ("agent", "--mcp=" + json.dumps({"password": SECRET})),
        ("agent", "--token", f"-{SECRET}"),
        ("agent", "--token", f"--{SECRET}"),
        ("agent", f"--token=-{SECRET}"),
        ("agent", "--set", f"db.password={SECRET}"),
        ("agent", "--login", f"me:{SECRET}"),
        ("agent", f"--user=me:{SECRET}"),
        ("agent", "-H", f"X-Auth:{SECRET}"),
        ("agent", f"--passcode={SECRET}"),
        ("agent", "--password", f"$(echo {SECRET})"),
        ("agent", f"--password=${{PASSWORD:-{SECRET}}}"),
        ("bash", "-lc", f'agent --password "$(echo {SECRET})"'),
        ("bash", "-lc", f'agent --password "$(echo "a {SECRET}")"'),
        ("bash", "-lc", f"PASSWORD=$(echo {SECRET}) agent"),
        ("bash", "-lc", f"PASSWORD=`echo {SECRET}` agent"),
        ("bash", "-lc", f"agent --password $(cat <<< {SECRET})"),
        ("agent", "a=" * 20 + f"token={SECRET}0123456789abcdef"),
    ],
)
def test_no_form_of_a_command_keeps_a_secret(command: tuple[str, ...]) -> None:
    masked = " ".join(mask_command(command))
    assert SECRET not in masked
    assert "***" in masked


@pytest.mark.parametrize("place", ["{}", "--x={}", "A={}", "-c agent {} x", '{{"x": "{}"}}'])
def test_a_key_is_masked_by_its_form(place: str) -> None:
    assert KEY[13:] not in " ".join(mask_command(("agent", place.format(KEY))))


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("opencode", "acp", "--model", "gpt"),
        ("agent", "--token", "--acp"),
        ("agent", "--token", "-v"),
        ("agent", "--token", "--port=80"),
        ("agent", "--token-file", "/run/token", "--api-key-env=OPENAI_API_KEY"),
        ("agent", "--max-tokens", "4096", "--max-tokens=4096"),
        ("agent", "--auth", "oauth", "--auth=api-key", "--use-token=true", "--key="),
        ("agent", "--auth", "oauth2", "--auth=chatgpt", "-H", "Accept:text/html", "--user=me"),
        ("env", "SSH_AUTH_SOCK=/tmp/sock", "PATH=/usr/bin", "COMPASS=1", "agent"),
        ("bash", "-lc", 'agent --token "$TOKEN" --key ${KEY} --password $(cat p) -u me:$P'),
        ("agent", '{"args": ["--acp"], "port": 80, "key": null, "x": {"name": 5}}'),
        ("agent", "{not json}", "[also not"),
        ("npx", "@zed-industries/claude-code-acp@0.16.0"),
        ("agent", "https://host:80/path", "-u", "me"),
        ("agent", "x" * 200 + "key=1"),
    ],
)
def test_ordinary_words_are_not_masked(command: tuple[str, ...]) -> None:
    assert mask_command(command) == command


def test_deeply_nested_json_is_masked_whole() -> None:
    assert mask_command(("agent", "[" * 900 + "5" + "]" * 900)) == ("agent", "***")


@given(st.lists(st.text(max_size=40), max_size=6).map(tuple))
def test_masking_keeps_the_number_of_words_and_is_stable(command: tuple[str, ...]) -> None:
    masked = mask_command(command)
    assert len(masked) == len(command)
    assert mask_command(masked) == masked
