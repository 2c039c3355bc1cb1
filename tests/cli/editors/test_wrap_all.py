"""`rekindle setup --all` and `--undo`: wrap the agents in the user's file, and restore them."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from editor_setup import EDITOR_FILES, setup
from pty_terminal import Terminal
from rekindle.cli.editors.agents import launcher_prefix
from rekindle.cli.editors.installation import rekindle_command
from rekindle.cli.editors.jsonc import parse

(OURS,) = rekindle_command()
KEYS = {"zed": "agent_servers", "jetbrains": "agent_servers", "vscode": "acp.agents"}
SETTINGS = """\
// my settings
{
  "theme": "dark",
  "AGENTS": {
    // the first
    "One": { "type": "custom", "command": "sh", "args": ["-c", "x"] },
    "Two": {
      "env": { "API_KEY": "a-secret-value" },
      "args": [
        "--acp", // the protocol
        "--model",
        /* large */ "opus",
      ],
      "type": "custom",
      "command": "~/bin/agent-two",
    },
    "Three": {
      "command": "sh"
    },
  },
  "last": true
}
"""


def settings(home: Path, text: str, editor: str = "zed") -> Path:
    file = home / EDITOR_FILES[editor]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.replace("AGENTS", KEYS[editor]).encode())
    return file


def agents_in(file: Path, editor: str = "zed") -> dict[str, dict[str, Any]]:
    return parse(file.read_bytes().decode()).data[KEYS[editor]]


def test_agents_of_the_file_are_listed(home: Path) -> None:
    text = SETTINGS.replace('"--model"', '"--api-key", "sk-0123456789abcdef0123"')
    file = settings(home, text)
    setup(home, "zed", "--write", "--name", "One")
    before = file.read_bytes()
    code, output, notes = setup(home, "zed")
    assert code == 0
    assert output.splitlines() == [
        f"Zed starts these agents ({file}):",
        "  One    behind Rekindle   sh -c x",
        "  Two    without Rekindle  '~/bin/agent-two' --acp --api-key '***' opus",
        "  Three  without Rekindle  sh",
    ]
    assert "rekindle setup zed --all" in notes
    setup(home, "zed", "--all", "--write")
    assert "rekindle setup zed --undo" in setup(home, "zed")[2]
    assert file.read_bytes() != before


@pytest.mark.parametrize("editor", KEYS)
def test_editor_without_agents_gets_an_example_to_type(home: Path, editor: str) -> None:
    for text in (None, "{}", '{"AGENTS": {}}'):
        file = settings(home, text, editor) if text else home / EDITOR_FILES[editor]
        for option in ([], ["--all"]):
            code, output, notes = setup(home, editor, *option)
            assert (code, output.rstrip().endswith(f"has no agents in {file}")) == (0, True)
            assert f"`rekindle setup {editor} claude`; `rekindle agents` lists" in notes
    assert ("ACP registry" in notes, "ACP Client" in notes) == (
        editor == "jetbrains",
        editor == "vscode",
    )


def test_dry_run_prints_a_diff_and_writes_nothing(home: Path) -> None:
    file = settings(home, SETTINGS)
    code, output, notes = setup(home, "zed", "--all")
    assert code == 0
    assert [line for line in output.splitlines() if line.startswith("-")] == [
        f"--- {file}",
        '-    "One": { "type": "custom", "command": "sh", "args": ["-c", "x"] },',
        '-      "command": "~/bin/agent-two",',
        '-      "command": "sh"',
    ]
    assert f'+      "command": "{OURS}",' in output
    assert "nothing was written; add --write" in notes
    assert file.read_text(encoding="utf-8") == SETTINGS.replace("AGENTS", "agent_servers")
    assert list(home.rglob("*.backup-*")) == []


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
@pytest.mark.parametrize("editor", KEYS)
def test_all_agents_are_wrapped_and_restored(home: Path, editor: str, indent: str) -> None:
    text = SETTINGS.replace("  ", indent)
    file = settings(home, text, editor)
    before = file.read_bytes()
    code, output, _ = setup(home, editor, "--all", "--write")
    assert code == 0
    assert "wrapped One\nwrapped Two\nwrapped Three\n" in output
    run = [OURS, "run", "--"]
    wrapped = agents_in(file, editor)
    commands = {name: [it["command"], *it["args"]] for name, it in wrapped.items()}
    assert commands == {
        "One": [*run, "sh", "-c", "x"],
        "Two": [*run, f"{home}/bin/agent-two", "--acp", "--model", "opus"],
        "Three": [*run, "sh"],
    }
    types = [it.get("type") for it in wrapped.values()]
    assert types == ["custom", "custom", "custom" if editor == "zed" else None]
    # Order, comments, commas and indentation stay.
    two = indent * 4
    after = file.read_bytes().decode()
    assert list(wrapped["Two"]) == ["env", "args", "type", "command"]
    assert f'\n{two}"run",\n{two}"--",\n{two}"{home}/bin/agent-two",\n{two}"--acp", // the' in after
    assert "/* large */" in after
    kept = [line for line in text.splitlines() if "//" in line or "env" in line or "last" in line]
    assert [line for line in kept if line not in after.splitlines()] == []
    # A second time, nothing changes.
    assert setup(home, editor, "--all", "--write")[:2] == (0, f"nothing to change in {file}\n")
    assert file.read_bytes().decode() == after
    code, output, _ = setup(home, editor, "--undo", "--write")
    assert (code, file.read_bytes()) == (0, before)
    assert "restored One\nrestored Two\nrestored Three\n" in output
    assert setup(home, editor, "--undo", "--write")[:2] == (0, f"nothing to change in {file}\n")


def test_undo_restores_entries_in_a_file_that_has_changed_since(home: Path) -> None:
    file = settings(home, SETTINGS)
    setup(home, "zed", "--all", "--write")
    changes = {'"dark"': '"light"', "// the first": "// one", '"a-secret-value"': '"other"'}
    changed, expected = file.read_bytes().decode(), SETTINGS.replace("AGENTS", "agent_servers")
    for old, new in changes.items():
        changed, expected = changed.replace(old, new), expected.replace(old, new)
    file.write_bytes(changed.encode())
    assert setup(home, "zed", "--undo", "--write")[0] == 0
    assert file.read_bytes().decode() == expected


def test_undo_restores_agents_that_were_wrapped_one_at_a_time(home: Path) -> None:
    file = settings(home, SETTINGS)
    before = file.read_bytes()
    setup(home, "zed", "--write", "--name", "Two")
    setup(home, "zed", "--write", "--name", "One", "--", "sh", "-c", "another")
    setup(home, "zed", "--write", "--name", "One", "--", "sh", "-c", "a third")
    setup(home, "zed", "--write", "--", "opencode", "acp")
    assert list(agents_in(file)) == ["One", "Two", "Three", "OpenCode"]
    diff = setup(home, "zed", "--undo")[1]
    assert '-    "OpenCode": {' in diff
    code, output, _ = setup(home, "zed", "--undo", "--write", "--name", "One")
    assert (code, "restored One\n" in output) == (0, True)
    assert agents_in(file)["One"]["args"] == ["-c", "x"]
    assert "OpenCode" in agents_in(file)
    code, output, _ = setup(home, "zed", "--undo", "--write")
    assert "removed OpenCode, which `rekindle setup` had added" in output
    assert (code, file.read_bytes()) == (0, before)


def test_undo_removes_an_object_that_setup_had_added(home: Path) -> None:
    file = settings(home, '{\n  "theme": "dark"\n}\n')
    setup(home, "zed", "--write", "--", "sh")
    file.write_text(file.read_text(encoding="utf-8").replace("dark", "light"), encoding="utf-8")
    setup(home, "zed", "--undo", "--write")
    assert file.read_text(encoding="utf-8") == '{\n  "theme": "light"\n}\n'


@pytest.mark.parametrize("text", ['{\n  "AGENTS": {\n  }\n}', '{"AGENTS":{"A":{}} , }'])
def test_undo_restores_the_whole_text_if_nothing_else_has_changed(home: Path, text: str) -> None:
    file = settings(home, text)
    before = file.read_bytes()
    setup(home, "zed", "--write", "--", "sh")
    setup(home, "zed", "--undo", "--write")
    assert file.read_bytes() == before


def test_undo_does_not_restore_an_entry_that_the_user_has_changed(home: Path) -> None:
    file = settings(home, '{"AGENTS": {"A": {"command": "sh", "args": ["x"]}}}')
    setup(home, "zed", "--all", "--write")
    file.write_text(file.read_text(encoding="utf-8").replace('"x"', '"mine"'), encoding="utf-8")
    setup(home, "zed", "--undo", "--write")
    assert agents_in(file)["A"] == {"command": "sh", "args": ["mine"], "type": "custom"}


def test_undo_keeps_fields_that_the_user_has_added(home: Path) -> None:
    file = settings(home, '{"AGENTS": {}}')
    setup(home, "zed", "--write", "--", "sh", "-c", "x")
    text = file.read_text(encoding="utf-8").replace('"type"', '"env": {"A": "b"},\n"type"')
    file.write_text(text, encoding="utf-8")
    setup(home, "zed", "--undo", "--write")
    expected = {"env": {"A": "b"}, "type": "custom", "command": "/usr/bin/sh", "args": ["-c", "x"]}
    assert agents_in(file)["sh"] in (expected, expected | {"command": "/bin/sh"})


def test_undo_strips_a_command_that_the_user_wrote(home: Path) -> None:
    text = (
        '{"AGENTS": {"A": {"command": "uvx", "args": ["rekindle-acp@latest", "run", "--strict",'
        ' "--", "sh", "-x"]},\n"B": {"command": "rekindle", "args": ["run", "sh"]},'
        '\n"C": {"command": "rekindle", "args": ["run", "--no-such-option"]},'
        '\n"D": {"command": "rekindle", "args": ["list"]}}}'
    )
    file = settings(home, text)
    code, output, notes = setup(home, "zed", "--undo", "--write")
    assert (code, output.startswith("restored A\nrestored B\nwrote")) == (1, True)
    assert "skipped C: the agent's own command is not clear" in notes
    agents = agents_in(file)
    assert agents["A"] == {"command": "sh", "args": ["-x"]}
    assert agents["B"] == {"command": "sh", "args": []}
    assert agents["D"] == {"command": "rekindle", "args": ["list"]}


def test_the_users_words_before_rekindle_stay(home: Path) -> None:
    words = '["A=1", "/gone/rekindle", "run", "--", "sh", "-x"]'
    file = settings(home, f'{{"AGENTS": {{"A": {{"command": "env", "args": {words}}}}}}}')
    assert setup(home, "zed", "--all", "--write")[0] == 0
    entry = agents_in(file)["A"]
    assert entry == {
        "type": "custom",
        "command": "env",
        "args": ["A=1", OURS, "run", "--", "sh", "-x"],
    }
    # As if the user had written it: there is no note of the change.
    (home / ".local/share/rekindle/setup.json").unlink()
    assert setup(home, "zed", "--undo", "--write")[0] == 0
    assert agents_in(file)["A"] == {"type": "custom", "command": "env", "args": ["A=1", "sh", "-x"]}


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("rekindle run -- x", ""),
        ("env A=1 nice -n 5 /p/rekindle run -- x", "env A=1 nice -n 5"),
        ("nohup uvx --from y rekindle-acp run -- x", "nohup"),
        ("uvx rekindle-acp run -- x", ""),
        ("env PYTHONPATH=/s /p/python3 -m rekindle run -- x", ""),
        ("nice env PYTHONPATH=/s A=1 python -m rekindle run -- x", "nice env A=1"),
        ("env A=1", ""),
    ],
)
def test_words_of_rekindle_itself_are_no_prefix(command: str, prefix: str) -> None:
    assert launcher_prefix(command.split()) == tuple(prefix.split())


def test_path_of_rekindle_is_corrected(home: Path) -> None:
    file = settings(
        home,
        '{"AGENTS": {"A": {"command": "/gone/rekindle", "args": ["run", "--strict", "--", "sh"]}}}',
    )
    code, output, _ = setup(home, "zed", "--all", "--write")
    assert (code, output.partition("\n")[0]) == (0, "corrected the path of Rekindle in A")
    entry = agents_in(file)["A"]
    assert entry == {"command": OURS, "args": ["run", "--strict", "--", "sh"], "type": "custom"}


def test_entry_that_cannot_be_wrapped_is_skipped(home: Path) -> None:
    file = settings(
        home,
        '{"AGENTS": {"A": {"command": "sh"}, "B": {"type": "custom"}, "C": 5,'
        ' "D": {"command": "x", "command": "y"}, "E": {"command": "x", "args": "y"}}}',
    )
    code, output, notes = setup(home, "zed", "--all", "--write")
    assert (code, output.partition("\n")[0]) == (1, "wrapped A")
    for name in "BCE":
        assert f"rekindle: warning: skipped {name}: it has no command\n" in notes
    assert "skipped D: agent_servers.D has 'command' twice" in notes
    assert agents_in(file)["A"]["command"] == OURS


# -- the ACP registry -------------------------------------------------------------------------


REGISTRY = {
    "version": "1.0.0",
    "agents": [
        {"id": "claude-acp", "distribution": {"npx": {"package": "@acme/claude-acp@0.16.0"}}},
        {
            "id": "auggie",
            "distribution": {
                "npx": {
                    "package": "@acme/auggie@1",
                    "args": ["--acp"],
                    "env": {"NO_UPDATE": "1"},
                }
            },
        },
        {
            "id": "kimi",
            "distribution": {
                "binary": {
                    f"{system}-{machine}": {"archive": "x", "cmd": "./kimi", "args": ["acp"]}
                    for system in ("linux", "darwin")
                    for machine in ("x86_64", "aarch64")
                }
            },
        },
        {"id": "fast", "distribution": {"uvx": {"package": "fast-agent==1.0", "args": ["acp"]}}},
    ],
}
REGISTRY_SETTINGS = """\
{
  "AGENTS": {
    "claude-acp": { "type": "registry" },
    "auggie": {
      "type": "extension", // as before
      "env": { "A": "b" }
    },
    "kimi": { "type": "registry" },
    "fast": { "type": "registry" },
    "unknown": { "type": "registry" }
  }
}
"""


def programs(home: Path, *names: str) -> dict[str, str]:
    folder = home / "programs"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def registry(home: Path) -> None:
    file = home / ".local/share/zed/external_agents/registry/registry.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(REGISTRY), encoding="utf-8")


def test_entries_of_the_registry_are_replaced_and_reported(home: Path) -> None:
    registry(home)
    file = settings(home, REGISTRY_SETTINGS)
    before = file.read_bytes()
    path = programs(home, "npx", "uvx")
    npx, uvx, env = f"{home}/programs/npx", f"{home}/programs/uvx", "/usr/bin/env"
    listed = setup(home, "zed", **path)[1]
    assert f"claude-acp  without Rekindle  from the ACP registry; --all starts {npx} -y" in listed
    code, _, notes = setup(home, "zed", "--all", "--write", **path)
    assert code == 1
    entries = agents_in(file)
    run = ["run", "--"]
    assert entries["claude-acp"] == {
        "type": "custom",
        "command": OURS,
        "args": [*run, npx, "-y", "@acme/claude-acp"],
    }
    assert entries["auggie"] == {
        "type": "custom",
        "env": {"A": "b"},
        "command": OURS,
        "args": [*run, env, "NO_UPDATE=1", npx, "-y", "@acme/auggie", "--acp"],
    }
    assert entries["fast"]["args"] == [*run, uvx, "fast-agent", "acp"]
    assert entries["kimi"] == entries["unknown"] == {"type": "registry"}
    reason = "Zed uses a copy of its own"
    how = "npm install -g @moonshot-ai/kimi-code"
    assert f"skipped kimi: {reason}; install kimi first: {how}\n" in notes
    by_hand = "`rekindle setup zed --name unknown -- COMMAND`"
    assert f"skipped unknown: {reason}; name its command: {by_hand}" in notes
    assert "claude-acp replaces its entry of the ACP registry, so Zed does not update" in notes
    assert "kimi replaces" not in notes
    assert setup(home, "zed", "--all", "--write", **programs(home, "kimi"))[0] == 1
    assert agents_in(file)["kimi"]["args"] == [*run, f"{home}/programs/kimi", "acp"]
    setup(home, "zed", "--undo", "--write", **path)
    assert file.read_bytes() == before


def test_entries_of_the_registry_are_restored_without_the_backup(home: Path) -> None:
    registry(home)
    file = settings(home, REGISTRY_SETTINGS)
    setup(home, "zed", "--all", "--write", **programs(home, "npx"))
    for backup in file.parent.glob("*.backup-*"):
        backup.unlink()
    setup(home, "zed", "--undo", "--write")
    assert file.read_text(encoding="utf-8") == REGISTRY_SETTINGS.replace("AGENTS", "agent_servers")


def test_command_that_replaces_an_entry_of_the_registry_is_reported(home: Path) -> None:
    registry(home)
    settings(home, '{"AGENTS": {"kimi": {"type": "registry"}}}')
    path = programs(home, "kimi")
    notes = setup(home, "zed", "--", "kimi", "acp", **path)[2]
    assert "Zed also has kimi from the ACP registry, without Rekindle" in notes
    notes = setup(home, "zed", "--write", "--name", "kimi", "--", "kimi", "acp", **path)[2]
    assert "kimi replaces its entry of the ACP registry" in notes
    assert "Zed also has" not in notes


# -- notes, terminals, other editors ----------------------------------------------------------


def test_notes_for_undo_have_no_contents_and_are_private(home: Path) -> None:
    settings(home, SETTINGS)
    setup(home, "zed", "--all", "--write")
    notes = home / ".local/share/rekindle/setup.json"
    text = notes.read_text(encoding="utf-8")
    assert "a-secret-value" not in text
    assert "opus" not in text
    assert [stat.S_IMODE(it.stat().st_mode) for it in (notes, notes.parent)] == [0o600, 0o700]
    setup(home, "zed", "--undo", "--write")
    assert notes.read_text(encoding="utf-8") == "[]"


def test_malformed_or_unwritable_notes_do_not_stop_setup(home: Path) -> None:
    file = settings(home, SETTINGS)
    notes = home / ".local/share/rekindle/setup.json"
    notes.parent.mkdir(parents=True)
    notes.write_text("[5", encoding="utf-8")
    assert setup(home, "zed", "--write", "--name", "One")[0] == 0
    notes.unlink()
    notes.mkdir()
    code, _, output = setup(home, "zed", "--all", "--write")
    assert code == 0
    assert "warning: `--undo` will not know the previous entries: " in output
    assert [it.name for it in notes.parent.iterdir()] == ["setup.json"]
    setup(home, "zed", "--undo", "--write")
    assert agents_in(file)["Three"] == {"command": "sh", "type": "custom", "args": []}


@pytest.mark.parametrize("answer", ["y", "n"])
def test_terminal_asks_before_it_writes(home: Path, answer: str) -> None:
    file = settings(home, SETTINGS)
    before = file.read_bytes()
    with Terminal("setup", "zed", "--all", HOME=str(home), XDG_CONFIG_HOME="") as terminal:
        terminal.wait_for("write this to ")
        terminal.enter(answer)
        assert terminal.end() == 0
    assert (file.read_bytes() != before) == (answer == "y")


@pytest.mark.parametrize(
    ("editor", "name"), [("neovim", "after/plugin/rekindle.lua"), ("emacs", "init.el")]
)
def test_undo_removes_blocks(home: Path, editor: str, name: str) -> None:
    file = home / name
    for agent in ("sh", "ls"):
        setup(home, editor, "--write", "--file", file, "--", agent)
    undo = (editor, "--undo", "--write", "--file", file)
    code, output, _ = setup(home, *undo, "--name", "sh")
    assert (code, output.partition("\n")[0]) == (0, "removed sh, which `rekindle setup` had added")
    assert ("rekindle: ls" in file.read_text(), "rekindle: sh" in file.read_text()) == (True, False)
    assert setup(home, *undo)[0] == 0
    assert file.read_text(encoding="utf-8") == ""
