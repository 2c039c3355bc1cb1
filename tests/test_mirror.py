"""The tests mirror the source: a folder for each package, and a file for each pure module."""

from pathlib import Path

import pytest

import rekindle

PACKAGE = Path(rekindle.__file__).parent
TESTS = Path(__file__).parent

PURE = ("acp", "proxy", "text", "transcript")
"""The packages whose modules each have a test file of their own name."""


def packages_without_tests() -> set[str]:
    """Return the packages, as paths, without a folder of tests at the same path."""
    packages = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    return {
        package.as_posix() for package in packages if not any((TESTS / package).rglob("test_*.py"))
    }


def modules_without_tests() -> set[str]:
    """Return the modules of the pure packages without `test_<module>.py` at the same path."""
    modules = (
        path.relative_to(PACKAGE) for name in PURE for path in (PACKAGE / name).rglob("*.py")
    )
    return {
        module.as_posix()
        for module in modules
        if module.name != "__init__.py"
        and not (TESTS / module.with_name(f"test_{module.name}")).is_file()
    }


def test_every_package_has_a_test_folder() -> None:
    assert packages_without_tests() == set()


def test_every_pure_module_has_a_test_file() -> None:
    assert modules_without_tests() == set()


@pytest.mark.parametrize("name", PURE)
def test_every_pure_package_exists(name: str) -> None:
    assert any((PACKAGE / name).glob("*.py"))
