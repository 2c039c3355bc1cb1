"""The suite can fail: each bare test agent fails where its quirk says so, and nowhere else.

And it can be passed: by the example agent, and by Rekindle before every test agent.
"""

import os
from pathlib import Path

import pytest

from conformance_runs import EVERYTHING, behind_rekindle, examined, example, failed, quirky, reasons
from agent_imitations import AGENTS
from rekindle.conformance import Verdict, is_failure
from stdio_client import EXAMPLE_AGENT

# What all of them do: they die of what is no JSON, and take any folder and any cursor.
CARELESS = {"greeting.parse", "session.relative"}
LISTING = {"list.relative", "list.cursor"}
ECHOING = {"greeting.higher", "greeting.odd"}
CODES = {"session.unknown-code"}
TAKING_ANY_ROOTS = {"roots.relative", "roots.empty"}

FAILS: dict[str, set[str]] = {
    "opencode": LISTING | CODES,
    "codex": LISTING | CODES | {"replay.whole"},
    "claude": LISTING | TAKING_ANY_ROOTS | {"wire.fields"},
    "claude-old": LISTING | TAKING_ANY_ROOTS | {"delete.twice", "delete.unknown"},
    "gemini": CODES | {"session.params", "replay.whole", "replay.answer"},
    "qwen": LISTING | {"session.params", "wire.methods"},
    "copilot": LISTING,
    "pi": LISTING | CODES,
    "vibe": LISTING | CODES,
    "hermes": LISTING
    | {"session.unknown", "replay.unknown", "replay.same-ids", "resume.silent", "resume.unknown"},
    "fast-agent": LISTING | ECHOING | {"list.times", "resume.silent"},
    "agentao": CODES | {"replay.killed"},
    "bare-sdk": set(),
    "pydantic": LISTING | CODES | {"resume.works", "close.works", "fork.works"},
    "deepagents": ECHOING,
    "early-updates": LISTING,
    "echo": LISTING,
    "banner": LISTING | {"wire.json"},
    "traffic": LISTING | {"wire.methods"},
    "renumbering": {"session.unique"},
    "silent-list": {"wire.answered"},
    "error-list": {"list.works"},
    "no-exit": LISTING,
    "amnesia": {"replay.works", "replay.unknown"},
    "one-chunk": CODES | {"replay.whole"},
    "wrong-session": {"resume.goes-on", "resume.unknown", "wire.fields"},
    "zone": LISTING | CODES | {"list.times"},
    "auth": LISTING,
}

# Each takes some seconds. REKINDLE_CHECKS=all examines every agent in both versions.
ALL = {(name, version) for name in AGENTS for version in (1, 2)}
SOME = {
    ("codex", 1),
    ("wrong-session", 1),
    ("bare-sdk", 1),
    ("claude", 2),
    ("vibe", 2),
    ("auth", 2),
}
BEHIND = ALL if os.environ.get("REKINDLE_CHECKS") == "all" else SOME


def login(name: str) -> str | None:
    return "login" if name == "auth" else None


def test_every_quirk_is_expected_to_fail_somewhere_or_nowhere() -> None:
    assert FAILS.keys() == AGENTS.keys()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", AGENTS)
def test_a_bare_agent_fails_where_its_quirk_says(name: str, tmp_path: Path) -> None:
    report = examined(
        quirky(name, tmp_path),
        tmp_path,
        login=login(name),
        settling=0.3 if name == "gemini" else 0.05,
        patience=1.0 if name == "silent-list" else 20.0,
    )
    assert report.obstacle == ""
    assert failed(report) == FAILS[name] | CARELESS, reasons(report)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("name", "protocol"), sorted(BEHIND))
def test_rekindle_passes_before_every_agent(name: str, protocol: int, tmp_path: Path) -> None:
    # Nothing is kept from a client that is not told to be strict, not even a banner.
    strictness = ["--strict"] if name == "banner" else []
    command = behind_rekindle(tmp_path, quirky(name, tmp_path), *strictness)
    report = examined(command, tmp_path, protocol=protocol, login=login(name))
    assert report.is_passed, reasons(report)
    # What the agent itself must answer, and what it says of its own accord.
    assert failed(report) <= {"greeting.parse", "wire.methods"}, reasons(report)
    assert not unjudged(report) & {"replay", "resume", "close", "fork", "delete", "list", "cancel"}


