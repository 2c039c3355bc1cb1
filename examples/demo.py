"""See Rekindle work: a conversation, all processes killed in the middle, and nothing lost.

This script acts as the editor. It uses Rekindle only through the commands that it shows, works in
a temporary folder, and removes it at the end.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from client import AgentError, Client, Json
from rekindle.store.address import locate

GREETING = "Hello! Help me with my notes."
TASK = "Think, plan, then edit notes.txt: oat milk, please."
AFTERWARDS = "Good morning! What did I say first?"
LONG_ONE = "Count to 1000. I will pull the plug before you get there."
UPDATES_BEFORE_THE_KILL = 47
WIDTH = 80


class DemoError(Exception):
    """The demo cannot continue, or its result is wrong."""


class Screen:
    """Prints the demo line by line. It never moves the cursor back, so a pipe gets the same."""

    def __init__(self, *, is_fast: bool) -> None:
        colors = None if os.environ.get("NO_COLOR") else "auto"
        self._console = Console(color_system=colors, soft_wrap=True)
        self.is_watched = self._console.is_terminal and not is_fast
        self._width = min(self._console.width, WIDTH)
        self._column = 0
        self._speaker: object = None

    def write(
        self, speaker: object, words: str, style: str = "", mark: str = "  ", pace: float = 0
    ) -> None:
        """Start or continue the text of `speaker`; `pace` is the time for a letter in seconds."""
        if speaker != self._speaker:
            self.end_line()
            self._speaker = speaker
            self._put(mark, style)
        for word in re.findall(r"\n|[^\S\n]+|\S+", _printable(words)):
            if word == "\n" or self._column + cell_len(word) > self._width:
                self._put("\n" + " " * len(mark))
                if word.isspace():
                    continue
            for piece in word if pace else [word]:
                self._put(piece, style)
                self.pause(pace)

    def line(self, words: str = "", style: str = "", mark: str = "") -> None:
        """Print a line."""
        self.write(object(), words, style, mark)
        self._put("\n")

    def typed(self, words: str, style: str, mark: str) -> None:
        """Print text that the user types."""
        self.line()
        self.write("user", words, style, mark, pace=0.01)
        self.end_line()

    def heading(self, words: str) -> None:
        """Start a new section."""
        self.pause(0.7)
        self.line()
        self.line(f"━━ {words} ".ljust(self._width, "━"), "bold")

    def end_line(self) -> None:
        """End the current line, if any."""
        if self._column:
            self._put("\n")
        self._speaker = None

    def pause(self, seconds: float) -> None:
        """Wait, if a person is watching."""
        if seconds and self.is_watched:
            time.sleep(seconds)

    def _put(self, words: str, style: str = "") -> None:
        _, newline, last = words.rpartition("\n")
        self._column = cell_len(last) + (0 if newline else self._column)
        self._console.print(Text(words, style), end="")


def _printable(words: str) -> str:
    """Replace control characters, which a terminal would execute."""
    return "".join(
        char if char.isprintable() or char == "\n" else "�" for char in words.expandtabs(4)
    )


class Editor(Client):
    """Shows the agent's updates, and counts them for the comparison with the store."""

    def __init__(self, screen: Screen, command: str, home: Path, environ: dict[str, str]) -> None:
        super().__init__(command.split(), home, environ)
        self.updates = 0
        self.text = ""
        self.kill_at = -1
        self.is_quiet = False
        self.killed: list[int] = []
        self._screen = screen
        self._home = home
        self._titles: dict[str, str] = {}
        self._steps_done: set[str] = set()

    def prompt(self, session_id: str, words: str) -> str:
        """Show a prompt, and run its turn."""
        self._screen.pause(0.4)
        self._screen.typed(words, "bold cyan", mark="> ")
        self.text += words
        return super().prompt(session_id, words)

    def on_update(self, update: Json) -> None:
        """Show an update, and count it."""
        self.updates += 1
        if self.is_quiet:
            return
        match update:
            case {"sessionUpdate": "agent_message_chunk", "content": {"text": words}}:
                self.text += words
                self._screen.write("agent", words)
            case {"sessionUpdate": "agent_thought_chunk", "content": {"text": words}}:
                self.text += words
                self._screen.write("thought", words, "dim italic", mark="~ ")
            case {"sessionUpdate": "plan", "entries": steps}:
                self._plan(steps)
            case {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": title}:
                self._titles[call_id] = title.replace(f"{self._home}/", "~/")
                self._screen.line(self._titles[call_id], "yellow", mark="● ")
                for part in update.get("content", []):
                    if part["type"] == "diff":
                        self._screen.line(part["oldText"].strip(), "red", mark="    - ")
                        self._screen.line(part["newText"].strip(), "green", mark="    + ")
            case {"sessionUpdate": "tool_call_update", "status": "completed"}:
                self._screen.line(self._titles[update["toolCallId"]], "green", mark="✓ ")
            case _:
                pass  # a client may ignore other kinds
        if self.updates == self.kill_at:
            self.kill()

    def choose(self, call: Json, options: list[Json]) -> Json:
        """Allow the tool call."""
        chosen = next(option for option in options if option["kind"] == "allow_once")
        names = " / ".join(option["name"] for option in options)
        self._screen.write(call["toolCallId"], f"May I? {names}", "yellow", mark="? ")
        self._screen.pause(0.8)
        self._screen.write(call["toolCallId"], f" → {chosen['name']}", "bold cyan")
        return chosen

    def kill(self) -> None:
        """Kill rekindle and the agent with SIGKILL, if they are running."""
        if self.process.poll() is not None:
            return
        log = self._home / "run.log"
        started = re.findall(r"started agent (\d+)", log.read_text() if log.exists() else "")
        self.killed = [self.process.pid, *map(int, started)]
        for pid in self.killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _plan(self, steps: list[Json]) -> None:
        """Show the steps that were completed since the last plan."""
        done = {step["content"] for step in steps if step["status"] == "completed"}
        if not done:
            self._screen.line(f"Plan: {len(steps)} steps", "magenta", mark="☰ ")
        for step in steps:
            if step["content"] in done - self._steps_done:
                self._screen.line(step["content"], "magenta", mark="  ✓ ")
        self._steps_done = done


def run_demo(screen: Screen, home: Path) -> None:
    """Run the whole demo. Raises DemoError, AgentError, OSError."""
    path = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    mine = {"HOME": home, "PATH": os.pathsep.join(path), "REKINDLE_STORE": home / "sessions.db"}
    environ = os.environ | {name: str(value) for name, value in mine.items()}
    screen.line("Rekindle records the sessions of your coding agent. This script acts as an")
    screen.line("editor, and kills Rekindle and the agent in the middle of an answer.")
    screen.line("(The store is in a temporary folder. Your own store does not change.)", "dim")

    screen.heading("A conversation")
    # Also without a viewer, the agent must still be working when it is killed.
    delay = 0.06 if screen.is_watched else 0.01
    command = f"rekindle run --log run.log -- rekindle example-agent --delay {delay}"
    screen.typed(command, "bold green", mark="$ ")
    folder = home / "shopping"
    folder.mkdir()
    with Editor(screen, command, home, environ) as editor:
        session_id = editor.open_session(folder)
        editor.prompt(session_id, GREETING)
        editor.prompt(session_id, TASK)
        editor.kill_at = editor.updates + UPDATES_BEFORE_THE_KILL
        try:
            editor.prompt(session_id, LONG_ONE)
        except AgentError:
            if not editor.killed:
                raise
    pids = " ".join(map(str, editor.killed))
    screen.typed(f"kill -9 {pids}    # rekindle and the agent", "bold red", mark="$ ")
    screen.line("Both have ended in the middle of a sentence, without time to save anything.")

    screen.heading("The recorded session")
    run_as_on_a_terminal(screen, "rekindle list", environ)
    screen.pause(0.7)
    run(screen, f"rekindle show {session_id[:12]}", environ)

    screen.heading("Is anything missing?")
    stored = run(screen, f"rekindle show --json {session_id[:12]}", environ, stdout=subprocess.PIPE)
    compare(screen, editor, json.loads(stored))

    screen.heading("Started again")
    screen.line("This agent stores nothing, and cannot load a session. The editor loads the")
    screen.line("old session with session/load, and Rekindle answers:")
    screen.typed(command, "bold green", mark="$ ")
    continue_session(screen, Editor(screen, command, home, environ), session_id, folder)

    screen.heading("Your turn")
    screen.line()
    screen.line("In your editor's configuration, start your agent behind Rekindle:")
    screen.line("rekindle run -- your-agent", "bold green", mark="    ")
    screen.line("For Zed, JetBrains or VS Code, this changes the configuration of all agents:")
    screen.line(".venv/bin/rekindle setup zed --all", "bold green", mark="    ")
    screen.line("Neovim and Emacs need the agent's command:")
    screen.line(".venv/bin/rekindle setup neovim -- your-agent", "bold green", mark="    ")
    store = str(locate(None)).replace(str(Path.home()), "~", 1)
    screen.line(f"Rekindle then records your sessions in {store}")


def continue_session(screen: Screen, editor: Editor, session_id: str, folder: Path) -> None:
    """Load the session in a new process, and check the agent's memory. Raises DemoError."""
    with editor:
        editor.is_quiet = True
        editor.load_session(session_id, folder)
        editor.is_quiet = False
        note = f"(session/load replayed the whole conversation, in {editor.updates} updates.)"
        screen.line(note, "dim")
        editor.prompt(session_id, AFTERWARDS)
    screen.line()
    if GREETING not in editor.text.partition(AFTERWARDS)[2]:
        raise DemoError("the agent does not remember")
    screen.line(
        "The new agent process knows what you wrote to the old one.", "bold green", mark="✓ "
    )


def run(screen: Screen, command: str, environ: dict[str, str], stdout: int | None = None) -> str:
    """Show and run a command; return its output if it is captured. Raises DemoError."""
    screen.typed(command, "bold green", mark="$ ")
    done = subprocess.run(
        command.split(),
        env=environ,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        raise DemoError(f"{command}: {reason[-1]}")
    return done.stdout


def run_as_on_a_terminal(screen: Screen, command: str, environ: dict[str, str]) -> None:
    """Show and run a command that prints a table on a terminal, also if the demo has none."""
    if sys.stdout.isatty():
        run(screen, command, environ)
        return
    ours, its = os.openpty()
    try:
        plain = {"NO_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm"}
        run(screen, command, environ | plain, stdout=its)
    finally:
        os.close(its)
        # A terminal keeps the output of the command until it is read.
        with open(ours, encoding="utf-8") as output, suppress(OSError):  # noqa: PTH123
            for line in output:
                screen.line(line.rstrip())


def compare(screen: Screen, editor: Editor, stored: Json) -> None:
    """Compare the editor's updates and text with the store. Raises DemoError."""
    items = [item for turn in stored["conversation"] for item in turn["items"]]
    messages = [item["content"] for item in items if item["type"] == "message"]
    text = "".join(block["text"] for blocks in messages for block in blocks)
    # Every message of the session is an entry, except `initialize` and its response.
    updates = stored["entries"] - (editor.messages - 2 - editor.updates)
    screen.line(f"{'':20}{'editor saw':>13}{'store has':>12}", "dim")
    screen.line(f"{'  updates':20}{editor.updates:13}{updates:12}")
    screen.line(f"{'  characters of text':20}{len(editor.text):13}{len(text):12}")
    screen.line()
    if updates < editor.updates or not text.startswith(editor.text):
        raise DemoError("something that the editor saw is missing in the store")
    found = f"Nothing is missing: all {editor.updates} updates are there, and the text is the same."
    screen.line(found, "bold green", mark="✓ ")
    if updates > editor.updates:
        screen.line("The store has more than the editor received before the kill.", "dim", "  ")


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="do not pause")
    is_fast = parser.parse_args().fast
    sys.stdout.reconfigure(errors="replace")
    screen = Screen(is_fast=is_fast)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory(prefix="rekindle-demo-") as home:
            try:
                run_demo(screen, Path(home))
            finally:
                signal.signal(
                    signal.SIGINT, signal.SIG_IGN
                )  # a second Ctrl-C must not interrupt the cleanup
    except KeyboardInterrupt:
        screen.end_line()
        screen.line("Stopped. All processes have ended, and the files are removed.")
        return 130
    except Exception as error:  # noqa: BLE001 - people get a message, never a traceback
        screen.end_line()
        screen.line(f"The demo failed: {error}", "bold red", mark="✗ ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
