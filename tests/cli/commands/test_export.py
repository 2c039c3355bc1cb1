"""`rekindle export` and `rekindle import`, as a person and as a script use them."""

import gzip
import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

import warm_start
from full_session import KEY, SESSION, everything
from pty_terminal import Terminal
from recorded_sessions import answered, asked, opened, text, told
from rekindle.cli.commands import export as exporting
from rekindle.cli.main import main
from rekindle.cli.progress import ProgressBar
from rekindle.model import Deleted, EntryBatch, Kind, LeaseHolder, Page, Side
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import REKINDLE, TIMEOUT

NOW = 1_700_000_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "here.db"
    with SqliteStore(path) as opened_store:
        opened_store.write(everything())
        opened_store.write([opened("s2"), asked("s2", "Hello"), told("s2", "Hi"), answered("s2")])
    return path


def cli(*arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = warm_start.run(
        [*REKINDLE, *arguments], input=given, capture_output=True, timeout=TIMEOUT, check=False
    )
    assert b"Traceback" not in done.stderr
    return done


def export(store: Path, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return cli("export", "--store", store, *arguments)


def failing(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    return done.stderr.decode()


def contents(path: Path) -> list[object]:
    with SqliteStore(path, create=False) as opened_store:
        pages = [Page(with_unopened=True, deleted=deleted) for deleted in (False, True)]
        sessions = [it for page in pages for it in opened_store.sessions(page)]
        return [(session, list(opened_store.read(session.id))) for session in sessions]


@pytest.mark.parametrize("form", ["markdown", "html", "json", "acp"])
def test_stdout_and_file_have_the_same_bytes(store: Path, tmp_path: Path, form: str) -> None:
    printed = export(store, SESSION, "--format", form)
    assert (printed.returncode, printed.stderr) == (0, b"")
    path = tmp_path / "out"
    saved = export(store, SESSION[:5], "--format", form, "-o", path)
    assert (saved.returncode, saved.stdout, saved.stderr) == (0, b"", b"")
    assert path.read_bytes() == printed.stdout
    assert path.stat().st_mode & 0o777 == 0o600
    assert "Fix the parser" in printed.stdout.decode()
    assert (KEY in printed.stdout.decode()) is (form == "acp")
    shown = export(store, SESSION, "--format", form, "--no-redact")
    assert KEY in shown.stdout.decode()


def test_default_format_is_markdown(store: Path) -> None:
    assert export(store, "s2").stdout.startswith(b"# Session\n")


def test_acp_export_uses_the_recorded_version(store: Path) -> None:
    def kinds(*options: str) -> set[str]:
        done = export(store, "s2", "--format", "acp", *options)
        return {
            json.loads(line)["params"]["update"]["sessionUpdate"]
            for line in done.stdout.splitlines()
        }

    assert kinds() == kinds("--protocol", "1") == {"user_message_chunk", "agent_message_chunk"}
    assert kinds("--protocol", "2") == {"user_message", "agent_message"}
    said = {"params": {"update": {"sessionUpdate": "agent_message", "content": [text("Yes")]}}}
    line = json.dumps(said).encode()
    more = EntryBatch(
        session_id="s2", side=Side.AGENT, kind=Kind.UPDATE, at_us=NOW, data=line, protocol=2
    )
    with SqliteStore(store) as opened_store:
        opened_store.write([more] * 4)
    assert kinds() == {"user_message", "agent_message"}


def test_existing_file_is_overwritten_only_with_force(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    path.write_text("precious", encoding="utf-8")
    error_output = failing(export(store, "s2", "-o", path))
    assert error_output == f"rekindle: error: {path} exists already; use --force to overwrite it\n"
    assert path.read_text(encoding="utf-8") == "precious"
    assert export(store, "s2", "-o", path, "--force").returncode == 0
    assert path.read_bytes().startswith(b"# Session")
    assert f"{tmp_path} is a folder" in failing(export(store, "s2", "-o", tmp_path))
    assert "there is no folder" in failing(export(store, "s2", "-o", tmp_path / "no" / "where"))


def test_export_reports_the_file_on_a_terminal(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    with Terminal("export", "--store", store, "s2", "-o", path, columns=500) as terminal:
        terminal.wait_for(f"rekindle: note: wrote {path} (HTML)")
    assert path.exists()


def test_failed_export_leaves_no_file(store: Path, tmp_path: Path) -> None:
    damage = "update stretch set side = 'nobody' where place = (select max(place) from stretch)"
    with SqliteStore(store) as opened_store:
        opened_store._db.execute(damage)  # noqa: SLF001 - there is no proper way to do harm
    folder = tmp_path / "out"
    folder.mkdir()
    for form in ("markdown", "bundle"):
        error_output = failing(export(store, "s2", "--format", form, "-o", folder / "x"))
        assert "is damaged" in error_output
        assert list(folder.iterdir()) == []


def test_progress_includes_masking(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    masked_at: list[float] = []

    def see(_: ProgressBar, done: int, total: int) -> None:
        told.append(done / total)

    monkeypatch.setattr(ProgressBar, "update", see)
    monkeypatch.setattr(exporting, "redact_turn", lambda _: masked_at.append(told[-1]))
    assert main(["export", "--store", str(store), SESSION, "-o", str(tmp_path / "out")]) == 0
    assert told == sorted(told)
    assert all(1 / 3 <= at < 2 / 3 for at in masked_at)
    assert len(set(masked_at)) == len(masked_at) > 1


def test_export_writes_to_a_device(store: Path) -> None:
    done = export(store, "s2", "-o", "/dev/stdout")
    assert done.stdout.startswith(b"# Session")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no session given"),
        (["--all", "--format", "markdown"], "the format markdown is for one session"),
        (["s2", "ses_all"], "the format markdown is for one session"),
        (["s2", "--all", "--format", "bundle"], "leave the sessions out"),
        (["s2", "--format", "pdf"], "--format cannot be 'pdf'"),
        (["s2", "--protocol", "3"], "--protocol cannot be 3"),
        (["s2", "--protocol", "2"], "--protocol needs --format acp"),
        (["s2", "-o", "x.pdf"], "there is no export as .pdf; use .md, .html, .json, .jsonl or"),
        (["--all", "-o", "x.ZIP"], "there is no export as .zip; use .md, .html, .json, .jsonl or"),
    ],
)
def test_unwritable_output_is_reported(store: Path, arguments: list[str], words: str) -> None:
    done = export(store, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert words in done.stderr.decode()


def test_unknown_session_or_store_is_named_in_the_error(store: Path, tmp_path: Path) -> None:
    assert "no session matches 'nobody'" in failing(export(store, "nobody"))
    assert "there is no store at" in failing(export(tmp_path / "none.db", "s2"))
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("form", ["html", "bundle"])
def test_closed_pipe_is_not_an_error(store: Path, form: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = warm_start.run(
        [*REKINDLE, "export", "--store", store, SESSION, "--format", form],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + 13, b"")


def test_closed_stdout_is_reported(store: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *REKINDLE, "export", "--store", str(store), "s2"],
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert b"stdout is closed; name a file with -o" in done.stderr


def test_bundle_is_not_written_to_a_terminal(store: Path) -> None:
    leader, follower = pty.openpty()
    done = warm_start.run(
        [*REKINDLE, "export", "--store", store, "s2", "--format", "bundle"],
        stdout=follower,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert b"a bundle cannot be printed on a terminal; name a file with -o" in done.stderr


def test_importing_a_bundle_twice_adds_nothing(store: Path, tmp_path: Path) -> None:
    path, there = tmp_path / "all.rekindle", tmp_path / "new" / "there.db"
    assert export(store, "--all", "--format", "bundle", "-o", path).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    done = cli("import", "--store", there, path)
    assert (done.returncode, done.stderr) == (0, b"")
    rows = sorted(line.split("\t") for line in done.stdout.decode().splitlines())
    assert rows == [["new", "s2", "3", "(no title)"], ["new", SESSION, "22", "Fix *the* <parser>"]]
    first = contents(there)
    assert [entries for _, entries in first] == [entries for _, entries in contents(store)]
    again = cli("import", "--store", there, "-", given=path.read_bytes())
    assert {line.split("\t")[0] for line in again.stdout.decode().splitlines()} == {"unchanged"}
    assert contents(there) == first


def test_bundle_is_imported_from_a_pipe(store: Path, tmp_path: Path) -> None:
    bundle = export(store, "s2", SESSION, "s2", "--format", "bundle").stdout
    assert cli("import", "--store", tmp_path / "t.db", "-", given=bundle).returncode == 0
    plain = gzip.decompress(bundle)
    # The path of a process substitution in a shell.
    for name in ("-", "/dev/stdin"):
        done = cli("import", "--store", tmp_path / "t.db", name, given=plain)
        assert done.stdout.count(b"unchanged") == 2


def test_damaged_bundle_changes_nothing(store: Path, tmp_path: Path) -> None:
    path, there = tmp_path / "b.rekindle", tmp_path / "there.db"
    whole = export(store, "--all", "--format", "bundle").stdout
    for data in (whole[:-20], whole[:60] + b"x" + whole[61:], b"nonsense\n", b""):
        path.write_bytes(data)
        error_output = failing(cli("import", "--store", there, path))
        assert error_output.startswith(f"rekindle: error: {path}: it")
        assert error_output.endswith("; nothing was imported\n")
    assert not there.exists()
    (tmp_path / "new").mkdir()
    error_output = failing(cli("import", "--store", there, tmp_path / "none"))
    assert error_output == f"rekindle: error: {tmp_path}/none: there is no such file\n"
    assert "the folder has no sessions that can be imported" in failing(
        cli("import", "--store", there, tmp_path / "new")
    )


def test_import_skips_sessions_deleted_or_in_use(store: Path, tmp_path: Path) -> None:
    path, there = tmp_path / "b.rekindle", tmp_path / "there.db"
    path.write_bytes(export(store, "--all", "--format", "bundle").stdout)
    cli("import", "--store", there, path)
    with SqliteStore(store) as opened_store:
        opened_store.write([asked("s2", "More"), asked(SESSION, "More")])
    path.write_bytes(export(store, "--all", "--format", "bundle").stdout)
    with SqliteStore(there) as opened_store:
        opened_store.write([Deleted(session_id=SESSION, at_us=NOW)])
        opened_store.acquire_lease("s2", LeaseHolder(token="t", pid=os.getpid(), machine="here"))  # noqa: S106
        before = contents(there)
        done = cli("import", "--store", there, path)
        assert done.returncode == 1
        assert done.stdout.startswith(f"deleted\t{SESSION}\t0\t".encode())
        assert f"s2 is in use by process {os.getpid()} on here" in done.stderr.decode()
        assert contents(there) == before
    done = cli("import", "--store", there, path, "--undelete")
    assert done.returncode == 0
    assert done.stdout.count(b"extended") == 2


def test_locked_store_is_reported(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.rekindle"
    path.write_bytes(export(store, "s2", "--format", "bundle").stdout)
    there = tmp_path / "there.db"
    with SqliteStore(there) as opened_store:
        opened_store._db.execute("begin immediate")  # noqa: SLF001 - as a writer that hangs would
        error_output = failing(cli("import", "--store", there, path))
        assert (
            error_output
            == f"rekindle: error: the store {there} is locked by another process; try again later\n"
        )
        opened_store._db.execute("rollback")  # noqa: SLF001
    assert contents(there) == []


def test_control_characters_in_ids_and_titles_are_escaped(tmp_path: Path) -> None:
    evil = "../../etc\x1b[31m\n\u202e"
    path = tmp_path / "evil.db"
    with SqliteStore(path) as opened_store:
        opened_store.write([opened(evil, cwd="/p\x1b[2J"), asked(evil, "Hello")])
    bundle = export(path, "--all", "--format", "bundle").stdout
    done = cli("import", "--store", tmp_path / "there.db", "-", given=bundle)
    assert done.stdout == b"new\t../../etc\\x1b[31m \xef\xbf\xbd\t1\t(no title)\n"
    lines = gzip.decompress(bundle).splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"prompt"', b'"\\u001b[31m"', 1)
    error_output = failing(cli("import", "--store", tmp_path / "t.db", "-", given=b"".join(lines)))
    assert "\\x1b[31m" in error_output
    assert "\x1b" not in error_output
    for form in ("markdown", "html", "json", "acp"):
        shown = export(tmp_path / "there.db", evil, "--format", form)
        assert shown.returncode == 0
        assert b"\x1b" not in shown.stdout
        assert "\u202e" not in shown.stdout.decode()


def test_import_is_finished_if_the_reader_of_its_report_leaves(tmp_path: Path) -> None:
    here, there = tmp_path / "many.db", tmp_path / "there.db"
    long_ids = [f"{number:03}{'x' * 200}" for number in range(49)]
    with SqliteStore(here) as opened_store:
        for session_id in long_ids:
            opened_store.write([opened(session_id), asked(session_id, "Hello")])
    bundle = tmp_path / "many.rekindle"
    assert export(here, "--all", "-o", bundle).returncode == 0
    reader, writer = os.pipe()
    os.close(reader)
    done = warm_start.run(
        [*REKINDLE, "import", "--store", there, bundle],
        stdout=writer,
        stderr=writer,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 0
    assert len(contents(there)) == len(long_ids)


def test_interrupted_import_is_silent_and_leaves_nothing(tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    process = warm_start.Popen(
        [*REKINDLE, "import", "--store", there, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    # A pipe holds no more than this, so the import reads once all of it is written.
    process.stdin.write(b'{"rekindle":"bundle","version":1}\n' + b"x" * 200_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    shown, error_output = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, shown, error_output) == (130, b"", b"")
    assert not there.exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_is_short_and_has_an_example(command: str) -> None:
    done = cli(command, "--help")
    assert done.returncode == 0
    assert b"example:" in done.stdout
    assert done.stdout.count(b"\n") < 40


def test_exporting_does_not_change_the_store(store: Path) -> None:
    before = contents(store)
    for form in ("markdown", "html", "json", "acp", "bundle"):
        assert export(store, SESSION, "--format", form).returncode == 0
    assert contents(store) == before


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.md", b"# Session"),
        ("x.html", b"<!DOCTYPE html>"),
        ("X.HTM", b"<!DOCTYPE html>"),
        ("x.json", b"{"),
        ("x.jsonl", b'{"jsonrpc"'),
        ("x.rekindle", b"\x1f\x8b"),
        ("x.txt", b"# Session"),
        ("x", b"# Session"),
    ],
)
def test_suffix_of_the_file_decides_on_the_format(
    store: Path, tmp_path: Path, name: str, start: bytes
) -> None:
    path = tmp_path / name
    assert main(["export", "--store", str(store), "s2", "-o", str(path)]) == 0
    assert path.read_bytes().lower().startswith(start.lower())
    option = ["--format", "markdown", "--output", str(path), "-f"]
    assert main(["export", "--store", str(store), "s2", *option]) == 0
    assert path.read_bytes().startswith(b"# Session")


def test_all_sessions_are_exported_as_a_bundle_by_default(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "all"
    assert main(["export", "--store", str(store), "--all", "-o", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert main(["export", "--store", str(store), "--all", "-o", str(tmp_path / "x.html")]) == 2
