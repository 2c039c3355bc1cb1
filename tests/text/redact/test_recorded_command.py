import pytest

from rekindle.text.redact.recorded_command import mask_command


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("opencode", "acp", "--model", "gpt"), ("opencode", "acp", "--model", "gpt")),
        (("env", "OPENAI_API_KEY=sk-1", "agent"), ("env", "OPENAI_API_KEY=***", "agent")),
        (("agent", "--api-key=sk-1"), ("agent", "--api-key=***")),
        (("agent", "--token", "t", "acp"), ("agent", "--token", "***", "acp")),
        (("agent", "--token", "--acp"), ("agent", "--token", "--acp")),
        (("agent", "--client-secret", "s=1"), ("agent", "--client-secret", "***")),
        (("keyboard", "monkey=1"), ("keyboard", "monkey=***")),
        ((), ()),
    ],
)
def test_values_with_the_name_of_a_secret_are_masked(
    given: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert mask_command(given) == kept
