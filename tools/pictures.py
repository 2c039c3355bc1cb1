"""Write the pictures in docs/pictures: recordings of real runs, and SVGs that are drawn from them.

python -m tools.pictures            # record every scene again, and draw it
python -m tools.pictures --draw     # only draw the recordings that are there
python -m tools.pictures demo       # only this scene
"""

import argparse
import asyncio
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rekindle.client import PermissionRequest, connect
from tools.pty_recording import RecordingFailed, Step, read_recording, record, write_recording
from tools.terminal_svg import Recording, draw, pace, without_end

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
MAX_SIZE = 200_000
"""The largest size of a picture, in bytes."""

_PROMPT = "\x1b[1;32m$ \x1b[0m"
_SESSIONS = {
    "parser": ["Fix the parser for nested lists.", "Think, plan, then edit notes.txt."],
    "website": ["Why is the login test flaky?", "Run it again, and read my notes."],
    "notes": ["Plan the release notes, with a title.", "How many prompts did I send?"],
}
"""Prompts of the sessions in the second and third picture, by the name of their folder."""


@dataclass(frozen=True)
class Scene:
    """A picture: its title, and the function that records it in a home of its own."""

    title: str
    record: Callable[[Path], Recording]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record and draw scenes; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draw", action="store_true", help="only draw existing recordings")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=", ".join(SCENES))
    options = parser.parse_args(arguments)
    if unknown := set(options.scenes) - SCENES.keys():
        parser.error(f"unknown scene {', '.join(sorted(unknown))}: there are {', '.join(SCENES)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in options.scenes or SCENES:
        if not options.draw:
            print(f"recording {name} ...")
            with TemporaryDirectory(prefix="rekindle-picture-") as folder:
                try:
                    recording = SCENES[name].record(Path(folder).resolve())
                except RecordingFailed as error:
                    print(f"error: {name}: {error}", file=sys.stderr)
                    return 1
            write_recording(recording, FOLDER / f"{name}.cast")
        picture = drawn(name)
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")
        print(f"docs/pictures/{name}.svg: {len(picture.encode()):,} bytes")
    return 0


def drawn(name: str) -> str:
    """Return the SVG of a scene, drawn from its recording in docs/pictures."""
    recording = read_recording(FOLDER / f"{name}.cast")
    return draw(pace(recording), title=SCENES[name].title)


def _environ(home: Path) -> dict[str, str]:
    """Return a small environment: a home and a store of its own, and this `rekindle`."""
    path = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join(path),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "REKINDLE_STORE": str(home / "sessions.db"),
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PS1": r"\[\e[1;32m\]$ \[\e[0m\]",
        "BASH_SILENCE_DEPRECATION_WARNING": "1",
    }


def _record_demo(home: Path) -> Recording:
    environ = {name: value for name, value in _environ(home).items() if name != "REKINDLE_STORE"}
    return record([sys.executable, str(ROOT / "examples" / "demo.py")], cwd=ROOT, environ=environ)


def _record_tour(home: Path) -> Recording:
    lines = ["rekindle list", "rekindle show --last --no-pager", "rekindle search flaky"]
    return _record_shell(home, [(_PROMPT, f"{line}\r") for line in lines])


def _record_pick(home: Path) -> Recording:
    steps = [
        (_PROMPT, "rekindle pick\r"),
        ("release", "parser"),
        ("2 messages so far", "\x1b"),
    ]
    return without_end(_record_shell(home, steps))


def _record_shell(home: Path, steps: list[Step]) -> Recording:
    """Record a shell in which some sessions have been recorded before."""
    asyncio.run(_make_sessions(home))
    shell = ["bash", "--norc", "--noprofile", "-i"]
    leave = (_PROMPT, "\x04")
    environ = _environ(home)
    made = record(shell, cwd=home / "parser", environ=environ, steps=[*steps, leave])
    # The shell prints `exit` when it leaves.
    return replace(made, events=made.events[:-1])


async def _make_sessions(home: Path) -> None:
    """Record sessions with the example agent."""
    program = str(Path(sysconfig.get_path("scripts")) / "rekindle")
    store = str(home / "sessions.db")
    command = [program, "example-agent"]
    async with connect(command, store=store, on_permission=PermissionRequest.allow) as agent:
        for name, prompts in _SESSIONS.items():
            (home / name).mkdir()
            session = await agent.new(home / name)
            for prompt in prompts:
                await session.ask(prompt)


SCENES = {
    "demo": Scene("A conversation survives when all processes are killed", _record_demo),
    "tour": Scene("List, show and search recorded sessions", _record_tour),
    "pick": Scene("Choose a session by typing", _record_pick),
}


if __name__ == "__main__":
    sys.exit(main())
