"""The keys of the configuration file: types, precedence, documentation."""

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from rekindle.cli.commands import run
from rekindle.configuration.keys import (
    ADDRESS,
    BOOLEAN,
    BUDGET,
    COMMAND,
    KEYS,
    PATH,
    SECONDS,
    TEXT,
    VARIABLES,
    WAIT,
    Setting,
    ValueKind,
    effective,
    parse_wait,
    wait_text,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
HOME = str(Path.home())


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BOOLEAN, False, False),
        (TEXT, "", ""),
        (SECONDS, 0, 0.0),
        (SECONDS, 2.5, 2.5),
        (BUDGET, 1000, 1000),
        (PATH, "~/x", f"{HOME}/x"),
        (ADDRESS, "/x.db", "/x.db"),
        (ADDRESS, "~/x.db", f"{HOME}/x.db"),
        (ADDRESS, "sqlite:////x.db", "sqlite:////x.db"),
        (ADDRESS, "sqlite:///~/x.db", f"sqlite:///{HOME}/x.db"),
        (ADDRESS, "postgresql://host/db", "postgresql://host/db"),
        (COMMAND, "agent 'two words'", ("agent", "two words")),
        (COMMAND, ["agent", "", "$x"], ("agent", "", "$x")),
        (COMMAND, ["~/agent"], (f"{HOME}/agent",)),
        (VARIABLES, {"A": "1"}, {"A": "1"}),
        (WAIT, False, None),
        (WAIT, True, 14_400.0),
        (WAIT, "90s", 90.0),
        (WAIT, "30 min", 1800.0),
        (WAIT, "2d", 172_800.0),
    ],
)
def test_valid_values_are_converted(kind: ValueKind, value: Any, expected: Any) -> None:  # noqa: ANN401
    converted = kind.convert(value)
    assert (converted, type(converted)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (WAIT, 4),
        (WAIT, "4"),
        (WAIT, "0h"),
        (WAIT, "4 weeks"),
        (WAIT, "1234567s"),
        (WAIT, "-1h"),
        (BOOLEAN, 1),
        (BOOLEAN, "true"),
        (TEXT, 1),
        (SECONDS, -1),
        (SECONDS, 86_401),
        (SECONDS, True),
        (SECONDS, "5"),
        (SECONDS, float("nan")),
        (BUDGET, 999),
        (BUDGET, 2000.0),
        (BUDGET, True),
        (PATH, "x"),
        (PATH, "~no-such-user/x"),
        (ADDRESS, "x.db"),
        (ADDRESS, "sqlite:///x.db"),
        (ADDRESS, 1),
        (COMMAND, ""),
        (COMMAND, []),
        (COMMAND, [""]),
        (COMMAND, ["agent", 1]),
        (COMMAND, "agent 'open"),
        (COMMAND, ["./agent"]),
        (COMMAND, 1),
        (COMMAND, {"agent": 1}),
        (VARIABLES, {"A": 1}),
        (VARIABLES, {"": "1"}),
        (VARIABLES, {"A=B": "1"}),
        (VARIABLES, {"A": "\0"}),
        (VARIABLES, "A=1"),
    ],
)
def test_values_of_the_wrong_type_are_refused(kind: ValueKind, value: Any) -> None:  # noqa: ANN401
    with pytest.raises((ValueError, TypeError)):
        kind.convert(value)


def test_flag_environment_file_and_default_count_in_this_order() -> None:
    values = {"store": "/file.db"}
    environ = {"REKINDLE_STORE": "/variable.db"}
    both = effective("store", values, "/c", flag="/flag.db", environ=environ)
    assert both == Setting("/flag.db", "flag", "--store")
    assert effective("store", values, "/c", environ=environ) == Setting(
        "/variable.db", "environment", "REKINDLE_STORE"
    )
    assert effective("store", values, "/c", environ={"REKINDLE_STORE": ""}) == Setting(
        "/file.db", "file", "/c"
    )
    assert effective("store", {}, environ={}) == Setting(None, "default")


def test_the_file_wins_over_the_pager_of_other_programs() -> None:
    values, environ = {"pager": "most"}, {"PAGER": "more"}
    assert effective("pager", values, "/c", environ=environ).value == "most"
    assert effective("pager", {}, environ=environ) == Setting("more", "environment", "PAGER")
    own = effective("pager", values, "/c", environ=environ | {"REKINDLE_PAGER": ""})
    assert own == Setting("", "environment", "REKINDLE_PAGER")


def test_no_color_switches_colours_off_unless_it_is_empty() -> None:
    assert effective("color", {}, environ={"NO_COLOR": "1"}).value is False
    assert effective("color", {}, environ={"NO_COLOR": ""}) == Setting(True, "default")  # noqa: FBT003


def test_every_key_is_documented_as_it_is() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text.partition("## Keys\n")[2].partition("\n\nA path")[0]
    rows = [tuple(cell.strip() for cell in line[1:-1].split("|")) for line in table.split("\n")[3:]]
    assert rows == [
        (
            f"`{key.name}`",
            key.kind.expected,
            key.default_text or f"`{_toml(key.default)}`",
            _code(key.flag),
            ", ".join(filter(None, map(_code, (key.variable, key.fallback_variable)))),
            key.help,
        )
        for key in KEYS
    ]


def _code(word: str) -> str:
    return f"`{word}`" if word else ""


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower().removesuffix(".0")


def test_defaults_of_run_are_those_of_the_command() -> None:
    keys = {key.name.removeprefix("run."): key for key in KEYS if key.name.startswith("run.")}
    assert {name: key.default for name, key in keys.items()} == run.DEFAULTS
    parser = argparse.ArgumentParser()
    run.configure(parser)
    options = {option for action in parser._actions for option in action.option_strings}  # noqa: SLF001
    assert {key.flag for key in keys.values()} <= options


def test_every_flag_is_an_option_of_some_command() -> None:
    commands = Path(run.__file__).parents[1]
    source = "".join(path.read_text(encoding="utf-8") for path in commands.rglob("*.py"))
    missing = [key.flag for key in KEYS if key.flag and not re.search(f'"{key.flag}"', source)]
    assert missing == []


@pytest.mark.parametrize("text", ["90s", "30min", "4h", "2d", "31d", "61min", "999999d"])
def test_a_wait_is_shown_as_it_is_written(text: str) -> None:
    assert parse_wait(wait_text(parse_wait(text))) == parse_wait(text)
    assert wait_text(parse_wait(text)) == text
