import pytest

from rekindle.text.redact.names import is_secret_name, is_secret_option


@pytest.mark.parametrize(
    "name",
    ["password", "DB_PASSWORD", "clientSecret", "tokens", "x-api-key", "aws_secret_access_key",
     "AccountKey", "dbPwd", "Authorization", "access-key-id", "password2", "--token"],
)  # fmt: skip
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "key", "PWD", "tokenizer", "secretName", "token_count", "private-key-path", "tokenType",
     "passwordMinLength", "password is", "token" * 30],
)  # fmt: skip
def test_names_of_facts_about_a_secret_are_not_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_options_that_a_secret_follows_are_recognised() -> None:
    assert is_secret_option("--token")
    assert is_secret_option("-api-key")
    assert not is_secret_option("token")
    assert not is_secret_option("--token-file")
    assert not is_secret_option("--verbose")
