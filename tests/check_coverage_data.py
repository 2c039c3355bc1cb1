"""Fail unless coverage measured every module of the packages that it is configured to measure.

`coverage report` passes if a configured package does not exist, or if no test imported it: then
there is no line that could be missing. `make coverage` runs this check first.
"""

import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parents[1]


def modules_of(name: str) -> list[Path]:
    """Return the files of a module, or of a package and its subpackages."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        sys.exit(f"error: coverage is configured to measure {name}, which does not exist")
    folders = spec.submodule_search_locations
    return (
        [file for folder in folders for file in Path(folder).rglob("*.py")]
        if folders
        else [Path(spec.origin)]
    )


def unmeasured() -> list[str]:
    """Return the modules that no test executed. `__init__.py` has nothing to execute."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = CoverageData(str(ROOT / ".coverage"))
    data.read()
    return [
        str(file.relative_to(ROOT))
        for name in config["tool"]["coverage"]["run"]["source_pkgs"]
        for file in modules_of(name)
        if file.name != "__init__.py" and not data.arcs(str(file))
    ]


if __name__ == "__main__":
    if missing := unmeasured():
        sys.exit("error: coverage has measured nothing of " + ", ".join(sorted(missing)))