def unjudged(report: object) -> set[str]:
    """Return the scenarios in which something was skipped or not offered."""
    left_out = {Verdict.SKIPPED, Verdict.NOT_OFFERED}
    findings = getattr(report, "findings", ())
    return {it.requirement.scenario for it in findings if it.verdict in left_out}


FORMS = {
    "1": (1, ["--offer", "all"]),
    "2": (2, ["--protocol", "2", "--offer", "all"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_example_agent_passes(form: str, tmp_path: Path) -> None:
    protocol, options = FORMS[form]
    command = example(tmp_path, *options)
    report = examined(command, tmp_path, protocol=protocol, prompt=EVERYTHING)
    assert failed(report) == set(), reasons(report)
    assert unjudged(report) <= {"greeting", "session", "roots"}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        (1, []),
        (1, ["--protocol", "2", "--only-v2", "--early-updates"]),
        (2, ["--no-message-ids", "--echo"]),
        (2, ["--protocol", "2"]),
    ],
    ids=["1-1", "1-2", "2-1", "2-2"],
)
def test_rekindle_passes_before_the_example_agent(
    protocol: int, options: list[str], tmp_path: Path
) -> None:
    command = behind_rekindle(tmp_path, example(tmp_path, *options))
    report = examined(command, tmp_path, protocol=protocol, prompt=EVERYTHING)
    assert failed(report) == set(), reasons(report)


def test_a_banner_passes_through_unless_rekindle_is_strict(tmp_path: Path) -> None:
    command = behind_rekindle(tmp_path, quirky("banner", tmp_path))
    report = examined(command, tmp_path, only=("greeting",))
    assert {it.requirement.name for it in report.findings if is_failure(it)} == {"wire.json"}


@pytest.mark.parametrize("name", ["fast-agent", "deepagents"])
def test_an_agent_that_only_says_version_2_fails(name: str, tmp_path: Path) -> None:
    report = examined(quirky(name, tmp_path), tmp_path, protocol=2)
    assert "means version 1" in report.obstacle
    assert "greeting.shape" in failed(report)


def test_an_agent_without_version_2_cannot_be_checked_in_it(tmp_path: Path) -> None:
    report = examined(quirky("pi", tmp_path), tmp_path, protocol=2)
    assert report.obstacle == "it speaks version 1 of ACP, and not 2"
    assert (failed(report), report.is_passed) == (set(), False)


def test_an_agent_that_wants_to_be_signed_in_to_says_how(tmp_path: Path) -> None:
    report = examined(quirky("auth", tmp_path), tmp_path)
    assert report.obstacle == "it wants to be signed in to first: --login login does that"


def test_what_needs_a_turn_is_skipped_where_there_is_none(tmp_path: Path) -> None:
    report = examined(example(tmp_path, "--offer", "all"), tmp_path, prompt="error")
    verdicts = {it.requirement.name: it for it in report.findings}
    assert verdicts["replay.whole"].verdict is Verdict.SKIPPED
    assert "failed, as the prompt asked" in verdicts["replay.whole"].words
    assert verdicts["close.works"].verdict is Verdict.PASS
    assert failed(report) == set(), reasons(report)


def test_one_scenario_alone_is_judged_as_in_the_whole(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    report = examined(command, tmp_path, only=("cancel",), prompt="error", long_prompt="error")
    assert failed(report) == set(), reasons(report)
    assert "cannot run a turn" in report.no_turns


def test_one_scenario_alone_needs_to_be_signed_in_to_as_well(tmp_path: Path) -> None:
    report = examined(quirky("auth", tmp_path), tmp_path, only=("list",))
    assert report.obstacle == "it wants to be signed in to first: --login login does that"
    assert failed(report) == set(), reasons(report)


def test_a_fork_is_not_blamed_for_what_is_never_kept(tmp_path: Path) -> None:
    command = (*EXAMPLE_AGENT, "--offer", "all")
    report = examined(command, tmp_path, only=("fork",))
    verdicts = {it.requirement.name: it.verdict for it in report.findings}
    assert verdicts["fork.source"] is Verdict.SKIPPED
    assert failed(report) == set(), reasons(report)
