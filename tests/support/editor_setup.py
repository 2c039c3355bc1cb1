"""`rekindle setup` in a home folder of its own."""

from pathlib import Path

import warm_start
from stdio_client import REKINDLE, TIMEOUT

EDITOR_FILES = {
    "zed": ".config/zed/settings.json",
    "jetbrains": ".jetbrains/acp.json",
    "vscode": ".config/Code/User/settings.json",
    "neovim": ".config/nvim/after/plugin/rekindle.lua",
    "emacs": ".emacs.d/init.el",
}
"""The usual file of each editor, below the home folder."""


def setup(home: Path, *arguments: str | Path, **variables: str) -> tuple[int, str, str]:
    """Run `rekindle setup`; return its exit code, stdout and stderr."""
    usual = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = warm_start.run(
        [*REKINDLE, "setup", *arguments],
        env=usual | variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr
