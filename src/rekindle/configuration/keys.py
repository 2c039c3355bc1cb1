"""The keys of the configuration file. A new key is a row in `KEYS`.

`docs/reference/configuration.md` has the same rows; a test compares them.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

_MAX_SECONDS = 86_400
_MIN_BUDGET = 1_000
_MAX_DIGITS = 6
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
DEFAULT_WAIT = 4 * 3600.0
"""The seconds that a turn waits for an answer without a client."""
_URL_MARK = "://"
_RELATIVE_URL = "sqlite:///"


class ValueKind(NamedTuple):
    """The type of a value."""

    expected: str
    """The accepted values, for an error message: "must be …"."""
    convert: Callable[[Any], Any]
    """Returns the value to use. Raises ValueError, or TypeError, if the type is wrong."""


class ConfigurationKey(NamedTuple):
    """A key of the file, with the other places in which its value can be set.

    The user chooses each part of the name that is in capitals here.
    """

    name: str
    """The name with its tables, such as `run.grace`."""
    kind: ValueKind
    default: Any
    help: str
    flag: str = ""
    """The option of the command line. It wins over everything else."""
    variable: str = ""
    """The environment variable, which wins over the file."""
    from_variable: Callable[[str], Any] = str
    """Converts the text of `variable`; None means that it sets no value."""
    fallback_variable: str = ""
    """A variable of other programs, which counts only if the file has no value."""
    default_text: str = ""
    """The default in words, where the value itself says too little."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The name, split at its dots."""
        return tuple(self.name.split("."))


class Setting(NamedTuple):
    """A value, and where it comes from."""

    value: Any
    source: str
    """`flag`, `environment`, `file` or `default`."""
    origin: str = ""
    """The flag, the variable, or the path of the file."""


# -- types ----------------------------------------------------------------------------------


def _boolean(value: Any) -> bool:  # noqa: ANN401 - any value of TOML
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError
    return value


def _seconds(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, bool) or not 0 <= value <= _MAX_SECONDS:
        raise ValueError
    return float(value)


def _wait(value: Any) -> float | None:  # noqa: ANN401
    if isinstance(value, bool):
        return DEFAULT_WAIT if value else None
    return parse_wait(_text(value))


