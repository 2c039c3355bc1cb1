"""Running scenarios, and judging what only the whole of them shows."""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from rekindle.check.examiner import CannotBeChecked, Examiner, Settings, Stopped
from rekindle.check.judges import frames, shapes, turns, updates
from rekindle.check.requirements import SCENARIOS as NAMES
from rekindle.check.scenarios import SCENARIOS
from rekindle.check.traffic import Line
from rekindle.check.verdicts import Fault, Finding, is_failure
from rekindle.core.secrets import mask
from rekindle.wire import methods
from rekindle.wire.envelope import RESOURCE_NOT_FOUND, table, text

WIRE = "wire"


class Report(Struct, frozen=True, kw_only=True):
    """What an examination has found."""

    protocol: int
    agent: tuple[str, str]
    """Its name and version, as it says; empty if it does not."""
    findings: tuple[Finding, ...]
    seconds: float
    obstacle: str = ""
    """Why nothing more could be judged."""

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
    chosen = [name for name in SCENARIOS if not only or name in only] or ["greeting"]
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
    _judge_all(it)
    it.ledger.end(WIRE, "the agent has told none")
    wanted = {*(only or NAMES), WIRE}
    return Report(
        protocol=settings.protocol,
        agent=_identity(it),
        findings=tuple(f for f in it.ledger.findings() if f.requirement.scenario in wanted),
        seconds=it.seconds,
        obstacle=mask(obstacle),
    )


async def _run(it: Examiner, name: str) -> str:
    """Run a scenario; return why no other can be run, if that is so."""
    try:
        await SCENARIOS[name](it)
    except Stopped as stopped:
        it.ledger.end(name, stopped.reason, stopped.verdict)
    except CannotBeChecked as error:
        it.ledger.end(name, str(error))
        return str(error)
    it.ledger.end(name, "it did not come to that")
    return ""


def _judge_all(it: Examiner) -> None:
    """Judge what went over the wire in all scenarios."""
    judge, protocol = it.ledger.judge, it.protocol
    known = _sessions(it)
    for peer in it.peers:
        lines = peer.lines
        judge("wire.json", frames.not_messages(lines))
        judge("wire.frames", frames.bad_frames(lines))
        judge("wire.once", frames.strange_answers(lines))
        asked = [answer for other, answer in it.asked if other is peer]
        judge("wire.answered", frames.unanswered(asked, peer.in_words()))
        judge("wire.capabilities", frames.unasked_capabilities(lines))
        judge("wire.methods", frames.unknown_methods(lines))
        judge("wire.fields", frames.extra_fields(lines, protocol))
        judge("wire.kinds", frames.unknown_kinds(lines, protocol))
        judge("wire.arrays", frames.null_arrays(lines) if protocol > 1 else ())
        judge("wire.sessions", frames.strange_sessions(lines, known))
        _judge_what_was_seen(it, lines)
    judge("session.unique", shapes.shared_ids(it.opened))
    if it.unknown:
        judge("session.unknown-code", _wrong_codes(it))
    _judge_turns(it)


def _judge_what_was_seen(it: Examiner, lines: Sequence[Line]) -> None:
    """Judge what an agent may tell or not: of what was never told, nothing is known."""
    judge, protocol = it.ledger.judge, it.protocol
    seen = {line.kind or line.method for line in lines if not line.is_sent}
    if seen & {"tool_call", "tool_call_update"}:
        judge("wire.tool-calls", updates.bad_tool_calls(lines, protocol))
        judge("wire.titles", updates.untitled_calls(lines))
    if seen & {"plan", "plan_update"}:
        judge("wire.plans", updates.bad_plans(lines))
    if seen & {"terminal_update", "terminal_output_chunk"}:
        judge("wire.terminals", updates.bad_terminals(lines))
    if methods.SESSION_INFO_UPDATE in seen:
        judge("wire.info", updates.bad_information(lines, protocol))
    if methods.REQUEST_PERMISSION in seen:
        judge("wire.questions", updates.bad_questions(lines, protocol))
        judge("turn.asking", updates.silent_questions(lines))


def _judge_turns(it: Examiner) -> None:
    had = [turn for turn in it.turns if turn.answer.is_result and turn.end is not None]
    for turn in had:
        it.ledger.judge("turn.reason", turns.no_reason(turn, it.protocol))
        if it.protocol > 1:
            it.ledger.judge("turn.states", turns.bad_states(turn))
            it.ledger.judge("turn.message-id", turns.bad_insertion(turn))
    if had:
        it.ledger.judge("turn.message-ids", turns.shared_message_ids(had, it.protocol))


def _wrong_codes(it: Examiner) -> Iterator[Fault]:
    for answer in it.unknown:
        if answer.is_refused:
            yield from shapes.not_refused(answer, RESOURCE_NOT_FOUND, "an unknown session")


def _sessions(it: Examiner) -> set[str]:
    """Return the ids that were given or asked for."""
    given = {text(answer.result.get("sessionId")) or "" for answer in it.opened}
    return given | {line.session_id for line in _sent(it) if line.session_id}


def _sent(it: Examiner) -> Sequence[Line]:
    return [line for peer in it.peers for line in peer.lines if line.is_sent]


def _identity(it: Examiner) -> tuple[str, str]:
    told = it.greeting.result if it.greeting else {}
    info = table(told.get("agentInfo" if it.protocol == 1 else "info"))
    return text(info.get("name")) or "", text(info.get("version")) or ""
