import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

import schema
from selection import deselected_cases, is_everything, some
from signal_dispositions import default_in_children

_MEMORY = "/dev/shm"  # noqa: S108 - names in it are made by `tempfile`
_MEMORY_NEEDED = 4 << 30

# No deadline: the time that an example takes depends on the load of the machine.
settings.register_profile("rekindle", deadline=None, max_examples=some(100))
settings.load_profile("rekindle")

# A sync to a real disk takes most of the time of tests that write stores.
if (
    not is_everything()
    and "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free > _MEMORY_NEEDED
):
    os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY

# Without cached bytecode, each of the many processes compiles every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """Give commands a temporary store and no configuration, not the user's own."""
    folder = TemporaryDirectory(prefix="rekindle-tests-")
    os.environ["REKINDLE_STORE"] = f"{folder.name}/sessions.db"
    os.environ["REKINDLE_CONFIG"] = f"{folder.name}/config.toml"
    config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect some of many similar cases, unless all tests are to run."""
    deselected = set(deselected_cases(items))
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = [item for item in items if item not in deselected]


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection: they live until the end."""
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """Use more workers than processors, because some tests wait for other processes."""
    return (os.cpu_count() or 1) * 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite golden files with the current output"
    )


@pytest.fixture(scope="session", autouse=True)
def signals_reach_children() -> Iterator[None]:
    """Run only where tests run: the process that distributes them may ignore signals."""
    with default_in_children():
        yield


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture
def sdk() -> None:
    """Skip the test if the schemas and the SDK are not installed. In CI, it then fails."""
    if why := schema.why_missing():
        pytest.skip(why)
