"""The corpus of the fuzzer: messages of the golden transcripts, and files of other tools."""

from functools import cache
from pathlib import Path
from random import Random

import claude_files
import codex_sessions
import gemini_files
import opencode_files
import opencode_lines
from bundles import make_bundle
from recorded_sessions import answered, asked, opened, told
from rekindle.model import Kind, Side
from rekindle.store.memory import MemoryStore

TRANSCRIPTS = Path(__file__).parents[1] / "proxy" / "transcripts"
_OF_OPENCODE = (
    opencode_files.everything,
    opencode_files.newest,
    opencode_files.first_version,
    opencode_files.damaged,
)
_SIDES = {"c": Side.CLIENT, "a": Side.AGENT}


@cache
def scripts() -> list[str]:
    """Return the transcripts."""
    return [path.read_text(encoding="utf-8") for path in sorted(TRANSCRIPTS.glob("*.txt"))]


@cache
def lines(side: Side) -> list[bytes]:
    """Return every line that a peer sends in the transcripts."""
    marks = {f"{mark}{how} " for mark, it in _SIDES.items() if it is side for how in ">+"}
    said = [line for script in scripts() for line in script.splitlines()]
    return sorted({line[3:].encode() for line in said if line[:3] in marks})


def corpus(target: str) -> list[bytes]:
    """Return the first inputs of a target, in the form that it reads."""
    match target:
        case "framing" | "envelope" | "secrets":
            return [*lines(Side.CLIENT), *lines(Side.AGENT)]
        case "record" | "documents":
            return [_as_entries(script) for script in scripts()]
        case "lines":
            return [bytes([pair]) + _as_lines(script) for script in scripts() for pair in range(4)]
        case "bundle":
            return [_bundle()]
        case "claude" | "codex" | "opencode" | "gemini" | "gemini_object":
            return _files_of(target)
        case _:
            return [Random(seed).randbytes(2000) for seed in range(100)]


def _files_of(tool: str) -> list[bytes]:
    match tool:
        case "claude":
            return [claude_files.everything().data(), claude_files.forked().data()]
        case "codex":
            made = codex_sessions.legacy(), codex_sessions.paginated(), codex_sessions.rolled_back()
            return [*(it.data() for it in made), b"\n".join(codex_sessions.bare())]
        case "opencode":
            return [opencode_lines.as_lines(it()) for it in _OF_OPENCODE]
        case "gemini":
            files = gemini_files.everything(), gemini_files.compacted(), gemini_files.gone_back()
            return [it.data() for it in files]
        case _:
            return [gemini_files.older().one_object()]


def _messages(script: str) -> list[tuple[Side, bytes]]:
    said = [line for line in script.splitlines() if line[1:3] in {"> ", "+ "}]
    return [(_SIDES[line[0]], line[3:].encode()) for line in said if line[0] in _SIDES]


def _as_lines(script: str) -> bytes:
    return b"\n".join(
        (b"c" if side is Side.CLIENT else b"a") + it for side, it in _messages(script)
    )


def _as_entries(script: str) -> bytes:
    """Return the messages of a script as entries, each with its most likely kind."""
    fitting = {b"session/prompt": Kind.PROMPT, b"session/update": Kind.UPDATE}
    fitting |= {b"request_permission": Kind.PERMISSION, b'"outcome"': Kind.OUTCOME}
    kinds = [
        next((kind for words, kind in fitting.items() if words in line), Kind.ANSWER)
        for _, line in _messages(script)
    ]
    version = b"\1" if "speaks 2 2" in script or "speaks 1 2" in script else b"\0"
    return b"\n".join(
        bytes([list(Kind).index(kind)]) + version + line
        for kind, (_, line) in zip(kinds, _messages(script), strict=True)
    )


def _bundle() -> bytes:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    store.write([opened("s2"), asked("s2", "Bye")])
    return make_bundle(store, "s1", "s2")
