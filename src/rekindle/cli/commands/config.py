"""Show every setting, and where its value comes from.

A flag has priority over an environment variable, the variable over the
configuration file, and the file over the default. The file is in TOML; the
page "Configuration file" of the documents describes its keys.

exit codes:
  0 the file has no errors, or does not exist     1 the file has errors

example:
  rekindle config
  rekindle config --edit
"""

import argparse
import os
import shlex
import subprocess
import sys
from itertools import starmap
from pathlib import Path
from typing import Any, cast

from rekindle.cli.configured import NO_COLOR_FROM_FILE, problems_of
from rekindle.cli.formatting import one_line, print_json, short_path
from rekindle.cli.messages import print_error, print_warning
from rekindle.cli.store_access import add_store_option
from rekindle.cli.terminal import paint
from rekindle.configuration.file import Configuration, ConfigurationProblem, load_configuration
from rekindle.configuration.keys import KEYS, Setting, effective, wait_text
from rekindle.configuration.location import VARIABLE, configuration_path
from rekindle.errors import RekindleError, UsageError
from rekindle.store.address import parse_address, platform_address
from rekindle.text.redact.recorded_command import MASK, mask_command
from rekindle.text.widths import pad, width

_GAP = "  "
_DEFAULT_EDITOR = "vi"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--path", action="store_true", help="print the path of the file only")
    which.add_argument(
        "--edit", action="store_true", help="edit the file with $VISUAL or $EDITOR, then check it"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the settings and the problems of the file; return 1 if it has errors."""
    path = configuration_path()
    if path is None and (arguments.path or arguments.edit):
        raise RekindleError(f"no configuration file is read: unset {VARIABLE}, or set HOME")
    if arguments.path:
        print(path)
        return 0
    if arguments.edit and path is not None:
        _edit(path)
    configuration = load_configuration()
    settings = {**_settings(arguments, configuration), **_agents(configuration)}
    problems = [*problems_of(configuration)] if configuration else []
    if arguments.json:
        print_json(_described(path, settings, problems, exists=configuration is not None))
    else:
        _print(path, settings, exists=configuration is not None)
        sys.stdout.flush()
        for problem in problems:
            print_problem = print_error if problem.is_error else print_warning
            print_problem(one_line(problem.text))
    return 1 if any(problem.is_error for problem in problems) else 0


def _edit(path: str) -> None:
    """Let the user edit the file. Its folder is created. Raises RekindleError."""
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _DEFAULT_EDITOR
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)  # noqa: S603 - the user's
    except (OSError, ValueError) as error:
        raise RekindleError(f"the editor {editor!r} does not start; set EDITOR") from error
    if done.returncode:
        raise RekindleError(f"the editor {editor!r} failed with exit code {done.returncode}")


def _settings(
    arguments: argparse.Namespace, configuration: Configuration | None
) -> dict[str, Setting]:
    """Return the settings that have a default, by their keys."""
    flags = {"store": arguments.store, "color": False if arguments.no_color else None}
    environ = {name: it for name, it in os.environ.items() if (name, it) != NO_COLOR_FROM_FILE}
    values = configuration.values if configuration else {}
    path = configuration.path if configuration else None
    settings = {
        key.name: effective(key.name, values, path, flag=flags.get(key.name), environ=environ)
        for key in KEYS
        if not any(part.isupper() for part in key.parts)
    }
    for name, setting in settings.items():
        if name.startswith("hooks.on_") and setting.value:
            settings[name] = setting._replace(value=list(mask_command(setting.value)))
    return settings | {"store": _store_setting(settings["store"])}


def _store_setting(setting: Setting) -> Setting:
    """Return the setting with the address that it means, without a password."""
    try:
        address = parse_address(setting.value) if setting.value else platform_address()
    except UsageError:
        return setting
    return setting._replace(value=str(address))


def _agents(configuration: Configuration | None) -> dict[str, Setting]:
    """Return the settings of agents, without secrets."""
    settings: dict[str, Setting] = {}
    for name, value in (configuration.values if configuration else {}).items():
        if name.startswith("agents."):
            is_command = name.endswith(".command")
            shown = list(mask_command(value)) if is_command else dict.fromkeys(value, MASK)
            settings[name] = Setting(shown, "file", configuration.path if configuration else "")
    return settings


def _described(
    path: str | None,
    settings: dict[str, Setting],
    problems: list[ConfigurationProblem],
    *,
    exists: bool,
) -> dict[str, Any]:
    return {
        "path": path,
        "exists": exists,
        "settings": [
            {"key": key, "value": it.value, "source": it.source, "origin": it.origin or None}
            for key, it in settings.items()
        ],
        "problems": [{"text": it.text, "isError": it.is_error} for it in problems],
    }


def _print(path: str | None, settings: dict[str, Setting], *, exists: bool) -> None:
    state = "" if exists else " (it does not exist)"
    print(f"configuration file: {'none' if path is None else f'{short_path(path)}{state}'}")
    rows = [("KEY", "VALUE", "FROM"), *starmap(_row, settings.items())]
    widths = [max(width(row[column]) for row in rows) for column in range(2)]
    for number, (key, value, source) in enumerate(rows):
        line = _GAP.join([pad(key, widths[0]), pad(value, widths[1]), source])
        print(paint(line, "" if number else "bold"))


def _row(key: str, setting: Setting) -> tuple[str, str, str]:
    is_named = setting.source in {"flag", "environment"}
    source = f"{setting.source} {setting.origin}" if is_named else setting.source
    return key, one_line(_shown(key, setting.value)), source


def _shown(key: str, value: object) -> str:
    match value:
        case None:
            return next(f"({it.default_text})" for it in KEYS if it.name == key)
        case bool():
            return str(value).lower()
        case float():
            return wait_text(value) if key == "run.detach" else f"{value:g}"
        case list():
            return shlex.join(cast("list[str]", value))
        case dict():
            return ", ".join(f"{name}={MASK}" for name in cast("dict[str, str]", value))
        case _:
            return short_path(str(value)) if key in {"store", "run.log"} else str(value)
