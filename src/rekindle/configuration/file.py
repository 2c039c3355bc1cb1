"""Read the configuration file, and find its mistakes.

A mistake does not hide the other values: `rekindle run` uses every valid value.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from rekindle.configuration.keys import KEYS, ConfigurationKey
from rekindle.configuration.location import existing_configuration_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class ConfigurationProblem(NamedTuple):
    """A mistake in the file. An unknown key is no error: a newer Rekindle may know it."""

    text: str
    is_error: bool = True


class Configuration(NamedTuple):
    """The values of the file, by their whole names, such as `run.grace`."""

    path: str
    values: dict[str, Any]
    problems: tuple[ConfigurationProblem, ...] = ()

    def section(self, name: str) -> dict[str, Any]:
        """Return the values of a table, by the names that they have in it."""
        start = f"{name}."
        found = [key for key in self.values if key.startswith(start)]
        return {key.removeprefix(start): self.values[key] for key in found}

    def described(self, problem: ConfigurationProblem) -> str:
        """Return the text of a problem, with the path of the file."""
        return f"{self.path}: {problem.text}"


def load_configuration() -> Configuration | None:
    """Read the user's configuration file; return None if it does not exist. Raises nothing."""
    path = existing_configuration_path()
    return None if path is None else read_configuration(path)


def read_configuration(path: str) -> Configuration:
    """Read a configuration file. A file that cannot be read or parsed has one problem."""
    import tomllib  # noqa: PLC0415 - only where there is a file

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is a text
            table = tomllib.load(file)
    except OSError as error:
        return _unusable(path, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _unusable(path, f"is not text in UTF-8, from byte {error.start} on")
    except ValueError as error:
        # A TOMLDecodeError, or a number with too many digits.
        return _unusable(path, f"is not valid TOML: {error}")
    except RecursionError:
        return _unusable(path, "is nested too deeply")
    values: dict[str, Any] = {}
    problems = [*_read_table(table, (), values)]
    return Configuration(path, values, tuple(problems))


def _unusable(path: str, text: str) -> Configuration:
    return Configuration(path, {}, (ConfigurationProblem(f"the file {text}"),))


def _read_table(
    table: dict[str, Any], parents: tuple[str, ...], values: dict[str, Any]
) -> Iterator[ConfigurationProblem]:
    """Add the values of a table to `values`; yield its problems."""
    for name, value in table.items():
        parts = (*parents, name)
        shown = ".".join(parts)
        key = next((it for it in KEYS if _matches(it, parts) and len(it.parts) == len(parts)), None)
        if key is not None:
            try:
                values[shown] = key.kind.convert(value)
            except (ValueError, TypeError):
                yield ConfigurationProblem(f"`{shown}` must be {key.kind.expected}")
        elif not any(_matches(it, parts) for it in KEYS):
            text = f"unknown key `{shown}`: {_suggestion(parts)}"
            yield ConfigurationProblem(text, is_error=False)
        elif not isinstance(value, dict):
            fields = [".".join(it.parts[len(parts) :]) for it in KEYS if _matches(it, parts)]
            text = f"`{shown}` must be a table: write `[{shown}]`, and below it `{fields[0]} = …`"
            yield ConfigurationProblem(text)
        elif not _NAME.fullmatch(name):
            yield ConfigurationProblem(f"`{shown}`: a name has letters, digits, `-` and `_` only")
        else:
            yield from _read_table(cast("dict[str, Any]", value), parts, values)


def _matches(key: ConfigurationKey, parts: tuple[str, ...]) -> bool:
    """Return whether the name of a key begins with these parts."""
    pairs = zip(key.parts, parts, strict=False)
    return len(parts) <= len(key.parts) and all(own.isupper() or own == it for own, it in pairs)


def _suggestion(parts: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - seldom needed

    *table, name = parts
    keys = [tuple(_with_names_of(key, parts)) for key in KEYS]
    # The key may be in the wrong table.
    for known in ([key for key in keys if [*key[:-1]] == table], keys):
        by_name = {key[-1]: ".".join(key) for key in reversed(known)}
        if not table:
            by_name |= {key[0]: key[0] for key in keys}
        for near in get_close_matches(name, by_name, 1):
            return f"did you mean `{by_name[near]}`?"
    return "`rekindle config` lists the keys"


def _with_names_of(key: ConfigurationKey, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the parts of a key's name, with the user's names in their places."""
    for place, part in enumerate(key.parts):
        yield parts[place] if part.isupper() and place < len(parts) else part
