"""Running scenarios, and judging what only the whole of them shows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.conformance.report import Fault, Finding, Verdict, is_failure
from rekindle.conformance.requirements import SCENARIOS as NAMES
from rekindle.conformance.rules import fields, frames, names, responses, turns, updates
from rekindle.conformance.scenarios import SCENARIOS
from rekindle.conformance.session_runner import CannotBeChecked, Examiner, Settings, Stopped
from rekindle.conformance.trace import Line
from rekindle.jsonvalue import as_object, as_str
from rekindle.text.redact.secrets import mask

GREETING, WIRE = "greeting", "wire"


_UNSEEN = {
    "turn.reason": "no turn says why it ended",
    "turn.message-ids": "messages have no ids",
    "turn.asking": "nothing was asked",
}
_IsAbout = Callable[[Line], bool]
_Judge = Callable[[Sequence[Line]], Iterator[Fault]]


class Report(Struct, frozen=True, kw_only=True):
    """What an examination has found."""

    protocol: int
    agent: tuple[str, str]
    """Its name and version, as it says; empty if it does not."""
    findings: tuple[Finding, ...]
    seconds: float
    obstacle: str = ""
    """Why nothing more could be judged."""
    no_turns: str = ""
    """Why the agent cannot run a turn, if that is so."""

    @property
    def is_passed(self) -> bool:
        """Whether nothing fails that must not."""
        return not self.obstacle and not any(map(is_failure, self.findings))


async def examine(
    settings: Settings,
    only: Collection[str] = (),
    on_scenario: Callable[[int, int], None] | None = None,
) -> Report:
    """Examine an agent. Raises AgentNotStarted.

    `only` are the scenarios to run, all if there are none. `on_scenario` is told how many are
    done, of how many.
    """
    it = Examiner(settings)
    chosen = [name for name in SCENARIOS if not only or name in only] or [GREETING]
    obstacle = ""
    try:
        for done, name in enumerate(chosen):
            if on_scenario is not None:
                on_scenario(done, len(chosen))
            obstacle = obstacle or await _run(it, name)
            if obstacle:
                it.ledger.end(name, obstacle)
        await it.tidy_up()
    finally:
        await it.end()
    judge_all(it)
    for name in chosen:
        it.ledger.end(name, "it was not put to the test")
    it.ledger.end(WIRE, "nothing of the kind came", Verdict.NOT_SEEN)
    wanted = {*(only or NAMES), WIRE}
    return Report(
        protocol=settings.protocol,
        agent=_identity(it),
        findings=tuple(f for f in it.ledger.findings() if f.requirement.scenario in wanted),
        seconds=it.seconds,
        obstacle=mask(obstacle),
        no_turns=mask(it.no_turns),
    )


async def _run(it: Examiner, name: str) -> str:
    """Run a scenario; return why no other can be run, if that is so."""
    try:
        if name != GREETING:
            await it.ready()
        await SCENARIOS[name](it)
    except Stopped as stopped:
        it.ledger.end(name, stopped.reason, stopped.verdict)
    except CannotBeChecked as error:
        it.ledger.end(name, str(error))
        return str(error)
    return ""


def judge_all(it: Examiner) -> None:
    """Judge what went over the wire in all scenarios, as far as there was any of it."""
    for peer in it.peers:
        heard = [line for line in peer.lines if not line.is_sent]
        for name, (is_about, judge) in _of_the_wire(it).items():
            if any(map(is_about, heard)):
                it.ledger.judge(name, judge(peer.lines))
        asked = [answer for other, answer in it.asked if other is peer]
        if asked:
            it.ledger.judge("wire.answered", frames.unanswered(asked, peer.in_words()))
    if len(it.opened) > 1:
        it.ledger.judge("session.unique", responses.shared_ids(it.opened))
    if any(answer.is_refused for answer in it.unknown):
        it.ledger.judge("session.unknown-code", _wrong_codes(it))
    _judge_turns(it)


def _of_the_wire(it: Examiner) -> dict[str, tuple[_IsAbout, _Judge]]:
    """Return what is judged of all lines, each with what it is about, and by whom."""
    protocol, known = it.protocol, _sessions(it)
    calls = _of_kinds(names.CALLS)
    return {
        "wire.json": (lambda line: bool(line.data.strip()), frames.not_messages),
        "wire.frames": (_is_message, frames.bad_frames),
        "wire.once": (lambda line: line.is_answer, frames.strange_answers),
        "wire.ids": (lambda line: line.is_request, partial(frames.bad_ids, protocol=protocol)),
        "wire.capabilities": (
            _is_message,
            partial(frames.unasked_capabilities, protocol=protocol),
        ),
        "wire.methods": (lambda line: bool(line.method), frames.unknown_methods),
        "wire.fields": (_is_message, partial(fields.extra_fields, protocol=protocol)),
        "wire.kinds": (_is_update, partial(frames.unknown_kinds, protocol=protocol)),
        "wire.arrays": (frames.has_arrays, frames.null_arrays),
        "wire.sessions": (_is_update, partial(frames.strange_sessions, known=known)),
        "wire.tool-calls": (calls, partial(updates.bad_tool_calls, protocol=protocol)),
        "wire.titles": (calls, partial(updates.untitled_calls, protocol=protocol)),
        "wire.plans": (_of_kinds(names.PLANS), partial(updates.bad_plans, protocol=protocol)),
        "wire.terminals": (_of_kinds(names.TERMINALS), updates.bad_terminals),
        "wire.info": (
            _of_kinds({methods.SESSION_INFO_UPDATE}),
            partial(updates.bad_information, protocol=protocol),
        ),
        "wire.questions": (_is_question, partial(updates.bad_questions, protocol=protocol)),
        "turn.asking": (_is_question, updates.silent_questions),
    }


def _is_message(line: Line) -> bool:
    return bool(line.message)


def _is_update(line: Line) -> bool:
    return line.method == methods.UPDATE


def _is_question(line: Line) -> bool:
    return line.method == methods.REQUEST_PERMISSION


def _of_kinds(kinds: Collection[str]) -> _IsAbout:
    return lambda line: line.kind in kinds


def _judge_turns(it: Examiner) -> None:
    judge, had = it.ledger.judge, it.turns
    for turn in had:
        if it.protocol == 1 or isinstance(turn.stop_reason, str):
            judge("turn.reason", turns.no_reason(turn, it.protocol))
        if it.protocol > 1:
            judge("turn.why", turns.unexplained(turn))
            judge("turn.states", turns.bad_states(turn))
            judge("turn.message-id", turns.bad_insertion(turn))
    if had and (it.protocol > 1 or any(turn.has_ids for turn in had)):
        judge("turn.message-ids", turns.shared_message_ids(had, it.protocol))
    for name, reason in _UNSEEN.items():
        if had:
            it.ledger.unseen(name, reason)


def _wrong_codes(it: Examiner) -> Iterator[Fault]:
    for answer in it.unknown:
        if answer.is_refused:
            yield from responses.not_refused(answer, RESOURCE_NOT_FOUND, "an unknown session")


def _sessions(it: Examiner) -> set[str]:
    """Return the ids that were given or asked for."""
    given = {as_str(answer.result.get("sessionId")) or "" for answer in it.opened}
    return given | {line.session_id for line in _sent(it) if line.session_id}


def _sent(it: Examiner) -> Sequence[Line]:
    return [line for peer in it.peers for line in peer.lines if line.is_sent]


def _identity(it: Examiner) -> tuple[str, str]:
    told = it.greeting.result if it.greeting else {}
    info = as_object(told.get("agentInfo" if it.protocol == 1 else "info"))
    return as_str(info.get("name")) or "", as_str(info.get("version")) or ""
