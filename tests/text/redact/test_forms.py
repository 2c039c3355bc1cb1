import pytest

from rekindle.text.redact.forms import find_by_form

TOKEN = "0123456789abcdefghijABCDEFGHIJ123456"  # noqa: S105 - a made-up token


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"ghp_{TOKEN}", TOKEN),
        (f"Bearer {TOKEN}", TOKEN),
        ("postgres://user:hunter2-hunter2@host/db", "hunter2-hunter2"),
        (f"Cookie: session={TOKEN}", TOKEN),
        ("curl -u me:hunter2-hunter2 https://host", "hunter2-hunter2"),
    ],
)
def test_secrets_with_a_known_form_are_found(text: str, secret: str) -> None:
    assert {text[begin:end] for begin, end in find_by_form(text)} == {secret}


@pytest.mark.parametrize("text", ["sk-button-primary-large-outline", "https://host:8080/a@b", ""])
def test_similar_texts_are_not_found(text: str) -> None:
    assert list(find_by_form(text)) == []
