import os
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

import schema
from test_selection import left_out

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Keep away from the store of whoever runs the tests."""
    folder = TemporaryDirectory(prefix="rekindle-tests-")
    os.environ["REKINDLE_STORE"] = f"{folder.name}/sessions.db"
    config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take some of what is much alike."""
    out = set(left_out(items))
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


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
