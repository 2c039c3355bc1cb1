import pytest

import rekindle


def test_every_public_name_is_there() -> None:
    for name in rekindle.__all__:
        assert getattr(rekindle, name).__module__.startswith("rekindle.")
    assert set(rekindle.__all__) <= set(dir(rekindle))


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = rekindle.nonsense  # type: ignore[attr-defined]