def parse_wait(text: str) -> float:
    """Parse a duration such as `4h`; return seconds. Raises ValueError."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :]
    digits = number.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    if unit not in _UNITS or not is_number or int(digits) == 0:
        raise ValueError
    return float(digits) * _UNITS[unit]


def wait_text(seconds: float) -> str:
    """Return a duration as `parse_wait` reads it."""
    fitting = (it for it in reversed(_UNITS.items()) if seconds % it[1] == 0)
    unit, size = next(fitting, ("s", 1))
    return f"{seconds / size:.0f}{unit}"


def _budget(value: Any) -> int:  # noqa: ANN401
    if not isinstance(value, int) or isinstance(value, bool) or value < _MIN_BUDGET:
        raise ValueError
    return value


def _path(value: Any) -> str:  # noqa: ANN401
    path = os.path.expanduser(_text(value))  # noqa: PTH111 - the value stays a text
    if not os.path.isabs(path):  # noqa: PTH117
        # A relative path would name another file in each folder.
        raise ValueError
    return path


def _address(value: Any) -> str:  # noqa: ANN401
    text = _text(value)
    if text.startswith(_RELATIVE_URL):
        return f"{_RELATIVE_URL}{_path(text.removeprefix(_RELATIVE_URL))}"
    return text if _URL_MARK in text else _path(text)


def _command(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    if isinstance(value, str):
        import shlex  # noqa: PLC0415 - seldom needed

        words = shlex.split(value)
    elif isinstance(value, list):
        words = [_text(word) for word in cast("list[Any]", value)]
    else:
        raise TypeError
    program, *arguments = words
    if os.sep in program or program.startswith("~"):
        program = _path(program)
    if not program:
        raise ValueError
    return (program, *arguments)


def _variables(value: Any) -> dict[str, str]:  # noqa: ANN401
    if not isinstance(value, dict):
        raise TypeError
    found = {name: _text(text) for name, text in cast("dict[str, Any]", value).items()}
    if any(not name or "=" in name or "\0" in name + text for name, text in found.items()):
        raise ValueError
    return found


BOOLEAN = ValueKind("`true` or `false`", _boolean)
TEXT = ValueKind("a string", _text)
SECONDS = ValueKind(f"a number of seconds from 0 to {_MAX_SECONDS}", _seconds)
WAIT = ValueKind("`true`, `false`, or a duration such as `30min`, `4h` or `2d`", _wait)
BUDGET = ValueKind(f"a number from {_MIN_BUDGET} on", _budget)
PATH = ValueKind("an absolute path, or one that begins with `~`", _path)
ADDRESS = ValueKind("an absolute path, a path that begins with `~`, or a URL", _address)
COMMAND = ValueKind(
    "a list of words, or a string, with a program on PATH or an absolute path", _command
)
VARIABLES = ValueKind("a table of environment variables, each a string", _variables)


# -- keys -----------------------------------------------------------------------------------


def _unless_empty(text: str) -> str | None:
    return text or None


def _no_color(text: str) -> bool | None:
    return False if text else None


KEYS = (
    ConfigurationKey(
        name="store",
        kind=ADDRESS,
        default=None,
        default_text="`sessions.db` in your data folder",
        flag="--store",
        variable="REKINDLE_STORE",
        from_variable=_unless_empty,
        help="the store that every command uses",
    ),
    ConfigurationKey(
        name="redact",
        kind=BOOLEAN,
        default=True,
        flag="--no-redact",
        help="whether the terminal shows secrets masked; exports are always masked by default",
    ),
    ConfigurationKey(
        name="pager",
        kind=TEXT,
        default="less",
        flag="--no-pager",
        variable="REKINDLE_PAGER",
        fallback_variable="PAGER",
        help="the program that shows long output page by page; an empty string means none",
    ),
    ConfigurationKey(
        name="color",
        kind=BOOLEAN,
        default=True,
        flag="--no-color",
        variable="NO_COLOR",
        from_variable=_no_color,
        help="whether to use colours on a terminal",
    ),
    ConfigurationKey(
        name="run.handover",
        kind=BOOLEAN,
        default=True,
        flag="--handover",
        help="whether to send the history to an agent that has lost a session",
    ),
    ConfigurationKey(
        name="run.handover_budget",
        kind=BUDGET,
        default=40_000,
        flag="--handover-budget",
        help="the largest number of characters of that history",
    ),
    ConfigurationKey(
        name="run.takeover",
        kind=BOOLEAN,
        default=False,
        flag="--takeover",
        help="whether to take over sessions that another process uses",
    ),
    ConfigurationKey(
        name="run.agent_option",
        kind=BOOLEAN,
        default=False,
        flag="--agent-option",
        help="whether sessions have an option of the installed agents, which switches all of them",
    ),
    ConfigurationKey(
        name="run.strict",
        kind=BOOLEAN,
        default=False,
        flag="--strict",
        help="whether to refuse messages that the specification forbids",
    ),
    ConfigurationKey(
        name="run.detach",
        kind=WAIT,
        default=None,
        default_text="end with the client",
        flag="--detach",
        help="whether turns continue after the client has left, and how long they then wait for an"
        " answer",
    ),
    ConfigurationKey(
        name="run.log",
        kind=PATH,
        default=None,
        default_text="no log",
        flag="--log",
        help="the file to which `rekindle run` appends a log of events",
    ),
    ConfigurationKey(
        name="run.grace",
        kind=SECONDS,
        default=5.0,
        flag="--grace",
        help="the seconds that the agent may take to exit after the client has left",
    ),
    ConfigurationKey(
        name="hooks.on_waiting",
        kind=COMMAND,
        default=None,
        default_text="no command",
        help="the command that runs when the agent asks you for a permission or for input",
    ),
    ConfigurationKey(
        name="hooks.on_end",
        kind=COMMAND,
        default=None,
        default_text="no command",
        help="the command that runs when a turn has ended",
    ),
    ConfigurationKey(
        name="hooks.on_death",
        kind=COMMAND,
        default=None,
        default_text="no command",
        help="the command that runs when the agent or its host has died in the middle of a turn",
    ),
    ConfigurationKey(
        name="hooks.include_text",
        kind=BOOLEAN,
        default=False,
        help="whether these commands receive text of the conversation",
    ),
    ConfigurationKey(
        name="agents.NAME.command",
        kind=COMMAND,
        default=None,
        default_text="the command of the known agent NAME",
        help="the command that starts the agent",
    ),
    ConfigurationKey(
        name="agents.NAME.env",
        kind=VARIABLES,
        default=None,
        default_text="no variables",
        help="environment variables to set for this agent",
    ),
)

_BY_NAME = {key.name: key for key in KEYS}


def effective(
    name: str,
    values: Mapping[str, Any],
    path: str | None = None,
    *,
    flag: Any = None,  # noqa: ANN401 - the value of any key
    environ: Mapping[str, str] = os.environ,
) -> Setting:
    """Return the value of a key: of the flag, the environment, the file, or the default.

    `values` are the values of the file at `path`, by their whole names.
    """
    key = _BY_NAME[name]
    if flag is not None:
        return Setting(flag, "flag", key.flag)
    if key.variable in environ:
        value = key.from_variable(environ[key.variable])
        if value is not None:
            return Setting(value, "environment", key.variable)
    if name in values:
        return Setting(values[name], "file", path or "")
    if key.fallback_variable in environ:
        return Setting(environ[key.fallback_variable], "environment", key.fallback_variable)
    return Setting(key.default, "default")
