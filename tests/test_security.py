"""Tests of the page about security that have no better place, and of the tests that it names."""

import ast
import gzip
import json
import os
import re
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from bundles import IMPORTED_US, make_bundle, merge_bundle, read_bundle
from recorded_sessions import answered, asked, opened, told
from rekindle.errors import BadBundle
from rekindle.model import Page
from rekindle.store.memory import MemoryStore
from rekindle.transfer import bundle_reader
from stdio_client import REKINDLE, TIMEOUT

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
SHELLS = {"sh", "/bin/sh", "/bin/bash", "/usr/bin/env"}
YEAR_9999 = 253_402_300_799_999_999
METACHARACTERS = ["$(touch pwned)", "`touch pwned`", "; touch pwned", "| cat", "*", "~", "&", "a b"]


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 10
    for path, name in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {name}" in text, (path, name)


def test_files_are_private_even_without_a_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        home = tmp_path / "home"
        home.mkdir()
        store = home / "deep" / "er" / "s.db"
        environ = {**os.environ, "REKINDLE_STORE": str(store), "HOME": str(home)}
        with subprocess.Popen(
            [*REKINDLE, "run", "--log", str(home / "log"), "--", *REKINDLE, "example-agent"],
            env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin
            assert process.stdout
            for number, (method, params) in enumerate(
                [
                    ("initialize", {"protocolVersion": 1}),
                    ("session/new", {"cwd": "/", "mcpServers": []}),
                ]
            ):
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                while json.loads(answer := process.stdout.readline()).get("id") != number:
                    pass
            session = json.loads(answer)["result"]["sessionId"]
            # While it runs, all files of the store are there.
            for words in (["search", "x"], ["export", "-o", str(home / "out.md"), "--", session]):
                subprocess.run([*REKINDLE, *words], env=environ, timeout=TIMEOUT, check=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            modes = {
                str(it.relative_to(home)): stat.S_IMODE(it.stat().st_mode) for it in home.rglob("*")
            }
            process.stdin.close()
            process.wait(TIMEOUT)
    finally:
        os.umask(umask)
    kinds = {"log", "out.md", "deep/er/s.db", "deep/er/s.db-wal", "deep/er/s.db.lock"}
    assert kinds | {"deep/er/s.db.index", "deep/er/s.db.live"} <= modes.keys()
    folders = {"deep", "deep/er", "deep/er/s.db.live", "deep/er/s.db.hosts"}
    assert {name: f"{mode:o}" for name, mode in modes.items()} == {
        name: "700" if name in folders else "600" for name in modes
    }


def test_agent_is_started_without_a_shell(tmp_path: Path) -> None:
    says = "import json, sys; json.dump(sys.argv[1:], open('words', 'w'))"
    subprocess.run(
        [*REKINDLE, "run", "--store", "s.db", "--", sys.executable, "-c", says, *METACHARACTERS],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT,
        check=True,
    )
    assert json.loads((tmp_path / "words").read_text()) == METACHARACTERS
    assert not (tmp_path / "pwned").exists()


def test_only_the_orphan_guard_starts_a_shell() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in SHELLS:
                # The guard's words are ours, and it is given nothing but numbers.
                assert path.name == "orphan_guard.py", path
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
                assert name not in {"popen", "getoutput", "create_subprocess_shell"}, path
                assert name != "system" or ast.unparse(node.func) != "os.system", path
                assert not any(it.arg == "shell" for it in node.keywords), path


# -- bundles of somebody hostile ------------------------------------------------------------


def store_with_a_session() -> MemoryStore:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    return store


def signed(lines: list[dict[str, object]]) -> bytes:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    sessions = sum(line.get("type") == "session" for line in lines)
    entries = sum(line.get("type") == "entry" for line in lines)
    end = {"type": "end", "sessions": sessions, "entries": entries}
    return body + json.dumps({**end, "sha256": sha256(body).hexdigest()}).encode() + b"\n"


def forged(session: dict[str, object], *more: dict[str, object]) -> bytes:
    head, own, entry, _ = map(json.loads, make_bundle(forger(), "s1").splitlines())
    own["session"] |= session
    return signed([head, own, entry, *more])


def forger() -> MemoryStore:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Forged")])
    return store


@pytest.mark.parametrize("own_id", ["s1", "../../s1", "/etc/passwd", "s1\x00", "s1/../s1", "s1~x"])
def test_bundle_changes_no_existing_session(own_id: str) -> None:
    store = store_with_a_session()
    before = (store.session("s1"), list(store.read("s1")), store.titles("s1"))
    (merged,) = merge_bundle(store, forged({"id": own_id, "titles": {"user": "Mine"}}))
    assert merged.session_id != "s1"
    assert (store.session("s1"), list(store.read("s1")), store.titles("s1")) == before


def test_repeated_id_in_a_bundle_makes_two_sessions() -> None:
    head, own, entry, _ = map(json.loads, make_bundle(forger(), "s1").splitlines())
    other = {**entry, "line": entry["line"].replace("Forged", "Other")}
    store = MemoryStore()
    first, second = merge_bundle(store, signed([head, own, entry, own, other]))
    assert first.session_id != second.session_id
    assert len(list(store.read(first.session_id))) == 1


@pytest.mark.parametrize(
    "session", [{"cwd": "work"}, {"cwd": ""}, {"cwd": "../p"}, {"directories": ["/a", "b"]}]
)
def test_bundle_with_a_relative_folder_is_refused(session: dict[str, object]) -> None:
    with pytest.raises(BadBundle, match="a folder of session 's1' is not an absolute path"):
        merge_bundle(MemoryStore(), forged(session))


def test_bundle_from_the_future_is_not_the_last_used_session() -> None:
    head, own, entry, _ = map(json.loads, make_bundle(forger(), "s1").splitlines())
    own["session"] |= {"id": "s2", "createdUs": YEAR_9999}
    bundle = signed([head, own, {**entry, "atUs": YEAR_9999}])
    store = store_with_a_session()
    merge_bundle(store, bundle)
    store.write([asked("s1", "Later", IMPORTED_US + 1)])
    assert [it.id for it in store.sessions(Page())] == ["s1", "s2"]
    session = store.session("s2")
    assert (session.created_us, session.updated_us) == (IMPORTED_US, IMPORTED_US)
    # The entries are as they were written, so the same bundle changes nothing.
    (again,) = merge_bundle(store, bundle)
    assert (again.outcome, again.session_id) == ("unchanged", "s2")
    # A bundle that goes on is clamped, too.
    more = {**entry, "seq": 2, "atUs": YEAR_9999}
    own["entries"] = 2
    merge_bundle(store, signed([head, own, {**entry, "atUs": YEAR_9999}, more]))
    assert (store.session("s2").last_seq, store.session("s2").updated_us) == (2, IMPORTED_US)


@pytest.mark.parametrize("seq", [-1, 0, 2, 2**70, "1", None, 1.5])
def test_bundle_with_wrong_entry_numbers_is_refused(seq: object) -> None:
    head, own, entry, _ = map(json.loads, make_bundle(forger(), "s1").splitlines())
    store = store_with_a_session()
    with pytest.raises(BadBundle):
        merge_bundle(store, signed([head, own, {**entry, "seq": seq}]))


def test_bundle_that_expands_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b'{"rekindle":"bundle","version":1}\n' + b" " * 50_000_000)
    assert len(bomb) < 100_000
    monkeypatch.setattr(bundle_reader, "MAX_LINE_BYTES", 1_000_000)
    with pytest.raises(BadBundle, match="a line that does not end"):
        read_bundle(bomb)
    monkeypatch.setattr(bundle_reader, "_MAX_BYTES", 1000)
    with pytest.raises(BadBundle, match="too large"):
        read_bundle(forged({"cwd": "/" + "x" * 2000}))
