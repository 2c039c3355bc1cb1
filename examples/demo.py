"""See Rekindle work: a conversation, everything killed in the middle, and all of it still there.

This script plays the editor: a small ACP client that starts an agent through Rekindle. It
uses nothing of Rekindle but the commands that it shows, and leaves nothing behind.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rekindle.store.location import locate

GREETING = "Hello! Today I am tidying up my shopping notes."
TASK = "Think, plan, then edit notes.txt: oat milk, please."
LONG_ONE = "Count to 1000, and I pull the plug before you get there."
CHUNKS_BEFORE_THE_KILL = 50
PATIENCE_SECONDS = 60
WIDTH = 80

Json = dict[str, Any]


class DemoError(Exception):
    """The demo cannot go on, or has not shown what it promised; the message says why."""


class Screen:
    """Prints what happens, as it happens. It only ever goes forwards, so a pipe gets the same."""

    def __init__(self, *, is_fast: bool) -> None:
        colors = None if os.environ.get("NO_COLOR") else "auto"
        self._console = Console(color_system=colors, soft_wrap=True)
        self.is_watched = self._console.is_terminal and not is_fast
        self._width = min(self._console.width, WIDTH)
        self._column = 0
        self._speaker: object = None
        self._steps_done: set[str] = set()

    def say(
        self, speaker: object, words: str, style: str = "", mark: str = "  ", pace: float = 0
    ) -> None:
        """Let `speaker` begin or go on; `pace` is how long a letter takes."""
        if speaker != self._speaker:
            self.end_line()
            self._speaker = speaker
            self._put(mark, style)
        for word in re.findall(r"\n|[^\S\n]+|\S+", printable(words)):
            if word == "\n" or self._column + cell_len(word) > self._width:
                self._put("\n" + " " * len(mark))
                if word.isspace():
                    continue
            for piece in word if pace else [word]:
                self._put(piece, style)
                self.pause(pace)

    def line(self, words: str = "", style: str = "", mark: str = "") -> None:
        """Print something that is said in one go."""
        self.say(object(), words, style, mark)
        self._put("\n")

    def heading(self, words: str) -> None:
        """Begin a new part."""
        self.end_line()
        self.pause(0.7)
        self.line()
        self.line(f"── {words} ".ljust(self._width, "─"), "bold")

    def command(self, arguments: list[str]) -> None:
        """Show a command line."""
        self.line()
        self.say("shell", shlex.join(arguments), "bold green", mark="$ ", pace=0.01)
        self.end_line()

    def update(self, update: Json, title: str) -> None:
        """Show an update of the agent. `title` is that of the tool call, if it is one."""
        match update:
            case {"sessionUpdate": "agent_message_chunk", "content": {"text": words}}:
                self.say("agent", words)
            case {"sessionUpdate": "agent_thought_chunk", "content": {"text": words}}:
                self.say("thought", words, "dim italic", mark="~ ")
            case {"sessionUpdate": "plan", "entries": steps}:
                self._plan(steps)
            case {"sessionUpdate": "tool_call", "content": [{"type": "diff"} as diff]}:
                self.line(title, "yellow", mark="● ")
                self.line(diff["oldText"].strip(), "red", mark="    - ")
                self.line(diff["newText"].strip(), "green", mark="    + ")
            case {"sessionUpdate": "tool_call_update", "status": "completed"}:
                self.line(title, "green", mark="✓ ")
            case _:
                pass  # there are more kinds; an editor shows what it knows

    def end_line(self) -> None:
        """End the line that was begun, if there is one."""
        if self._column:
            self._put("\n")
        self._speaker = None

    def pause(self, seconds: float) -> None:
        """Give the eye some time, if one is watching."""
        if seconds and self.is_watched:
            time.sleep(seconds)

    def _plan(self, steps: list[Json]) -> None:
        """Show which steps were done since the plan was last told."""
        if all(step["status"] != "completed" for step in steps):
            self.line(f"Plan: {len(steps)} steps", "magenta", mark="☰ ")
        for step in steps:
            if step["status"] == "completed" and step["content"] not in self._steps_done:
                self._steps_done.add(step["content"])
                self.line(step["content"], "magenta", mark="  ✓ ")

    def _put(self, words: str, style: str = "") -> None:
        _, newline, last = words.rpartition("\n")
        self._column = cell_len(last) + (0 if newline else self._column)
        self._console.print(Text(words, style), end="")


def printable(words: str) -> str:
    """Show what others say as text alone: a terminal would obey control characters."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in words)


