"""Read a configuration file, and find its mistakes."""

from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given, strategies as st

from rekindle.configuration.file import Configuration, load_configuration, read_configuration
from rekindle.configuration.keys import KEYS


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    return path


def read(path: Path, text: str | bytes) -> Configuration:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_configuration(str(path))


def problems(path: Path, text: str | bytes) -> list[tuple[str, bool]]:
    return [tuple(problem) for problem in read(path, text).problems]


def test_values_have_their_whole_names(path: Path) -> None:
    configuration = read(
        path,
        """
        store = "/x.db"
        [run]
        grace = 1
        [agents.mine]
        command = "agent acp"
        env = {A = "1"}
        """,
    )
    assert configuration == Configuration(
        str(path),
        {
            "store": "/x.db",
            "run.grace": 1.0,
            "agents.mine.command": ("agent", "acp"),
            "agents.mine.env": {"A": "1"},
        },
    )
    assert configuration.section("run") == {"grace": 1.0}


def test_a_missing_file_is_no_configuration(path: Path) -> None:
    assert load_configuration() is None
    path.write_text("")
    assert load_configuration() == Configuration(str(path), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redat = true", "unknown key `redat`: did you mean `redact`?"),
        ("handover = true", "unknown key `handover`: did you mean `run.handover`?"),
        ("[run]\nhandovr = true", "unknown key `run.handovr`: did you mean `run.handover`?"),
        (
            "[agents.x]\ncommand_line = 'y'",
            "unknown key `agents.x.command_line`: did you mean `agents.x.command`?",
        ),
        ("[run]\nstore = '/x'", "unknown key `run.store`: did you mean `store`?"),
        ("[run]\nx = 1", "unknown key `run.x`: `rekindle config` lists the keys"),
        ("[agent.x]\ncommand = 'y'", "unknown key `agent`: did you mean `agents`?"),
        ("zzz = 1", "unknown key `zzz`: `rekindle config` lists the keys"),
        ("[zzz.y]\nx = 1", "unknown key `zzz`: `rekindle config` lists the keys"),
    ],
)
def test_an_unknown_key_is_a_warning_with_the_nearest_key(
    path: Path, text: str, expected: str
) -> None:
    assert problems(path, text) == [(expected, False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redact = 'no'", "`redact` must be `true` or `false`"),
        ("run = 1", "`run` must be a table: write `[run]`, and below it `handover = …`"),
        (
            "agents.x = 'agent'",
            "`agents.x` must be a table: write `[agents.x]`, and below it `command = …`",
        ),
        (
            "agents.'a b'.command = 'x'",
            "`agents.a b`: a name has letters, digits, `-` and `_` only",
        ),
        ("[run]\ngrace = -1", "`run.grace` must be a number of seconds from 0 to 86400"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error(path: Path, text: str, expected: str) -> None:
    assert problems(path, text) == [(expected, True)]


def test_a_mistake_does_not_hide_other_values(path: Path) -> None:
    configuration = read(path, "redact = 1\nx = 1\npager = 'most'")
    assert configuration.values == {"pager": "most"}
    assert [problem.is_error for problem in configuration.problems] == [True, False]
    described = configuration.described(configuration.problems[0])
    assert described == f"{path}: `redact` must be `true` or `false`"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "store = '/x'\n= 1",
            "the file is not valid TOML: Invalid statement (at line 2, column 1)",
        ),
        (b"x = '\xff'", "the file is not text in UTF-8, from byte 5 on"),
        ("x = " + "[" * 100_000, "the file is nested too deeply"),
        ("x = " + "9" * 10_000, "the file is not valid TOML: Exceeds the limit"),
    ],
)
def test_a_file_that_is_not_toml_is_an_error(path: Path, text: str, expected: str) -> None:
    ((found, is_error),) = problems(path, text)
    assert found.startswith(expected)
    assert is_error


NAMES = (*(key.name for key in KEYS), "run", "agents", "agents.x", "x", "a.b.c")
VALUES = (
    *(
        "1",
        "-1",
        "1e999",
        "nan",
        "true",
        "''",
        "'~'",
        '"~\\u0000"',
        '"\\u0000/"',
        "[]",
        "[[]]",
        "{}",
    ),
    *("{a = 1}", "{a = 'b'}", "2020-01-01", "'/x'", "['/x', '']", '"\'"', "9" * 5000),
)
LINES = st.builds("{} = {}".format, st.sampled_from(NAMES), st.sampled_from(VALUES))


@given(st.binary() | st.lists(LINES, max_size=4).map(lambda lines: "\n".join(lines).encode()))
def test_no_content_causes_an_exception(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        configuration = read_configuration(file.name)
    assert all(problem.text for problem in configuration.problems)


def test_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.mkdir()
    (problem,) = read_configuration(str(path)).problems
    assert problem.text == "the file cannot be read: Is a directory"
