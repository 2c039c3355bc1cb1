import time

import pytest
from hypothesis import given, strategies as st

from rekindle.core.secrets import mask, spans

BODY = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5kL7n"
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
PEM = f"{BEGIN}\nMIIEpAIBAAKCAQEA0Z3VS5JJ\nq+/=abcd\n{END}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use sk-ant-api03-{BODY} now", "use sk-*** now"),
        (f"sk-proj-{BODY}", "sk-***"),
        (f"ghp_{BODY}", "ghp_***"),
        (f"gho_{BODY}, and", "gho_***, and"),
        (f"github_pat_{BODY}", "github_pat_***"),
        (f"glpat-{BODY[:20]}", "glpat-***"),
        ("AKIAIOSFODNN7EXAMPLE.", "AKIA***."),
        (f"xoxb-123456789012-{BODY}", "xoxb-***"),
        (f"xapp-1-{BODY}", "xapp-***"),
        (f"AIza{BODY[:35]}", "AIza***"),
        (f"ya29.{BODY}", "ya29.***"),
        (f"npm_{BODY[:36]}", "npm_***"),
        (f"hf_{BODY}", "hf_***"),
        (f"sk_live_{BODY}", "sk_live_***"),
        (f"SG.{BODY[:22]}.{BODY}", "SG.***"),
        (f"eyJ{BODY}.eyJ{BODY}.{BODY}", "eyJ***"),
        (f"curl -H 'Authorization: Bearer {BODY}'", "curl -H 'Authorization: Bearer ***'"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic ***"),
        (f'"authorization": "{BODY}"', '"authorization": "***"'),
        (f"bearer {BODY}", "bearer ***"),
        (f"export OPENAI_API_KEY={BODY}", "export OPENAI_API_KEY=***"),
        ('{"client_secret": "s3cr3t-value"}', '{"client_secret": "***"}'),
        ("password: hunter2hunter2", "password: ***"),
        ("DB_PASSWORD='correct4horse'", "DB_PASSWORD='***'"),
        ("access-key-id => abc12345", "access-key-id => ***"),
        ("postgres://bob:pa55@db/x", "postgres://bob:***@db/x"),
        ("redis://:swordfish@host:6379", "redis://:***@host:6379"),
        (PEM, f"{BEGIN}***{END}"),
        (f"{BEGIN}\n{PEM}", f"{BEGIN}***{END}"),
        (f"{PEM}\n{PEM}".replace("\n", "\\n"), None),
        (PEM[:64] + " … (cut)", f"{BEGIN}*** … (cut)"),
        ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str | None) -> None:
    assert mask(text) == shown if shown is not None else "MIIE" not in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "commit 6f8d1b1c0e4fd655371b6a14f9097cd2cdffc82f",
        "550e8400-e29b-41d4-a716-446655440000",
        "sk-learn-and-other-long-words-with-dashes",
        "max_tokens=4096, token_count: 123456789",
        "the token: something, and its password: whatever",
        "api_key = os.environ['API_KEY_2']",
        "token = get_token2(session)",
        "API_KEY=${API_KEY_1}",
        "password=<your-password-1>",
        "secret_file: /etc/secrets/1.json",
        "Authorization: $AUTHORIZATION_1",
        "http://localhost:8080/@scope/package",
        "https://user:$PASSWORD@host",
        "git@github.com:owner/repository.git",
        "the bearer of good news arrived in the night",
        "AKIAIOSFODNN7EXAMPLEANDMORE, eyJust a word, ghp_short",
        "a tokenizer: unicode61",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA0Z3VS5JJ\n-----END CERTIFICATE-----",
    ],
)
def test_what_only_resembles_one_is_left(text: str) -> None:
    assert mask(text) == text


def test_secrets_within_secrets_are_hidden_once() -> None:
    text = f"API_KEY=ghp_{BODY} and token={BODY}"
    assert mask(text) == "API_KEY=*** and token=***"
    assert spans(text) == [(8, 12 + len(BODY)), (text.index("token=") + 6, len(text))]


PIECES = st.sampled_from(
    [
        "sk-", "ghp_", "eyJ", ".eyJ", "token=", "://", ":", "@", "bearer ", "-----BEGIN ",
        "PRIVATE KEY-----", "-----END ", "\n", " ", "-", "a", "A", "1", BODY, "=", '"', "\\n",
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5)).map("".join))
def test_the_rest_of_a_text_stays_as_it_is(text: str) -> None:
    end = 0
    for begin, after in spans(text):
        assert end <= begin < after <= len(text)
        end = after
    hidden = mask(text)
    assert mask(hidden) == hidden
    if not spans(text):
        assert hidden == text


@given(st.text(), st.text())
def test_a_token_is_hidden_wherever_it_stands(before: str, after: str) -> None:
    token = f"ghp_{BODY}"
    assert BODY not in mask(f"{before} {token} {after}")


@pytest.mark.parametrize(
    "piece",
    [
        "sk-", "-eyJ", "eyJaaaaaaaa.", "a-", "token", "token=", "password:a", "x://", "a:", "@",
        "-----BEGIN PRIVATE KEY-----", "-----BEGIN A A A ", "A" * 16 + "\\n", "bearer ", "SG.a",
        "authorization: ", "ghp_", "1a", " ", "key_", "-----BEGIN PRIVATE KEY-----" + "A" * 16,
        f"{BEGIN} ",
    ],
)  # fmt: skip
def test_the_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    begin = time.perf_counter()
    mask(text)
    # What is quadratic takes minutes.
    assert time.perf_counter() - begin < 5