class Editor:
    """The client's half of ACP, as small as can be. It remembers what it has seen."""

    def __init__(self, screen: Screen, command: list[str], home: Path, environ: Json) -> None:
        self.messages = 0
        """How many were sent or received, of any kind."""
        self.updates = 0
        self.kill_at: int | None = None
        self.text = ""
        """All that was said, by either side, and thought."""
        self._screen = screen
        self._home = home
        self._titles: Json = {}
        with (home / "stderr.txt").open("wb") as stderr:
            self._rekindle = subprocess.Popen(
                command,
                cwd=home,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is meant for us, and we see to the rest
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def prompt(self, session_id: str, words: str) -> Json | None:
        """Say something to the agent, and watch the turn."""
        self._screen.line()
        self._screen.pause(0.4)
        self._screen.say("user", words, "bold cyan", mark="> ", pace=0.015)
        self._screen.end_line()
        self.text += words
        block = {"type": "text", "text": words}
        return self.ask("session/prompt", {"sessionId": session_id, "prompt": [block]})

    def ask(self, method: str, params: Json) -> Json | None:
        """Send a request and return its result, or None if the kill came first."""
        self._send({"id": method, "method": method, "params": params})
        for line in self._rekindle.stdout:
            self.messages += 1
            match json.loads(line):
                case {"method": "session/update", "params": {"update": update}}:
                    self._update(update)
                case {"method": "session/request_permission", "id": asked, "params": wanted}:
                    self._send({"id": asked, "result": {"outcome": self._allow(wanted)}})
                case {"id": answered, "result": result} if answered == method:
                    return result
                case {"id": _, "error": {"message": reason}}:
                    raise DemoError(f"{method} failed: {reason}")
        if self._rekindle.wait() == -signal.SIGKILL:
            return None
        raise DemoError(f"rekindle ended: {last_line((self._home / 'stderr.txt').read_bytes())}")

    @property
    def pids(self) -> list[int]:
        """The process ids of rekindle and, from its log, of the agent."""
        log = self._home / "run.log"
        started = re.search(r"started agent (\d+)", log.read_text() if log.exists() else "")
        return [self._rekindle.pid, *([int(started[1])] if started else [])]

    def kill(self) -> None:
        """Kill rekindle and the agent, if they run. Nobody gets to say goodbye."""
        if self._rekindle.poll() is None:
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
            self._rekindle.wait()

    def _send(self, message: Json) -> None:
        self.messages += 1
        self._rekindle.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._rekindle.stdin.flush()

    def _update(self, update: Json) -> None:
        self.updates += 1
        if update["sessionUpdate"] in {"agent_message_chunk", "agent_thought_chunk"}:
            self.text += update["content"]["text"]
        call_id = update.get("toolCallId")
        if "title" in update:
            self._titles[call_id] = update["title"].replace(f"{self._home}/", "~/")
        self._screen.update(update, self._titles.get(call_id, ""))
        if self.updates == self.kill_at:
            self.kill()

    def _allow(self, wanted: Json) -> Json:
        """Answer as a trusting user would."""
        names = " / ".join(option["name"] for option in wanted["options"])
        chosen = next(option for option in wanted["options"] if option["kind"] == "allow_once")
        self._screen.say("question", f"May I? {names}", "yellow", mark="? ")
        self._screen.pause(0.8)
        self._screen.say("question", f" → {chosen['name']}", "bold cyan")
        self._screen.end_line()
        return {"outcome": "selected", "optionId": chosen["optionId"]}
