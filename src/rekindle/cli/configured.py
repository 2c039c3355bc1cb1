"""Apply the configuration file to a command. `rekindle run` does so itself, without failing."""

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rekindle.configuration.location import existing_configuration_path
from rekindle.errors import BadConfiguration, UsageError

if TYPE_CHECKING:
    from rekindle.configuration.file import Configuration, ConfigurationProblem

NO_COLOR_FROM_FILE = ("NO_COLOR", "configured")
"""The variable that all printing code reads, and its value if the file has `color = false`."""
_MASKING = frozenset({"list", "pick", "resume", "search", "show"})
"""The commands whose masking `redact` decides. It does not decide on exports, which leave home."""
_LENIENT = frozenset({"complete", "completion", "config", "doctor"})
"""The commands that work with a configuration file that has errors."""


def apply_configuration(command: str, parser: argparse.ArgumentParser) -> "Configuration | None":
    """Make the values of the file the defaults of a command; return the file, None without one.

    Errors are not raised here: `--help` works with any file. See `report_problems`.
    """
    if existing_configuration_path() is None:
        return None
    from rekindle.configuration.file import load_configuration
    from rekindle.configuration.keys import effective

    configuration = load_configuration()
    if configuration is None:
        return None
    values = configuration.values
    if effective("color", values).source == "file" and not values["color"]:
        name, value = NO_COLOR_FROM_FILE
        os.environ[name] = value
    if command in _MASKING and "redact" in values:
        parser.set_defaults(redact=values["redact"])
    return configuration


def report_problems(command: str, configuration: "Configuration") -> None:
    """Print warnings about the file. Raises BadConfiguration if it has an error."""
    if command in _LENIENT:
        return
    from rekindle.cli.formatting import one_line
    from rekindle.cli.messages import print_warning

    for problem in configuration.problems:
        text = one_line(configuration.described(problem))
        if problem.is_error:
            raise BadConfiguration(f"{text}; correct the file: `rekindle config` checks it")
        print_warning(text)


def problems_of(configuration: "Configuration") -> "Iterator[ConfigurationProblem]":
    """Return all problems of the file, each with the file's path."""
    from rekindle.cli.agent_lookup import names_without_command
    from rekindle.configuration.file import ConfigurationProblem
    from rekindle.store.address import configured_address

    for problem in configuration.problems:
        yield problem._replace(text=configuration.described(problem))
    for name in names_without_command():
        yield ConfigurationProblem(f"{configuration.path}: `agents.{name}` needs a `command`")
    try:
        configured_address()
    except UsageError as error:
        yield ConfigurationProblem(str(error))
