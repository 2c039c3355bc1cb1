"""Each imitated agent fails exactly the requirements that its behaviour breaks.

The example agent passes, and so does Rekindle in front of every imitated agent.
"""

import os
from pathlib import Path

import pytest

from agent_imitations import AGENTS
from conformance_runs import (
    EVERYTHING,
    behind_rekindle,
    check,
    describe_failures,
    example,
    failed,
    imitation,
)
from rekindle.conformance import Verdict, is_failure
from stdio_client import EXAMPLE_AGENT

# All of them exit on invalid JSON, and accept any folder and any cursor.
FAILED_BY_ALL = {"greeting.parse", "session.relative"}
LIST_PARAMS = {"list.relative", "list.cursor"}
ECHOED_VERSION = {"greeting.higher", "greeting.odd"}
CODES = {"session.unknown-code"}
ANY_DIRECTORIES = {"roots.relative", "roots.empty"}

FAILS: dict[str, set[str]] = {
    "opencode": LIST_PARAMS | CODES,
    "codex": LIST_PARAMS | CODES | {"replay.whole"},
    "claude": LIST_PARAMS | ANY_DIRECTORIES | {"wire.fields"},
    "claude-old": LIST_PARAMS | ANY_DIRECTORIES | {"delete.twice", "delete.unknown"},
    "gemini": CODES | {"session.params", "replay.whole", "replay.answer"},
    "qwen": LIST_PARAMS | {"session.params", "wire.methods"},
    "copilot": LIST_PARAMS,
    "pi": LIST_PARAMS | CODES,
    "vibe": LIST_PARAMS | CODES,
    "hermes": LIST_PARAMS
    | {"session.unknown", "replay.unknown", "replay.same-ids", "resume.silent", "resume.unknown"},
    "fast-agent": LIST_PARAMS | ECHOED_VERSION | {"list.times", "resume.silent"},
    "agentao": CODES | {"replay.killed"},
    "bare-sdk": {"greeting.info"},
    "pydantic": LIST_PARAMS | CODES | {"resume.works", "close.works", "fork.works"},
    "deepagents": ECHOED_VERSION,
    "droid": {"wire.leaks"},
    "early-updates": LIST_PARAMS,
    "echo": LIST_PARAMS,
    "banner": LIST_PARAMS | {"wire.json"},
    "traffic": LIST_PARAMS | {"wire.methods"},
    "renumbering": {"session.unique"},
    "silent-list": {"wire.answered"},
    "error-list": {"list.works"},
    "no-exit": LIST_PARAMS | {"wire.exits"},
    "amnesia": {"replay.works", "replay.unknown"},
    "one-chunk": CODES | {"replay.whole"},
    "wrong-session": {"resume.goes-on", "resume.unknown", "wire.fields"},
    "zone": LIST_PARAMS | CODES | {"list.times"},
    "auth": LIST_PARAMS,
}

# Each check takes some seconds. REKINDLE_CHECKS=all checks every agent in both versions.
ALL = {(name, version) for name in AGENTS for version in (1, 2)}
SOME = {
    ("codex", 1),
    ("wrong-session", 1),
    ("bare-sdk", 1),
    ("claude", 2),
    ("vibe", 2),
    ("auth", 2),
    ("droid", 1),
    ("droid", 2),
}
RUNS_ALL = os.environ.get("REKINDLE_CHECKS") == "all"
BEHIND = ALL if RUNS_ALL else SOME


def login(name: str) -> str | None:
    return "login" if name == "auth" else None


def late_titles(name: str) -> set[str]:
    """Return the requirement that an agent breaks if it sends titles after its answer."""
    return {"cancel.silent"} if AGENTS[name].late_title else set()


def test_every_imitated_agent_has_expectations() -> None:
    assert FAILS.keys() == AGENTS.keys()


@pytest.mark.one_of(6)
@pytest.mark.parametrize("name", AGENTS)
def test_bare_agent_fails_the_expected_requirements(name: str, tmp_path: Path) -> None:
    report = check(
        imitation(name, tmp_path),
        tmp_path,
        login=login(name),
        quiet_seconds=0.3 if name == "gemini" else 0.05,
        timeout=1.0 if name == "silent-list" else 20.0,
        grace=0.3 if name == "no-exit" else 10.0,
    )
    assert report.obstacle == ""
    expected = FAILS[name] | FAILED_BY_ALL | late_titles(name)
    assert failed(report) == expected, describe_failures(report)


@pytest.mark.one_of(1 if RUNS_ALL else 7)
@pytest.mark.parametrize(("name", "protocol"), sorted(BEHIND))
def test_rekindle_passes_in_front_of_every_agent(name: str, protocol: int, tmp_path: Path) -> None:
    # Without --strict, Rekindle forwards every line, even a banner.
    strictness = ["--strict"] if name == "banner" else []
    command = behind_rekindle(tmp_path, imitation(name, tmp_path), *strictness)
    report = check(command, tmp_path, protocol=protocol, login=login(name))
    assert report.is_passed, describe_failures(report)
    # These depend on lines that only the agent can send.
    of_agent = {"greeting.parse", "greeting.info", "wire.methods"} | late_titles(name)
    assert failed(report) <= of_agent, describe_failures(report)
    assert not unchecked(report) & {"replay", "resume", "close", "fork", "delete", "list", "cancel"}


