"""What is found is told once, with all that is wrong, and nothing of it makes a judge stumble."""

from typing import Any

from hypothesis import given, strategies as st

from handmade_lines import ask, came
from rekindle.conformance import REQUIREMENTS, Verdict
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault, Ledger
from rekindle.conformance.rules.fields import UPDATES
from rekindle.conformance.session_runner import Examiner, Settings
from rekindle.conformance.suite import judge_all
from rekindle.conformance.trace import Line, received

Json = dict[str, Any]


def test_what_is_wrong_is_told_once_and_counted() -> None:
    ledger = Ledger(REQUIREMENTS)
    faults = [Fault("`steering`"), Fault("`colour`"), Fault("`steering`")]
    assert not ledger.judge("wire.fields", faults)
    assert ledger.judge("wire.fields", [])
    (finding,) = ledger.findings()
    assert finding.words == "`steering` (2 times); `colour`"
    assert [(it.words, it.times) for it in finding.faults] == [("`steering`", 2), ("`colour`", 1)]


def test_of_very_many_the_first_are_told() -> None:
    ledger = Ledger(REQUIREMENTS)
    ledger.judge("wire.json", [Fault(f"line {number}") for number in range(1000)])
    (finding,) = ledger.findings()
    assert (len(finding.faults), finding.unnamed) == (10, 990)
    assert finding.words.endswith("line 9; and 990 more")


def test_what_was_not_seen_is_no_pass() -> None:
    ledger = Ledger(REQUIREMENTS)
    ledger.unseen("wire.plans", "nothing of the kind came")
    (finding,) = ledger.findings()
    assert finding.verdict is Verdict.NOT_SEEN


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = sorted({name for kinds in UPDATES.values() for it in kinds.values() for name in it})
fields = st.dictionaries(st.sampled_from(names), junk, max_size=6)
kinds = st.sampled_from(sorted(UPDATES[1] | UPDATES[2])) | junk
told = st.builds(lambda kind, more: {"sessionUpdate": kind, **more}, kinds, fields)
params = st.builds(lambda update: {"sessionId": "s", "update": update}, told | junk) | junk
calls = st.builds(
    lambda method, given, number: came(method=method, params=given, id=number),
    st.sampled_from(["session/update", "session/request_permission"]) | junk,
    params,
    junk,
)
answers = st.builds(lambda result: came(id=1, result=result), fields | junk)
lines = calls | answers | st.binary(max_size=20).map(received)


@given(st.lists(lines, max_size=6), st.sampled_from([1, 2]))
def test_no_judge_stumbles_over_what_agents_say(heard: list[Line], protocol: int) -> None:
    it = Examiner(Settings(command=("x",), folder=None, protocol=protocol))  # type: ignore[arg-type]
    for method in ("initialize", "session/new", "session/list"):
        peer = Peer(0.0)
        peer.lines += [ask(1, method), *heard]
        it.peers.append(peer)
    judge_all(it)
    it.ledger.findings()
