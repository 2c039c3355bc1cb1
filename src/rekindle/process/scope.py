"""Move processes to a scope of their own, where systemd manages the user's processes.

Systemd ends all processes of a scope at once, for example when the user logs out of an SSH session.
With lingering enabled, a scope of the user's own manager outlives the login.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_TIMEOUT = 10.0
_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)


def move_to_own_scope(name: str, pids: Iterable[int]) -> str | None:
    """Move processes to a new scope; return why that failed, if it was possible and failed.

    Without a systemd of the user nothing happens.
    """
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    busctl = shutil.which("busctl")
    if not folder or busctl is None or not Path(folder, "systemd", "private").exists():
        return None
    numbers = [str(pid) for pid in pids]
    command = (
        *(busctl, "--user", "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))"),
        *(f"{name}.scope", "fail", "1", "PIDs", "au", str(len(numbers)), *numbers, "0"),
    )
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
