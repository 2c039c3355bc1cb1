"""`rekindle config`, and the effect of the configuration file on other commands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_runs import run
from prepared_sessions import record
from rekindle.cli.main import main
from rekindle.model import Opened
from rekindle.store.address import address_help
from rekindle.store.sqlite.store import SqliteStore

CONFIGURATION = """
store = "~/file.db"
pager = "most"
color = false
[run]
grace = 2
[hooks]
on_end = ["notify", "--token", "very-secret"]
[agents.mine]
command = "agent --api-key very-secret"
env = {API_KEY = "very-secret"}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("REKINDLE_STORE", "REKINDLE_PAGER", "PAGER", "NO_COLOR", "XDG_DATA_HOME"):
        # Set first, so that the end of the test removes a value that a command has set.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return path


def test_every_setting_is_printed_with_its_source(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(CONFIGURATION)
    monkeypatch.setenv("REKINDLE_PAGER", "more")
    assert main(["config", "--store", "/flag.db"]) == 0
    output, errors = capsys.readouterr()
    first, heading, *lines = output.splitlines()
    assert (first, errors) == ("configuration file: ~/config.toml", "")
    assert heading.split() == ["KEY", "VALUE", "FROM"]
    assert [re.split(r" {2,}", line) for line in lines] == [
        ["store", "/flag.db", "flag --store"],
        ["redact", "true", "default"],
        ["pager", "more", "environment REKINDLE_PAGER"],
        ["color", "false", "file"],
        ["run.handover", "true", "default"],
        ["run.handover_budget", "40000", "default"],
        ["run.takeover", "false", "default"],
        ["run.agent_option", "false", "default"],
        ["run.strict", "false", "default"],
        ["run.detach", "(end with the client)", "default"],
        ["run.log", "(no log)", "default"],
        ["run.grace", "2", "file"],
        ["hooks.on_waiting", "(no command)", "default"],
        ["hooks.on_end", "notify --token '***'", "file"],
        ["hooks.on_death", "(no command)", "default"],
        ["hooks.include_text", "false", "default"],
        ["agents.mine.command", "agent --api-key '***'", "file"],
        ["agents.mine.env", "API_KEY=***", "file"],
    ]


def settings(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    main(["config", "--json", *arguments])
    printed = json.loads(capsys.readouterr().out)
    return printed | {"settings": {it.pop("key"): it for it in printed["settings"]}}


def test_json_has_documented_fields(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(CONFIGURATION + "\nx = 1")
    printed = settings(capsys, "--no-color")
    assert (printed["path"], printed["exists"]) == (str(path), True)
    found = printed["settings"]
    assert found["store"] == {
        "value": f"{path.parent}/file.db", "source": "file", "origin": str(path),
    }  # fmt: skip
    assert found["color"] == {"value": False, "source": "flag", "origin": "--no-color"}
    assert found["run.log"] == {"value": None, "source": "default", "origin": None}
    assert found["agents.mine.env"]["value"] == {"API_KEY": "***"}
    assert found["hooks.on_end"]["value"] == ["notify", "--token", "***"]
    assert found["hooks.on_death"]["value"] is None
    text = f"{path}: unknown key `agents.mine.x`: `rekindle config` lists the keys"
    assert printed["problems"] == [{"text": text, "isError": False}]
    document = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
    documented = document.read_text(encoding="utf-8").partition("## JSON")[2]
    fields = {*printed, *found["store"], *printed["problems"][0]}
    assert all(f"`{field}`" in documented for field in fields)


def test_a_missing_file_means_defaults(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("configuration file: ~/config.toml (it does not exist)\n")
    printed = settings(capsys)
    assert {it["source"] for it in printed["settings"].values()} == {"default"}
    assert printed["settings"]["store"]["value"].endswith("/rekindle/sessions.db")
    assert not path.exists()


def test_path_is_printed_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "--path"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    monkeypatch.setenv("REKINDLE_CONFIG", "")
    assert main(["config", "--path"]) == 1
    assert "no configuration file is read: unset REKINDLE_CONFIG" in capsys.readouterr().err
    assert main(["config"]) == 0
    assert capsys.readouterr().out.startswith("configuration file: none\n")


def test_all_problems_are_printed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("store = 'mysql://x'\nredact = 1\nrun.x = 1\n[agents.bare]\nenv = {A = '1'}")
    assert main(["config"]) == 1
    output, errors = capsys.readouterr()
    assert "mysql://x" in output
    assert errors.splitlines() == [
        f"rekindle: error: {path}: `redact` must be `true` or `false`",
        f"rekindle: warning: {path}: unknown key `run.x`: `rekindle config` lists the keys",
        f"rekindle: error: {path}: `agents.bare` needs a `command`",
        f"rekindle: error: {path}: `store`: unknown kind of store 'mysql'; use {address_help()}",
    ]


def test_an_error_in_the_file_stops_other_commands(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("store = 1\nx = 2")
    assert main(["list"]) == 1
    text = f"{path}: `store` must be an absolute path, a path that begins with `~`, or a URL"
    assert f"{text}; correct the file: `rekindle config` checks it" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["list", "--help"])
    assert left.value.code == 0
    assert main(["complete", "--", "list", "--js"]) == 0
    assert "--json" in capsys.readouterr().out


def test_an_unknown_key_is_a_warning(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("x = 2")
    assert main(["list"]) == 0
    assert capsys.readouterr().err.startswith(f"rekindle: warning: {path}: unknown key `x`: ")


def test_the_store_of_the_file_is_used(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("store = '~/own.db'")
    # A store that does not exist yet counts as empty, as with the default store.
    assert main(["list"]) == 0
    with SqliteStore(path.parent / "own.db") as store:
        store.write([Opened(session_id="ses_1", at_us=1, cwd="/")])
    capsys.readouterr()
    assert main(["list", "--all", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["ses_1"]


def test_a_malformed_store_of_the_file_is_an_error(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("store = 'mysql://x'")
    assert main(["list"]) == 2
    assert f"{path}: `store`: unknown kind of store 'mysql'" in capsys.readouterr().err


def test_masking_can_be_switched_off(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    key = "sk-ant-api03-" + "Ab3dEf9hIj" * 8
    session = record(store, tmp_path, f"My secret is {key}")
    path = tmp_path / "config.toml"
    search = ("search", "--store", store, "secret")
    assert key not in run(*search, REKINDLE_CONFIG=str(path)).stdout
    listing = ("list", "--store", store)
    assert key[:40] not in run(*listing, REKINDLE_CONFIG=str(path)).stdout
    path.write_text("redact = false")
    for command in (search, listing, ("show", "--store", store, session)):
        assert key[:40] in run(*command, REKINDLE_CONFIG=str(path)).stdout
    exported = run("export", "--store", store, session, REKINDLE_CONFIG=str(path))
    assert exported.stdout
    assert key not in exported.stdout


def test_file_is_edited_and_checked(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new folder" / "config.toml"
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    monkeypatch.delenv("VISUAL", raising=False)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s" "$1" > "$2"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", f"{editor} 'grace = 1'")
    assert main(["config", "--edit"]) == 0
    assert "did you mean `run.grace`?" in capsys.readouterr().err
    assert path.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("VISUAL", f"{editor} 'redact = 1'")
    assert main(["config", "--edit"]) == 1
    assert path.read_text() == "redact = 1"
    assert "`redact` must be `true` or `false`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("no-such-editor", "the editor 'no-such-editor' does not start; set EDITOR"),
        ("'", 'the editor "\'" does not start; set EDITOR'),
        ("false", "the editor 'false' failed with exit code 1"),
    ],
)
def test_failing_editor_is_an_error(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    editor: str,
    expected: str,
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    assert main(["config", "--edit"]) == 1
    assert capsys.readouterr().err == f"rekindle: error: {expected}\n"
    assert not path.exists()
