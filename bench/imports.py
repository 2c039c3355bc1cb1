"""Measures of importing the sessions of another tool: one very long session, or very many."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import commands
from client import WrongResult
from rekindle.importers.claude.locations import folder_name
from rekindle.model import Page
from rekindle.store.sqlite.store import SqliteStore

FOLDER = "/home/user/project"
_MB = 1_000_000
_WORDS = 2_000
_BEGIN = 1_760_000_000

Figures = dict[str, float]
Json = dict[str, Any]


def one_long(store: Path, size: int) -> Figures:
    """Import a session of a size, and import it again unchanged."""
    path = _path(store, 0)
    written, turns = _write(path, 0, size)
    first = commands.run(store, "import", str(path))
    again = commands.run(store, "import", str(path))
    session = _only(store)
    if session.turns != turns:
        raise WrongResult(f"{turns} turns were written, and {session.turns} imported")
    path.unlink()
    return {
        "mb": written / _MB,
        "entries": session.last_seq,
        "rate": written / _MB / first.seconds,
        "memory": first.peak_mb,
        "again_s": again.seconds,
        "store_mb": store.stat().st_size / _MB,
    }


def very_many(store: Path, sessions: int, size: int) -> Figures:
    """Import a number of sessions of a size, and import them again unchanged."""
    written = sum(_write(_path(store, number), number, size)[0] for number in range(sessions))
    folder = str(_path(store, 0).parent)
    first = commands.run(store, "import", folder)
    again = commands.run(store, "import", folder)
    with SqliteStore(store, create=False) as db:
        found = len(db.sessions(Page(limit=sessions + 1)))
    if found != sessions:
        raise WrongResult(f"{sessions} sessions were written, and {found} imported")
    return {
        "mb": written / _MB,
        "rate": written / _MB / first.seconds,
        "memory": first.peak_mb,
        "again_s": again.seconds,
    }


def _path(store: Path, number: int) -> Path:
    folder = store.parent / store.stem / "projects" / folder_name(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{UUID(int=number + 1)}.jsonl"


def _only(store: Path) -> Any:  # noqa: ANN401 - a session
    with SqliteStore(store, create=False) as db:
        (session,) = db.sessions(Page())
        return session


def _write(path: Path, seed: int, size: int) -> tuple[int, int]:
    """Write a session; return its bytes and turns."""
    written = turns = 0
    with path.open("wb") as file:
        for turn in _turns(path.stem, random.Random(seed)):  # noqa: S311 - the same session in every run
            written += file.write(turn)
            turns += 1
            if written >= size:
                return written, turns
    raise WrongResult("the generator of turns has ended")


def _turns(session_id: str, dice: random.Random) -> Iterator[bytes]:
    """Yield turns as Claude Code writes them, with each tool result twice."""
    records = _Records(session_id, dice)
    number = 0
    while True:
        number += 1
        records.user(records.text(30))
        thinking = {"type": "thinking", "thinking": records.text(80), "signature": "x" * 400}
        records.agent(f"{number}a", thinking)
        records.agent(f"{number}a", {"type": "text", "text": records.text(40)})
        for call, tool in enumerate((_read, _bash, _edit, _grep)):
            records.tool(f"{number}{'bcde'[call]}", tool(records))
        records.agent(f"{number}f", {"type": "text", "text": records.text(150)}, "end_turn")
        yield records.take()


def _read(records: "_Records") -> "_Tool":
    path, source = records.path(), records.code()
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(source.split("\n")))
    file = {"filePath": path, "content": source, "numLines": 9, "startLine": 1}
    return _Tool("Read", {"file_path": path}, numbered, {"type": "text", "file": file})


def _bash(records: "_Records") -> "_Tool":
    given = {"command": f"grep -rn {records.text(2)} src", "description": records.text(5)}
    out = records.text(200)
    return _Tool("Bash", given, out, {"stdout": out, "stderr": "", "interrupted": False})


def _edit(records: "_Records") -> "_Tool":
    path, old, new = records.path(), records.code(5), records.code(6)
    given = {"file_path": path, "old_string": old, "new_string": new}
    lines = [*(f"-{part}" for part in old.split("\n")), *(f"+{part}" for part in new.split("\n"))]
    patch = [{"oldStart": 1, "newStart": 1, "lines": lines}]
    outcome = {"filePath": path, "originalFile": records.code(), "structuredPatch": patch}
    return _Tool("Edit", given, f"The file {path} has been updated.", outcome)


def _grep(records: "_Records") -> "_Tool":
    found = "\n".join(f"src/{records.text(1)}.py:1:{records.text(6)}" for _ in range(20))
    given = {"pattern": records.text(1), "output_mode": "content"}
    return _Tool("Grep", given, found, {"mode": "content", "content": found})


@dataclass(frozen=True)
class _Tool:
    """A tool call, and its result."""

    name: str
    given: Json
    content: str
    outcome: Json


class _Records:
    """Records of a session, each linked to the one before."""

    def __init__(self, session_id: str, dice: random.Random) -> None:
        self._common = {
            "isSidechain": False, "userType": "external", "cwd": FOLDER, "sessionId": session_id,
            "version": "2.1.139", "gitBranch": "main",
        }  # fmt: skip
        self._dice = dice
        letters = "etaoinshrdlu"
        self._words = ["".join(dice.choices(letters, k=dice.randint(2, 9))) for _ in range(_WORDS)]
        self._number = 0
        self._last: str | None = None
        self._lines: list[bytes] = []

    def text(self, count: int) -> str:
        return " ".join(self._dice.choices(self._words, k=count))

    def code(self, count: int = 0) -> str:
        lines = range(count or self._dice.randint(10, 120))
        return "\n".join(f"    {self.text(8)}(){{}}; // {line}" for line in lines)

    def path(self) -> str:
        return f"{FOLDER}/src/{self.text(1)}.py"

    def take(self) -> bytes:
        data, self._lines = b"".join(self._lines), []
        return data

    def user(self, content: object, **more: object) -> None:
        self._add("user", message={"role": "user", "content": content}, **more)

    def agent(self, name: str, block: Json, stop: str | None = None) -> None:
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 3120, "output_tokens": 210}
        message = {
            "id": f"msg_{name:>024}", "type": "message", "role": "assistant",
            "model": "claude-opus", "content": [block], "stop_reason": stop,
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        self._add("assistant", message=message, requestId=f"req_{name:>024}")

    def tool(self, name: str, tool: _Tool) -> None:
        call_id = f"toolu_{name:>020}"
        block = {"type": "tool_use", "id": call_id, "name": tool.name, "input": tool.given}
        self.agent(name, block, "tool_use")
        result = {"tool_use_id": call_id, "type": "tool_result", "content": tool.content}
        self.user([result], toolUseResult=tool.outcome)

    def _add(self, kind: str, **fields: object) -> None:
        self._number += 1
        uuid = str(UUID(int=self._number, version=4))
        at = datetime.fromtimestamp(_BEGIN + self._number, UTC).strftime("%Y-%m-%dT%H:%M:%S.123Z")
        place = {"parentUuid": self._last, **self._common, "uuid": uuid, "timestamp": at}
        self._lines.append(json.dumps({**place, "type": kind, **fields}).encode() + b"\n")
        self._last = uuid
