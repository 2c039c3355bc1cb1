"""The import graph between packages: which package may import which.

`ARROWS` is the rule. A module that imports against it fails the test, lazily or not.
"""

import ast
from functools import cache
from pathlib import Path

import rekindle

PACKAGE = Path(rekindle.__file__).parent

ARROWS: dict[str, set[str]] = {
    "errors": {"model"},
    "model": set(),
    "jsonvalue": set(),
    "text": {"errors", "model", "jsonvalue"},
    "acp": {"errors", "model", "jsonvalue", "text"},
    "transcript": {"errors", "model", "jsonvalue", "text", "acp"},
    "proxy": {"errors", "model", "jsonvalue", "text", "acp", "transcript"},
    "process": {"errors"},
    "configuration": {"errors"},
    "store": {"errors", "model", "jsonvalue", "text", "configuration"},
    "store/sqlite": {"errors", "model", "jsonvalue", "text", "store"},
    "importers": {"errors", "model", "jsonvalue", "text", "acp", "transcript"},
    "transfer": {
        "errors", "model", "jsonvalue", "text", "acp", "transcript", "store", "importers",
    },
    "export": {"errors", "model", "jsonvalue", "text", "acp", "transcript"},
    "client": {"errors", "model", "jsonvalue", "text", "acp", "transcript", "process"},
    "runtime": {
        "errors", "model", "jsonvalue", "text", "acp", "transcript", "proxy", "store", "process",
    },
    "conformance": {"errors", "jsonvalue", "acp", "text", "client", "process"},
    "example_agent": set(),
}  # fmt: skip
"""The packages that each package may import. `cli` is the composition root: it may import all."""

PARTS = {
    ("conformance", "acp"): {"framing", "jsonrpc", "methods"},
    ("conformance", "text"): {"redact"},
    ("conformance", "client"): {"process"},
}
"""Where only some modules of a package may be imported."""

LAZY = {("store/address.py", "store/sqlite")}
"""A module that names an implementation, and imports it only when it is asked for one."""

FRONTS = {"cli", "composition", "public", "sharing", "__init__", "__main__"}
"""The composition root: the command line, and the public API. No other package imports them."""
PURE = {"errors", "model", "jsonvalue", "text", "acp", "transcript", "proxy", "export"}
IMPURE = {"os", "time", "threading", "subprocess", "random", "signal", "socket", "apsw", "queue"}


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def package_of(parts: tuple[str, ...]) -> str:
    """Return the package of a module, given as the parts of its path or dotted name."""
    first = parts[0].removesuffix(".py")
    is_sqlite = first == "store" and len(parts) > 1 and parts[1] == "sqlite"
    return "store/sqlite" if is_sqlite else first


def packages_imported(path: Path) -> set[str]:
    names = {name for name in imported(path) if name.startswith("rekindle.")}
    return {package_of(tuple(name.split(".")[1:])) for name in names} - {"__version__"}


def modules() -> list[tuple[Path, str, str]]:
    """Return each module as its path, its name within the package, and its package."""
    found = [(path, path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]
    return [(path, name.as_posix(), package_of(name.parts)) for path, name in found]


def violations() -> set[tuple[str, str]]:
    return {
        (name, other)
        for path, name, package in modules()
        if package not in FRONTS
        for other in packages_imported(path) - {package} - ARROWS[package]
        if (name, other) not in LAZY
    }


def test_no_package_imports_against_the_arrows() -> None:
    assert violations() == set()


def test_only_the_store_package_imports_a_kind_of_store() -> None:
    found = {name for path, name, _ in modules() if "store/sqlite" in packages_imported(path)}
    outside = {name for name in found if not name.startswith("store/sqlite/")}
    assert outside == {"store/address.py"}


def test_arrows_have_no_cycle() -> None:
    reached: dict[str, set[str]] = {}
    for package in ARROWS:
        seen: set[str] = set()
        todo = [package]
        while todo:
            new = ARROWS[todo.pop()] - seen
            seen |= new
            todo += new
        reached[package] = seen
    assert [package for package, others in reached.items() if package in others] == []


def test_every_module_belongs_to_a_package_of_the_graph() -> None:
    assert {package for _, _, package in modules()} <= {*ARROWS, *FRONTS}


def test_only_the_allowed_modules_of_a_package_are_imported() -> None:
    for path, name, package in modules():
        for other in imported(path):
            parts = other.split(".")
            allowed = PARTS.get((package, ".".join(parts[1:2])))
            if allowed is not None and len(parts) > 2:
                assert parts[2] in allowed, (name, other)


def test_rules_of_the_conformance_suite_do_no_io() -> None:
    for path in (PACKAGE / "conformance" / "rules").rglob("*.py"):
        assert not imported(path) & (IMPURE | {"asyncio"}), path


def test_pure_packages_do_no_io_and_read_no_clock() -> None:
    for path, name, package in modules():
        if package in PURE:
            assert not imported(path) & IMPURE, name


def test_no_file_is_longer_than_700_lines() -> None:
    root = PACKAGE.parents[1]
    files = [
        *PACKAGE.rglob("*.py"),
        *(root / "tests").rglob("*.py"),
        *(root / "bench").glob("*.py"),
        *(root / "interop").rglob("*.py"),
    ]
    too_long = [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 700]
    assert too_long == []
