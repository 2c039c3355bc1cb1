"""An arrow never turns back: from `errors` and `model`, by way of each layer, to `cli`."""

import ast
from pathlib import Path

import rekindle

PACKAGE = Path(rekindle.__file__).parent
LAYERS = (
    "errors", "model", "wire", "core", "export", "importers", "store", "run", "client", "check",
    "cli",
)  # fmt: skip
FRONTS = {"cli", "__init__", "__main__"}
PURE = {"wire", "core", "export", "model", "errors"}
IMPURE = {"os", "time", "threading", "subprocess", "random", "signal", "socket", "apsw", "queue"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layers_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("rekindle.")}


def test_no_layer_imports_a_later_one() -> None:
    turned_back = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in PACKAGE.rglob("*.py")
        if layer_of(path) in LAYERS
        for other in layers_imported(path)
        if other in LAYERS and LAYERS.index(other) > LAYERS.index(layer_of(path))
    ]
    assert turned_back == []


def test_every_module_is_in_a_layer() -> None:
    assert {layer_of(path) for path in PACKAGE.rglob("*.py")} <= {*LAYERS, *FRONTS, "example_agent"}


def test_the_example_agent_uses_nothing_of_rekindle() -> None:
    for path in (PACKAGE / "example_agent").rglob("*.py"):
        assert layers_imported(path) <= {"example_agent", "__version__"}, path


def test_the_client_uses_what_is_pure_and_how_processes_are_started() -> None:
    for path in (PACKAGE / "client").rglob("*.py"):
        names = {
            name for name in imported(path) if name.startswith(("rekindle.runtime", "rekindle.st"))
        }
        assert names <= {"rekindle.runtime", "rekindle.process.group"}, path


def test_the_check_stands_outside_and_shares_no_code_with_what_it_judges() -> None:
    """What it knows of sessions is its own; it shares frames and processes alone."""
    allowed = {"check", "wire", "client", "run", "core", "__version__"}
    parts = {"rekindle.runtime": {"process_group"}, "rekindle.client": {"process"}}
    parts["rekindle.proxy"] = {"secrets"}
    for path in (PACKAGE / "check").rglob("*.py"):
        assert layers_imported(path) <= allowed, path
        for name in imported(path):
            for package, some in parts.items():
                assert not name.startswith(f"{package}.") or name.split(".")[2] in some, path


def test_judges_do_nothing_but_look() -> None:
    for path in (PACKAGE / "check" / "judges").rglob("*.py"):
        assert not imported(path) & (IMPURE | {"asyncio"}), path


def test_the_pure_layers_do_no_io_and_read_no_clock() -> None:
    for path in PACKAGE.rglob("*.py"):
        if layer_of(path) in PURE:
            assert not imported(path) & IMPURE, path


def test_no_file_is_too_long_to_have_one_idea() -> None:
    root = PACKAGE.parents[1]
    files = [
        *PACKAGE.rglob("*.py"),
        *(root / "tests").rglob("*.py"),
        *(root / "bench").glob("*.py"),
        *(root / "interop").rglob("*.py"),
    ]
    too_long = [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 500]
    assert too_long == []
