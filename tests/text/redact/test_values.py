import pytest

from rekindle.text.redact.values import (
    is_bare_secret,
    is_chosen,
    is_generated,
    is_literal_secret,
    is_mixed,
    reads_as_words,
    refers,
)


@pytest.mark.parametrize(
    "value", ["$TOKEN", "${secret}", "<your key>", "os.environ", "***", "xxxxxx", "my-password"]
)
def test_references_and_placeholders_are_not_secrets(value: str) -> None:
    assert refers(value)
    assert not is_literal_secret("password", value)


def test_a_chosen_secret_may_be_a_word_and_a_generated_one_may_not() -> None:
    assert is_chosen("db_password")
    assert not is_chosen("api_key")
    assert is_literal_secret("password", "sunshine")
    assert not is_literal_secret("api_key", "sunshine")
    assert is_literal_secret("password", "correct horse battery")


def test_a_bare_word_counts_only_if_it_looks_like_a_secret() -> None:
    assert is_bare_secret("token", "a1B2c3D4e5F6g7H8", is_setting=False, is_code=False)
    assert not is_bare_secret("token", "next_token", is_setting=False, is_code=True)
    assert is_bare_secret("password", "sunshine", is_setting=True, is_code=False)


def test_generated_values_mix_letters_and_digits() -> None:
    assert is_mixed("a1")
    assert not is_mixed("abc")
    assert is_generated("9f86d081884c7d659a2feaa0c55ad015")
    assert not is_generated("my-application-version-2")
    assert reads_as_words("my-app-v2")
