import argparse

import pytest

from rekindle.cli.main import COMMANDS
from tools.command_reference import PAGE, page, section

REMEDY = "the help has changed: run `make docs`, or `python -m tools.command_reference`"


def test_page_is_what_the_help_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), REMEDY


def test_page_has_a_section_and_a_link_for_every_command() -> None:
    lines = page().splitlines()
    for name, summary in COMMANDS.items():
        assert f"## {name}" in lines
        assert any(line.startswith(f"| [`{name}`](#{name}) | {summary[:9]}") for line in lines)


def test_section_has_usage_examples_and_options() -> None:
    parser = argparse.ArgumentParser(
        prog="rekindle wash",
        description="Wash a <session>.\n\nIt may\nshrink.\n\nexample:\n  rekindle wash 3f2a\n",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="which one")
    parser.add_argument(
        "-t", "--heat", metavar="N", default=40, help="degrees | (default: %(default)s)"
    )
    parser.add_argument("--now", action="store_true", help="do not *wait*")
    parser.add_argument("--secret", help=argparse.SUPPRESS)
    assert "\n".join(section("wash", parser)) == EXPECTED


EXPECTED = r"""## wash

```text
rekindle wash [OPTIONS] [SESSION]
```

Wash a \<session>.

It may shrink.

Example:

```sh
rekindle wash 3f2a
```

| argument | |
|---|---|
| `SESSION` | which one |

| option | |
|---|---|
| `-t N`, `--heat N` | degrees \| (default: 40) |
| `--now` | do not \*wait\* |
"""


@pytest.mark.parametrize(
    ("nargs", "shown"), [(None, "FILE"), ("?", "[FILE]"), ("*", "[FILE …]"), ("+", "FILE …")]
)
def test_usage_shows_how_many_arguments_there_are(nargs: str | None, shown: str) -> None:
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("file", nargs=nargs)
    assert f"x [OPTIONS] {shown}" in section("x", parser)


def test_each_form_of_the_usage_has_its_line() -> None:
    parser = argparse.ArgumentParser(prog="x", usage="x FILE\n       x --all")
    assert "```text\nx FILE\nx --all\n```" in "\n".join(section("x", parser))
