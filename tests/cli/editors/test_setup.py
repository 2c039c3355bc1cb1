"""`rekindle setup`: the printed snippets, and the changes to the user's files."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from editor_setup import EDITOR_FILES, setup
from rekindle.cli.editors.agents import editor_agent, rekindle_command
from rekindle.cli.editors.blocks import put_block, remove_block
from rekindle.cli.editors.jsonc import parse
from rekindle.errors import FileUnclear
from stdio_client import TIMEOUT

ROOT = Path(__file__).parents[3]
DOCUMENTS = "".join(
    file.read_text(encoding="utf-8")
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
)
EDITORS = ("zed", "jetbrains", "vscode", "neovim", "emacs")
AGENT = ("opencode", "acp")
NVIM, EMACS = shutil.which("nvim") or "", shutil.which("emacs") or ""
(OURS,) = rekindle_command()
EXISTING = {
    "zed": '// mine\n{\n  "theme": "dark", // dark\n}\n',
    "jetbrains": '{\n  "agent_servers": {}\n}\n',
    "vscode": '{\n    "editor.fontSize": 14,\n    "acp.agents": {}\n}',
    "neovim": "-- mine\nprint(1)\n",
    "emacs": ";; mine\n(setq x 1)\n;;; init.el ends here\n",
}


def backups(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}.backup-*"))


@pytest.mark.parametrize("editor", ["zed", "jetbrains", "neovim", "emacs"])
def test_documents_show_the_printed_snippets(home: Path, editor: str) -> None:
    code, printed, where = setup(home, editor, "--", *AGENT)
    assert code == 0
    assert f"in {home / EDITOR_FILES[editor]}:" in where
    shown = re.findall(r"^```(?:json|lua|elisp)\n(.*?)^```", DOCUMENTS, re.MULTILINE | re.DOTALL)
    assert printed.replace(OURS, "rekindle") in shown
    assert not (home / EDITOR_FILES[editor]).exists()


@pytest.mark.parametrize("editor", EDITORS)
def test_written_text_is_the_printed_snippet(home: Path, editor: str) -> None:
    _, printed, _ = setup(home, editor, "--", *AGENT)
    assert setup(home, editor, "--write", "--", *AGENT)[0] == 0
    assert printed.strip() in (home / EDITOR_FILES[editor]).read_text(encoding="utf-8")


@pytest.mark.parametrize("editor", EDITORS)
def test_agent_may_be_named_without_dashes(home: Path, editor: str) -> None:
    _, expected, _ = setup(home, editor, "--", *AGENT)
    for words in (["opencode"], AGENT, ["opencode", "--name", "OpenCode"]):
        assert setup(home, editor, *words)[:2] == (0, expected)


@pytest.mark.parametrize("option", ["--all", "--undo", "--name=x"])
def test_error_in_a_file_names_the_file(home: Path, option: str) -> None:
    file = home / EDITOR_FILES["zed"]
    file.parent.mkdir(parents=True)
    file.write_text('{"agent_servers": [}', encoding="utf-8")
    code, output, error = setup(home, "zed", option)
    assert (code, output) == (1, "")
    assert error.startswith(f"rekindle: error: {file}: the file is not valid JSON: ")
    assert error.endswith("; correct the file, then try again\n")


@pytest.mark.parametrize("editor", EDITORS)
def test_write_keeps_other_content_and_makes_a_backup(home: Path, editor: str) -> None:
    file = home / EDITOR_FILES[editor]
    file.parent.mkdir(parents=True)
    file.write_text(EXISTING[editor], encoding="utf-8")
    file.chmod(0o640)
    code, output, _ = setup(home, editor, "--write", "--", *AGENT)
    assert code == 0
    (copy,) = backups(file)
    assert str(copy) in output
    assert copy.read_text(encoding="utf-8") == EXISTING[editor]
    assert [stat.S_IMODE(item.stat().st_mode) for item in (file, copy)] == [0o640, 0o640]
    written = file.read_text(encoding="utf-8")
    for line in EXISTING[editor].splitlines():
        if "agents" not in line and "agent_servers" not in line:
            assert line in written
    assert [path.name for path in file.parent.iterdir() if path.suffix == ".tmp"] == []
    # A second run changes nothing, and another agent is added beside the first.
    assert setup(home, editor, "--write", "--", *AGENT)[:2] == (
        0,
        f"{file} has this agent already\n",
    )
    assert backups(file) == [copy]
    setup(home, editor, "--write", "--", "codex-acp")
    both = file.read_text(encoding="utf-8")
    assert ('"opencode"' in both, '"codex-acp"' in both) == (True, True)
    # Another command for the first agent replaces its command.
    setup(home, editor, "--write", "--", "opencode", "acp", "--port", "1")
    last = file.read_text(encoding="utf-8")
    assert last.count('"opencode"') == both.count('"opencode"')
    assert '"--port"' in last
    assert len(backups(file)) == 3


def test_write_changes_only_the_command_of_an_existing_agent(home: Path) -> None:
    file = home / EDITOR_FILES["zed"]
    file.parent.mkdir(parents=True)
    file.write_text(
        '{"agent_servers": {"OpenCode": {"type": "custom", "command": "opencode",\n"args": ["acp"],'
        '  "env": {"A": "b"} // keep\n}}}',
        encoding="utf-8",
    )
    setup(home, "zed", "--write", "--", *AGENT)
    text = file.read_text(encoding="utf-8")
    assert "// keep" in text
    assert parse(text).data["agent_servers"]["OpenCode"] == {
        "type": "custom",
        "command": OURS,
        "args": ["run", "--", "opencode", "acp"],
        "env": {"A": "b"},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"agent_servers": []}', "agent_servers is not an object"),
        (b'{"a": ', "not valid JSON"),
        (b'{"a": "\xff"}', "not in UTF-8"),
        (b'{"agent_servers": {}, "agent_servers": {}}', "twice"),
    ],
)
def test_unclear_file_is_left_and_the_snippet_printed(home: Path, text: bytes, why: str) -> None:
    file = home / EDITOR_FILES["zed"]
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    code, _, output = setup(home, "zed", "--write", "--", *AGENT)
    assert code == 1
    assert why in output
    assert '"OpenCode": {' in output
    assert file.read_bytes() == text
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_link_is_kept_and_its_target_written(home: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "settings.json").write_text("{}", encoding="utf-8")
    file = home / EDITOR_FILES["zed"]
    file.parent.mkdir(parents=True)
    file.symlink_to(dotfiles / "settings.json")
    assert setup(home, "zed", "--write", "--", *AGENT)[0] == 0
    assert file.is_symlink()
    assert "OpenCode" in (dotfiles / "settings.json").read_text(encoding="utf-8")
    assert len(backups(dotfiles / "settings.json")) == 1


def test_name_and_file_options(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "x.json"
    words = ("zed", "--write", "--name", "My own", "--file", file, "--", *AGENT)
    assert setup(home, *words)[0] == 0
    assert list(json.loads(file.read_text(encoding="utf-8"))["agent_servers"]) == ["My own"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_default_paths_of_the_editors(home: Path, tmp_path: Path) -> None:
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert f"in {tmp_path}/xdg/zed/settings.json" in setup(home, "zed", **elsewhere)[1]
    assert f"in {tmp_path}/xdg/mine/after" in setup(
        home, "neovim", NVIM_APPNAME="mine", **elsewhere
    )[2]  # fmt: skip
    flatpak = home / ".var/app/dev.zed.Zed/config/zed"
    flatpak.mkdir(parents=True)
    assert f"in {flatpak}/settings.json" in setup(home, "zed")[1]
    (home / ".config/VSCodium/User").mkdir(parents=True)
    assert f"in {home}/.config/VSCodium/User/settings.json" in setup(home, "vscode")[1]
    (tmp_path / "xdg/emacs").mkdir(parents=True)
    assert f"in {tmp_path}/xdg/emacs/init.el" in setup(home, "emacs", **elsewhere)[2]
    (home / ".emacs.d").mkdir()
    assert f"in {home}/.emacs.d/init.el" in setup(home, "emacs", **elsewhere)[2]
    (home / ".emacs").touch()
    assert f"in {home}/.emacs:" in setup(home, "emacs", **elsewhere)[2]


def test_agent_program_is_resolved_to_its_full_path(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.touch(mode=0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    _, printed, output = setup(home, "zed", "--", *AGENT, PATH=path)
    assert f'"{program}"' in printed
    assert "not found" not in output
    assert "opencode was not found;" in setup(home, "zed", "--", *AGENT)[2]
    npx = ("npx", "-y", "@agentclientprotocol/claude-agent-acp@0.99")
    assert '"Claude Code": {' in setup(home, "zed", "--", *npx)[1]


def test_folder_of_one_shell_is_replaced_by_its_target(home: Path, tmp_path: Path) -> None:
    installation = tmp_path / "node-versions/v22/bin"
    installation.mkdir(parents=True)
    (installation / "npm-cli.js").touch(mode=0o755)
    (installation / "npx").symlink_to("npm-cli.js")
    shell = tmp_path / "fnm_multishells/123_456"
    shell.parent.mkdir()
    shell.symlink_to(installation.parent)
    printed = setup(home, "zed", "--", "npx", "agent", PATH=f"{shell}/bin:/usr/bin:/bin")[1]
    assert f'"{installation}/npx"' in printed


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @acme/agent-one", "agent-one"),
        ("npx -y @acme/agent-one@1.2.3 --model gemini", "agent-one"),
        ("/usr/bin/npx -p @acme/tools agent-two", "agent-two"),
        ("npm exec --yes -- @acme/agent-one", "agent-one"),
        ("bun x agent", "agent"),
        ("env A=b C=d node --require x /opt/agent-one/dist/index.js --acp", "agent-one"),
        ("node ./my_agent.mjs", "my_agent"),
        ("node index.js", "index"),
        ("python3 -u /opt/my-agent/main.py", "my-agent"),
        ("python3.12 -m acme.agent", "acme.agent"),
        ("uvx --from git+https://x/y my-agent[all]==1.2 acp", "my-agent"),
        ("uv tool run my-agent", "my-agent"),
        ("python3 -c pass", "python3"),
        ("node", "node"),
        ("my-agent --model gemini", "my-agent"),
        ("uvx kimi acp", "Kimi CLI"),
        ("rekindle run -- npx -y @acme/agent-one", "agent-one"),
        ("rekindle run --strict opencode acp", "OpenCode"),
    ],
)
def test_agent_is_named_after_its_program_not_its_launcher(command: str, name: str) -> None:
    assert editor_agent(command.split()).name == name


@pytest.mark.parametrize("editor", EDITORS)
def test_replaced_command_is_reported(home: Path, editor: str) -> None:
    first, second = ("npx", "-y", "@acme/my-agent"), ("npx", "-y", "@other/my-agent", 'a"b')
    output = setup(home, editor, "--write", "--", *first)[2]
    assert "replaces the command" not in output
    output = setup(home, editor, "--write", "--", *second)[2]
    assert "this replaces the command of my-agent: " in output
    assert "run -- " in output
    assert "-y @acme/my-agent; to have both, use --name NAME\n" in output
    output = setup(home, editor, "--write", "--", *first)[2]
    assert shlex.join(second[1:]) in output
    assert "replaces the command" not in setup(home, editor, "--write", "--", "other")[2]


def test_replaced_command_without_rekindle_is_reported(home: Path) -> None:
    file = home / EDITOR_FILES["jetbrains"]
    file.parent.mkdir()
    file.write_text('{"agent_servers": {"OpenCode": {"command": "x"}}}', encoding="utf-8")
    output = setup(home, "jetbrains", "--write", "--", *AGENT)[2]
    assert "replaces the command of OpenCode: x;" in output


@pytest.mark.parametrize("editor", EDITORS)
def test_rekindle_run_is_not_added_twice(home: Path, editor: str) -> None:
    plain = setup(home, editor, "--", *AGENT)[1]
    _, printed, output = setup(home, editor, "--", "rekindle", "run", "--", *AGENT)
    assert printed == plain
    assert "starts Rekindle already" in output
    assert "rekindle was not found" not in output
    printed = setup(home, editor, "--", "/x/rekindle", "run", "--store", "/s.db", "--", *AGENT)[1]
    assert printed.replace(" ", "").replace(",", "").count('"run"') == 1
    assert '"--store"' in printed
    assert OURS in printed
    assert "/x/rekindle" not in printed


def test_launcher_before_rekindle_is_kept(home: Path) -> None:
    words = ("env", "A=b", "rekindle", "run", "--", *AGENT)
    server = json.loads(setup(home, "zed", "--", *words)[1])["agent_servers"]["OpenCode"]
    assert [Path(server["command"]).name, *server["args"]] == list(words)


@pytest.mark.parametrize("mode", [0o400, 0o444])
def test_read_only_file_is_not_changed(home: Path, mode: int) -> None:
    file = home / EDITOR_FILES["zed"]
    file.parent.mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    file.chmod(mode)
    code, _, output = setup(home, "zed", "--write", "--", *AGENT)
    assert code == 1
    assert f"{file} is read-only; nothing was written" in output
    assert '"OpenCode": {' in output
    assert file.read_text(encoding="utf-8") == "{}"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "arguments",
    [
        ["vim"],
        ["zed", "--", "rekindle", "run"],
        ["zed", "--", "rekindle", "run", "--nonsense", "--", "x"],
        [],
        ["zed", "--write"],
        ["zed", "--all", "--undo"],
        ["zed", "--all", "--", "x"],
        ["zed", "--undo", "--", "x"],
        ["zed", "--name", "none"],
        ["neovim", "--all"],
        ["neovim", "--write"],
        ["zed", "--", ""],
        ["zed", "--name", "a\nb"],
        ["zed", "--", "a\x1bb"],
        ["zed", "--", os.fsdecode(b"\xff")],
    ],
)
def test_invalid_arguments_are_reported(home: Path, arguments: list[str]) -> None:
    code, printed, output = setup(home, *arguments)
    assert (code, printed) == (2, "")
    assert output.startswith("rekindle: error: ")
    assert list(home.iterdir()) == []


def test_block_with_damaged_marks_is_refused() -> None:
    text = put_block("a\n", "X", "body", "--")
    assert text == "a\n\n-- >>> rekindle: X >>>\nbody\n-- <<< rekindle: X <<<\n"
    assert put_block(text + "b\n", "X", "new", "--") == text.replace("body", "new") + "b\n"
    crlf = put_block("a\r\n", "X", "body\nmore", "--")
    assert "body\r\nmore\r\n" in crlf
    for damaged in (text + text, text.replace("<<<", ""), "\n".join(reversed(text.splitlines()))):
        with pytest.raises(FileUnclear):
            put_block(damaged, "X", "body", "--")


@pytest.mark.parametrize("text", ["", "a\n", "a\r\nb\r\n", "a\n\n\n"])
def test_removed_block_leaves_the_previous_text(text: str) -> None:
    with_blocks = put_block(put_block(text, "X", "body", "--"), "Y", "body", "--")
    assert remove_block(remove_block(with_blocks, "X", "--"), "Y", "--") == text
    assert remove_block(with_blocks, "Z", "--") == with_blocks


HOSTILE = ("my-agent", 'a"b\\c', "]]", "$(x)", "'; --")


@pytest.mark.skipif(not NVIM, reason="Neovim is not installed")
@pytest.mark.parametrize("command", [AGENT, HOSTILE])
def test_neovim_loads_the_snippet(home: Path, command: tuple[str, ...]) -> None:
    setup(home, "neovim", "--write", "--", *command)
    modules = home / "lua" / "codecompanion"
    modules.mkdir(parents=True)
    (modules / "config.lua").write_text("return { adapters = { acp = {} } }", encoding="utf-8")
    (modules / "adapters.lua").write_text(
        "return { extend = function(_, it) return it end }", encoding="utf-8"
    )
    ask = (
        "for _, it in pairs(require('codecompanion.config').adapters.acp) do "
        "io.stdout:write(vim.fn.json_encode(it().commands.default)) end"
    )
    file = home / EDITOR_FILES["neovim"]
    done = subprocess.run(
        [NVIM, "--headless", "-c", f"set rtp+={home}", "-c", f"luafile {file}",
         "-c", f"lua {ask}", "-c", "qa!"],
        env=os.environ | {"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [OURS, "run", "--", *command]


@pytest.mark.skipif(not NVIM, reason="Neovim is not installed")
@pytest.mark.parametrize("config", [None, "return {}"])
def test_neovim_without_codecompanion_starts_silently(home: Path, config: str | None) -> None:
    setup(home, "neovim", "--write", "--", *AGENT)
    setup(home, "neovim", "--write", "--", *HOSTILE)
    folder = home / ".config/nvim/lua/codecompanion"
    if config:
        folder.mkdir(parents=True)
        (folder / "config.lua").write_text(config, encoding="utf-8")
    done = subprocess.run(
        [NVIM, "--headless", "-c", "lua io.stdout:write('STARTED')", "-c", "qa!"],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("STARTED", "")


@pytest.mark.skipif(not EMACS, reason="Emacs is not installed")
def test_emacs_loads_the_snippet(home: Path) -> None:
    setup(home, "emacs", "--write", "--", *AGENT)
    setup(home, "emacs", "--write", "--", *HOSTILE)
    stub = (
        "(progn (require 'json) (defvar agent-shell-agent-configs nil)"
        " (defun agent-shell-make-agent-config (&rest it) it)"
        " (defun acp-make-client (&rest it) it) (provide 'agent-shell))"
    )
    ask = (
        "(princ (json-encode (vector (vconcat agent-shell-opencode-acp-command)"
        " (vconcat (plist-get (funcall (plist-get (car agent-shell-agent-configs) :client-maker) 1)"
        "  :command-params)))))"
    )
    done = subprocess.run(
        [EMACS, "-Q", "--batch", "--eval", stub, "-l", home / EDITOR_FILES["emacs"], "--eval", ask],
        env=os.environ | {"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    own, other = json.loads(done.stdout)
    assert own == [OURS, "run", "--", *AGENT]
    assert other == ["run", "--", *HOSTILE]
