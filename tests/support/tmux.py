"""A terminal of which the screen is seen as people see it: tmux draws it. Every wait is bounded."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from stdio_client import PATIENCE, REKINDLE

TMUX = shutil.which("tmux")
# What has ended stays on the screen, to be looked at.
_SETTINGS = "set -g remain-on-exit on\nset -g status off\n"
# How often the screen is looked at.
_PAUSE = 0.03


class Tmux:
    """`rekindle` in a terminal of its own. `folder` is where tmux keeps its socket."""

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        cwd: Path | None = None,
        columns: int = 80,
        rows: int = 24,
        **environ: str,
    ) -> None:
        self._socket = folder / "tmux"
        # tmux itself does not always get to know how a command has ended.
        self._code = folder / "code"
        self._settings = folder / "tmux.conf"
        self._settings.write_text(_SETTINGS, encoding="utf-8")
        around = {"PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat", **environ}
        variables = [f"{name}={words}" for name, words in around.items()]
        # Nor is the size of another terminal of any matter.
        without = ("-u", "NO_COLOR", "-u", "LINES", "-u", "COLUMNS")
        command = shlex.join(["env", *without, *variables, *REKINDLE, *map(str, arguments)])
        code = shlex.quote(str(self._code))
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux(
            "new-session", "-d", *size, "-c", str(cwd or folder), f"{command}; echo $? >{code}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    @property
    def screen(self) -> str:
        """What is to be seen now."""
        return self._tmux("capture-pane", "-p")

    @property
    def painted(self) -> str:
        """The same, with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def type(self, words: str) -> None:
        """Type some words."""
        self._tmux("send-keys", "-l", words)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int) -> None:
        """Make the terminal narrower or wider. tmux takes its time to tell who is in it."""
        self._tmux("resize-window", "-x", str(columns))
        with Path(self._tmux("display", "-p", "#{pane_tty}").strip()).open("rb") as tty:
            self.wait_until(lambda _: os.get_terminal_size(tty.fileno()).columns == columns)

    def wait_until(self, is_so: Callable[[str], bool]) -> str:
        """Return the screen once it is as it should be."""
        deadline = time.monotonic() + PATIENCE
        while not is_so(screen := self.screen):
            assert time.monotonic() < deadline, screen
            time.sleep(_PAUSE)
        return screen

    def wait_for(self, words: str) -> str:
        """Return the screen once it has these words."""
        return self.wait_until(lambda screen: words in screen)

    def wait_without(self, words: str) -> str:
        """Return the screen once it does not have these words any more."""
        return self.wait_until(lambda screen: words not in screen)

    def end(self) -> int:
        """Wait for the command's end; return its exit code."""
        self.wait_until(
            lambda _: self._code.exists() and self._code.read_text(encoding="utf-8") != ""
        )
        return int(self._code.read_text(encoding="utf-8"))

    def _tmux(self, *words: str) -> str:
        assert TMUX
        # One tmux within another is no matter here.
        around = {name: it for name, it in os.environ.items() if name != "TMUX"}
        done = subprocess.run(
            [TMUX, "-u", "-S", self._socket, "-f", self._settings, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
            env=around | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        )
        return done.stdout
