import pytest
from hypothesis import settings

import schema

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite golden files to what happens now"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture
def sdk() -> None:
    """Skip a test where the schemas and the SDK are not installed; in CI, let it fail."""
    if why := schema.why_missing():
        pytest.skip(why)
