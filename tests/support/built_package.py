"""Build the package, and install it in an empty environment, as users do.

It uses pip with its settings on this machine, and the pinned versions.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
_TIMEOUT = 600


def build(folder: Path, *options: str) -> Path:
    """Build in `folder`; return it. Without options, both are built: the wheel from the sdist."""
    command = [sys.executable, "-m", "build", "--outdir", folder, *options, ROOT]
    _run(command, PIP_CONSTRAINT=str(CONSTRAINTS))
    return folder


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel in a new environment in `folder`; return the folder of its commands."""
    venv.create(folder, with_pip=True, symlinks=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--constraint", CONSTRAINTS, wheel])
    return folder / "bin"


def _run(command: list[str | Path], **environ: str) -> None:
    done = subprocess.run(
        command,
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
