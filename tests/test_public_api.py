import subprocess
import sys

import pytest

import rekindle
import rekindle.client


def test_every_public_name_exists() -> None:
    for name in rekindle.__all__:
        assert getattr(rekindle, name).__module__.startswith("rekindle.")
    assert set(rekindle.__all__) <= set(dir(rekindle))


def test_unknown_name_raises() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = rekindle.nonsense  # type: ignore[attr-defined]


def test_every_name_of_the_client_exists_and_has_a_docstring() -> None:
    for name in rekindle.client.__all__:
        value = getattr(rekindle.client, name)
        if isinstance(value, type) or name == "connect":
            assert value.__module__.startswith("rekindle."), name
            assert value.__doc__, name


def test_client_is_imported_on_demand() -> None:
    code = "import rekindle, sys; rekindle.open_store; sys.exit('rekindle.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_client_imports_no_store() -> None:
    code = "import rekindle.client, sys; sys.exit('apsw' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