def unchecked(report: object) -> set[str]:
    """Return the scenarios with requirements that were skipped or not offered."""
    left_out = {Verdict.SKIPPED, Verdict.NOT_OFFERED}
    results = getattr(report, "results", ())
    return {it.requirement.scenario for it in results if it.verdict in left_out}


NEWER = "load,resume,list,close,delete,fork,archive,title,status,systemPrompt,rewind"
FORMS = {
    "1": (1, ["--offer", NEWER]),
    "2": (2, ["--protocol", "2", "--offer", NEWER]),
}


@pytest.mark.parametrize("form", FORMS)
def test_example_agent_passes(form: str, tmp_path: Path) -> None:
    protocol, options = FORMS[form]
    command = example(tmp_path, *options)
    report = check(command, tmp_path, protocol=protocol, prompt=EVERYTHING)
    assert failed(report) == set(), describe_failures(report)
    assert report.is_passed
    # It has no logins, options in version 1, images, directories, and cannot edit a prompt.
    assert unchecked(report) <= {"greeting", "session", "turn", "roots", "rewind"}
    recorded = [it for it in report.results if it.requirement.scenario == "recorded"]
    assert recorded
    assert {it.verdict for it in recorded} == {Verdict.RECORDED}


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        (1, ["--protocol", "2", "--only-v2", "--offer", NEWER]),
        (1, ["--protocol", "2", "--only-v2", "--early-updates"]),
        (1, []),
        (1, ["--offer", NEWER]),
        (2, ["--no-message-ids", "--echo"]),
        (2, ["--protocol", "2"]),
        (2, ["--protocol", "2", "--offer", NEWER]),
        (2, ["--offer", NEWER]),
    ],
    ids=["newer 1-2", "1-2", "1-1", "newer 1-1", "2-1", "2-2", "newer 2-2", "newer 2-1"],
)
def test_rekindle_passes_in_front_of_the_example_agent(
    protocol: int, options: list[str], tmp_path: Path
) -> None:
    command = behind_rekindle(tmp_path, example(tmp_path, *options))
    report = check(command, tmp_path, protocol=protocol, prompt=EVERYTHING)
    assert failed(report) == set(), describe_failures(report)
    assert report.is_passed
    assert not unchecked(report) & {"archive", "title", "status", "rewind", "batch", "replay"}


def test_banner_is_forwarded_without_strict(tmp_path: Path) -> None:
    command = behind_rekindle(tmp_path, imitation("banner", tmp_path))
    report = check(command, tmp_path, only=("greeting",))
    assert {it.requirement.name for it in report.results if is_failure(it)} == {"wire.json"}


@pytest.mark.parametrize("name", ["fast-agent", "deepagents"])
def test_v1_agent_that_claims_v2_fails(name: str, tmp_path: Path) -> None:
    report = check(imitation(name, tmp_path), tmp_path, protocol=2)
    assert "the form of version 1" in report.obstacle
    assert "greeting.shape" in failed(report)


def test_v1_agent_cannot_be_checked_in_v2(tmp_path: Path) -> None:
    report = check(imitation("pi", tmp_path), tmp_path, protocol=2)
    assert report.obstacle == "it supports version 1 of ACP, not 2"
    assert (failed(report), report.is_passed) == (set(), False)


def test_agent_that_needs_a_login_names_the_option(tmp_path: Path) -> None:
    report = check(imitation("auth", tmp_path), tmp_path)
    assert report.obstacle == "it requires a login first; use --login login"


def test_requirements_that_need_a_turn_are_skipped_without_one(tmp_path: Path) -> None:
    report = check(example(tmp_path, "--offer", "all"), tmp_path, prompt="error")
    verdicts = {it.requirement.name: it for it in report.results}
    assert verdicts["replay.whole"].verdict is Verdict.SKIPPED
    assert "failed, as the prompt asked" in verdicts["replay.whole"].reason
    assert verdicts["close.works"].verdict is Verdict.PASS
    assert failed(report) == set(), describe_failures(report)


def test_single_scenario_skips_without_a_turn(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    report = check(command, tmp_path, only=("cancel",), prompt="error", long_prompt="error")
    assert failed(report) == set(), describe_failures(report)
    assert "cannot run a turn" in report.no_turns


def test_single_scenario_needs_the_login_too(tmp_path: Path) -> None:
    report = check(imitation("auth", tmp_path), tmp_path, only=("list",))
    assert report.obstacle == "it requires a login first; use --login login"
    assert failed(report) == set(), describe_failures(report)


def test_fork_is_not_blamed_for_lost_history(tmp_path: Path) -> None:
    command = (*EXAMPLE_AGENT, "--offer", "all")
    report = check(command, tmp_path, only=("fork",))
    verdicts = {it.requirement.name: it.verdict for it in report.results}
    assert verdicts["fork.source"] is Verdict.SKIPPED
    assert failed(report) == set(), describe_failures(report)
