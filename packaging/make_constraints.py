"""Write constraints.txt: the version of each package that the development commands install.

It resolves the newest versions that pyproject.toml allows. `make constraints` calls it.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints.txt"
UNPINNED_GROUPS = {"fuzz"}
"""Groups that CI does not install, and that cannot be installed on every system."""
INSTALLER = "pip>=25.3"
"""`make setup` upgrades pip first: older releases lack `--group` or `--build-constraint`."""
_HEAD = """\
# The versions that `make setup` and CI install. `make constraints` writes this file.
"""


def main() -> int:
    """Resolve the dependencies, and write the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lowest = lowest_python(project)
    if sys.version_info[:2] != lowest:
        # Older Pythons need backports, and newer releases of a package may not support them.
        needed = ".".join(map(str, lowest))
        print(
            f"error: constraints must fit every supported Python, so Python {needed} must resolve "
            f"them: make clean && make constraints PYTHON=python{needed}",
            file=sys.stderr,
        )
        return 1
    pins = resolve(project)
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    FILE.write_text(_HEAD + "".join(lines), encoding="utf-8")
    print(f"wrote {FILE.name}: {len(pins)} packages")
    return 0


def lowest_python(project: dict[str, Any]) -> tuple[int, int]:
    """Return the lowest Python that the project supports."""
    major, minor = project["project"]["requires-python"].removeprefix(">=").split(".")
    return int(major), int(minor)


def resolve(project: dict[str, Any]) -> dict[str, str]:
    """Return the newest version of each needed package, by its normalised name."""
    extras = ",".join(project["project"]["optional-dependencies"])
    groups = project["dependency-groups"].keys() - UNPINNED_GROUPS
    report = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"),
            *("--dry-run", "--ignore-installed", "--report", "-"),
            *(word for group in sorted(groups) for word in ("--group", group)),
            *(INSTALLER, *project["build-system"]["requires"], f"{ROOT}[{extras}]"),
        ],
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
    ).stdout
    found = [item["metadata"] for item in json.loads(report)["install"]]
    pins = {normalised(item["name"]): item["version"] for item in found}
    del pins[project["project"]["name"]]
    return pins


def normalised(name: str) -> str:
    """Return the normalised name of a package, as package indexes use it."""
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    sys.exit(main())
