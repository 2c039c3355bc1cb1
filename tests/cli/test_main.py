"""The command line before a command runs: names, aliases, global options, forms of errors."""

from pathlib import Path

import pytest

from rekindle.cli.arguments import add_command_after_dashes, agent_words, split_command
from rekindle.cli.main import (
    ALIASES,
    COMMAND_GROUPS,
    COMMANDS,
    load_command,
    main,
)
from rekindle.model import Counted, Opened
from rekindle.store.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="ses_1", at_us=1, cwd="/")])
        store.write([Counted(session_id="ses_1", at_us=1, turns=1)])
    return path


@pytest.fixture(autouse=True)
def own_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore NO_COLOR after each test: `--no-color` sets it in this process."""
    monkeypatch.setenv("NO_COLOR", "")


def run(*arguments: str) -> int:
    """Run a command in this process; return its exit code."""
    try:
        return main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lst", "list"),
        ("serach", "search"),  # codespell:ignore serach
        ("Show", "show"),
        ("find", "search"),
        ("remove", "delete"),
        ("exmaple-agent", "example-agent"),
    ],
)
def test_mistyped_command_suggests_the_nearest(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == 2
    expected = f"rekindle: error: unknown command {typed!r}; did you mean `rekindle {meant}`?\n"
    assert capsys.readouterr().err == expected


def test_unknown_command_names_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("xyzzy") == 2
    expected = "rekindle: error: unknown command 'xyzzy'; see `rekindle --help`\n"
    assert capsys.readouterr().err == expected


def test_help_groups_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for title, group in COMMAND_GROUPS.items():
        section = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(group)
    assert max(map(len, shown.splitlines())) <= 80


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    expected = capsys.readouterr().out
    for words in (["help"], ["help", "help"]):
        assert run(*words) == 0
        assert capsys.readouterr().out == expected
    assert run("list", "--help") == 0
    expected = capsys.readouterr().out
    for words in (["help", "list"], ["help", "ls"]):
        assert run(*words) == 0
        assert capsys.readouterr().out == expected
    assert run("help", "lst") == 2
    assert "did you mean `rekindle list`?" in capsys.readouterr().err


def test_aliases_run_their_commands(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ALIASES.keys() & COMMANDS.keys() == set()
    assert run("ls", "--store", str(path)) == 0
    assert capsys.readouterr().out.startswith("ses_1\t")
    assert run("rm", "--store", str(path), "ses_1") == 0
    assert capsys.readouterr().out.startswith("deleted ses_1")


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version_has_a_short_option(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(option) == 0
    assert capsys.readouterr().out.startswith("rekindle ")


# -- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "short", "long"),
    [
        ("list", "-n", "--limit"),
        ("search", "-n", "--limit"),
        ("stats", "-n", "--weeks"),
        ("prune", "-n", "--keep"),
        ("prune", "-y", "--yes"),
        ("delete", "-y", "--yes"),
        ("prompt", "-y", "--yes"),
        ("show", "-f", "--follow"),
        ("export", "-f", "--force"),
        ("export", "-o", "--output"),
    ],
)
def test_frequent_options_have_a_short_form(command: str, short: str, long: str) -> None:
    _, parser = load_command(command)
    assert f"  {short}" in parser.format_help()
    assert any({short, long} <= set(it.option_strings) for it in parser._actions)  # noqa: SLF001


def test_store_may_precede_the_command(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = tmp_path / "none.db"
    for words in (
        ["--store", str(path), "list"],
        [f"--store={path}", "--no-color", "ls"],
        ["--no-color", "--store", str(path), "list"],
        ["--store", str(none), "list", "--store", str(path)],
    ):
        assert run(*words) == 0
        assert capsys.readouterr().out.startswith("ses_1\t")
    assert run("--store", str(none), "list") == 1
    assert f"no store at {none}" in capsys.readouterr().err


def test_store_is_refused_by_a_command_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--store", "x.db", "completion", "bash") == 2
    expected = "rekindle: error: `rekindle completion` uses no store; leave --store out\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list", "--limt", "5"], "unknown option --limt; did you mean --limit?"),
        (["list", "--xyzzy"], "unknown option --xyzzy; see `rekindle list --help`"),
        (["list", "x"], "unknown argument x; see `rekindle list --help`"),
        (["list", "--cwd"], "--cwd needs a value; see `rekindle list --help`"),
        (["list", "-n", "x"], "-n/--limit needs a number, and 'x' is not one; see `rekindle list"),
        (["list", "--json=1"], "--json takes no value; leave out the part from = on"),
        (["archive"], "SESSION is missing; see `rekindle archive --help`"),
        (["relocate"], "SESSION and DIR are missing; see `rekindle relocate --help`"),
        (["setup", "vi"], "EDITOR cannot be 'vi'; use zed, jetbrains, vscode, neovim or emacs"),
        (["export", "--protocol", "3"], "--protocol cannot be 3; use 1 or 2"),
        (["setup", "zed", "--all", "--undo"], "--undo and --all exclude each other; use one of"),
        (["list", "--nope\x1b[31m"], "unknown option --nope\\x1b[31m; "),
        (["--store"], "--store needs a value; see `rekindle --help`"),
        (["--stor", "x.db", "list"], "unknown option --stor; did you mean --store?"),
        (["--xyzzy"], "unknown option --xyzzy; see `rekindle --help`"),
    ],
)
def test_wrong_arguments_are_errors_with_a_remedy(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"rekindle: error: {expected}")
    assert output.err.count("\n") == 1


# -- the command of an agent ----------------------------------------------------------------


@pytest.mark.parametrize("command", ["new", "check"])
def test_agent_command_needs_no_dashes(command: str) -> None:
    _, parser = load_command(command)
    for words in (("opencode", "acp"), ("my-agent", "--acp"), ()):
        assert agent_words(parser.parse_args(words).command) == (words, False)
    words = ("opencode", "acp")
    assert agent_words(parser.parse_args(["--", *words]).command) == (words, True)


@pytest.mark.parametrize(
    "own",
    [
        ["--protocol", "2"],
        ["--protocol=2"],
        ["--proto", "2"],
        ["--json", "--only", "list"],
        ["--json"],
    ],
)
def test_options_before_a_command_without_dashes_are_recognised(own: list[str]) -> None:
    _, parser = load_command("check")
    assert parser.parse_args([*own, "x", "--json"]).command == ["x", "--json"]


def test_command_in_the_wrong_place_is_an_error_that_shows_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("resume", "3f2a", "opencode", "acp") == 2
    expected = "; type an agent's command after two dashes: -- opencode acp\n"
    assert capsys.readouterr().err.endswith(expected)


def test_dashes_are_required_beside_positional_arguments() -> None:
    _, parser = load_command("resume")
    add_command_after_dashes(parser)
    assert split_command(parser, ["3f2a", "x"]) == (["3f2a", "x"], [])
    assert split_command(parser, ["3f2a", "--", "x"]) == (["3f2a"], ["x"])
    assert split_command(load_command("list")[1], ["x"]) == (["x"], None)


def test_dashes_as_the_value_of_a_number_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--limit=--") == 2
    assert "--limit: invalid" in capsys.readouterr().err
