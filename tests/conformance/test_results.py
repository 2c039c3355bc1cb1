"""Results count each fault, and no rule raises an exception on arbitrary lines."""

from typing import Any

from hypothesis import given, strategies as st

from handmade_lines import ask, came
from rekindle.conformance import REQUIREMENTS, Verdict
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import CheckResults, Fault
from rekindle.conformance.rules.fields import UPDATES
from rekindle.conformance.session_runner import CheckSettings, SessionRunner
from rekindle.conformance.suite import apply_global_rules
from rekindle.conformance.trace import TraceLine, received

Json = dict[str, Any]


def test_equal_faults_are_counted() -> None:
    results = CheckResults(REQUIREMENTS)
    faults = [Fault("`steering`"), Fault("`colour`"), Fault("`steering`")]
    assert not results.check("wire.fields", faults)
    assert results.check("wire.fields", [])
    (result,) = results.results()
    assert result.reason == "`steering` (2 times); `colour`"
    assert [(it.message, it.times) for it in result.faults] == [("`steering`", 2), ("`colour`", 1)]


def test_faults_beyond_the_limit_are_only_counted() -> None:
    results = CheckResults(REQUIREMENTS)
    results.check("wire.json", [Fault(f"line {number}") for number in range(1000)])
    (result,) = results.results()
    assert (len(result.faults), result.omitted_faults) == (10, 990)
    assert result.reason.endswith("line 9; and 990 more")


def test_requirement_that_was_not_seen_does_not_pass() -> None:
    results = CheckResults(REQUIREMENTS)
    results.not_seen("wire.plans", "nothing of the kind came")
    (result,) = results.results()
    assert result.verdict is Verdict.NOT_SEEN


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = sorted({name for kinds in UPDATES.values() for it in kinds.values() for name in it})
fields = st.dictionaries(st.sampled_from(names), junk, max_size=6)
kinds = st.sampled_from(sorted(UPDATES[1] | UPDATES[2])) | junk
updates = st.builds(lambda kind, more: {"sessionUpdate": kind, **more}, kinds, fields)
params = st.builds(lambda update: {"sessionId": "s", "update": update}, updates | junk) | junk
calls = st.builds(
    lambda method, given, number: came(method=method, params=given, id=number),
    st.sampled_from(["session/update", "session/request_permission"]) | junk,
    params,
    junk,
)
answers = st.builds(lambda result: came(id=1, result=result), fields | junk)
lines = calls | answers | st.binary(max_size=20).map(received)


@given(st.lists(lines, max_size=6), st.sampled_from([1, 2]))
def test_no_rule_raises_on_arbitrary_lines(received_lines: list[TraceLine], protocol: int) -> None:
    runner = SessionRunner(CheckSettings(command=("x",), folder=None, protocol=protocol))  # type: ignore[arg-type]
    for method in ("initialize", "session/new", "session/list"):
        peer = Peer(0.0)
        peer.lines += [ask(1, method), *received_lines]
        runner.processes.peers.append(peer)
    apply_global_rules(runner)
    runner.results.results()
