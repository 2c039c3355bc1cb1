"""The output of `--json` matches docs/reference/json.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_runs import run
from rekindle.cli.commands.stats import describe
from rekindle.model import (
    AgentIdentity,
    Archived,
    Counted,
    EntryBatch,
    Kind,
    Opened,
    Overview,
    SessionTotals,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.times import week_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
HOUR = 3_600_000_000
THEN = 1_700_000_000_000_000
AGENT = AgentIdentity(name="OpenCode", version="1.2", command=("opencode", "acp"))


def documented(command: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.partition(f"## `rekindle {command}`")[2]
    example = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert example
    return example[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    name = "ses_1"
    output = Opened(
        session_id=name,
        at_us=THEN,
        agent_session_id="native-7",
        agent=AGENT,
        cwd="/home/user/parser",
        directories=("/home/user/grammar",),
        parent_id="ses_0",
    )
    prompt = EntryBatch(
        session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=THEN + HOUR, data=b"{}"
    )
    with SqliteStore(path) as store:
        store.write(
            [
                output,
                Titled(
                    session_id=name, at_us=THEN, source=TitleSource.USER, title="Fix the parser"
                ),
                Counted(session_id=name, at_us=THEN, turns=1, messages=2),
                Archived(session_id=name, at_us=THEN + 24 * HOUR),
                prompt,
            ]
        )
    return path


def test_list_matches_the_documentation(path: Path) -> None:
    done = run("list", "--store", path, "--all", "--json")
    assert done.stdout == documented("list")


def test_show_has_the_fields_of_list(path: Path) -> None:
    shown = json.loads(run("show", "--store", path, "ses_1", "--json").stdout)
    assert len(shown.pop("conversation")) == 1
    assert [shown] == json.loads(documented("list"))


def test_every_list_field_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in json.loads(documented("list"))[0] if f"`{name}`" not in text] == []


def without_day_and_disk(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in {"bytes", "weeks"}}


def test_stats_match_the_documentation(path: Path) -> None:
    printed = json.loads(run("stats", "--store", path, "--json", "--weeks", "3").stdout)
    expected = json.loads(documented("stats"))
    assert list(printed) == list(expected)
    assert without_day_and_disk(printed) == without_day_and_disk(expected)
    assert [list(week) for week in printed["weeks"]] == [list(expected["weeks"][0])] * 3


def test_week_matches_the_documentation() -> None:
    whole = SessionTotals(sessions=1, turns=1, messages=2)
    found = Overview(
        whole=whole,
        archived=0,
        deleted=0,
        first_us=None,
        last_us=None,
        agents={"": whole},
        weeks={},
        size=0,
        unused=0,
    )
    described = describe(found, {week_of(THEN): whole})
    assert described["weeks"] == json.loads(documented("stats"))["weeks"]
    assert described["agents"][0]["name"] is None


def test_json_has_no_control_characters_and_no_nan(path: Path) -> None:
    """A terminal interprets control characters, and other programs reject NaN."""
    words = "findme \x9b31m \x9d0;title\x9c \x7f \u202e \u200f \u2028"
    line = json.dumps({"params": {"prompt": [{"type": "text", "text": words}]}})
    call = '{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","rawInput":[1e999]}}}'
    with SqliteStore(path) as store:
        store.write(
            [
                Opened(session_id="ses_2", at_us=THEN, agent=AgentIdentity(name=words), cwd=words),
                Titled(session_id="ses_2", at_us=THEN, source=TitleSource.USER, title=words),
                Counted(session_id="ses_2", at_us=THEN, turns=1),
                *(
                    EntryBatch(session_id="ses_2", side=side, kind=kind, at_us=THEN, data=data)
                    for side, kind, data in (
                        (Side.CLIENT, Kind.PROMPT, line.encode()),
                        (Side.AGENT, Kind.UPDATE, call.encode()),
                    )
                ),
            ]
        )
    for command in (
        ("list", "--json"),
        ("show", "ses_2", "--json"),
        ("search", "findme", "--json"),
        ("stats", "--json"),
        ("export", "ses_2", "--format", "json"),
    ):
        printed = run(command[0], "--store", path, *command[1:]).stdout
        assert not re.search(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028]", printed)
        assert json.loads(printed, parse_constant=pytest.fail)
    shown = json.loads(run("show", "--store", path, "ses_2", "--json").stdout)
    assert shown["title"] == words
    assert shown["conversation"][0]["items"][1]["rawInput"] == [None]
