"""`session/rewind` and `session/edit_prompt`: a proposal, which agents announce as an extension.

The names `rewind` and `edit_prompt` are expected anywhere in the capabilities, or in their `_meta`.
"""

from collections.abc import Iterator

from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.conformance import digest
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import replays, responses, vocabulary
from rekindle.conformance.rules.replays import OpeningTrace
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.reopen import incomplete_turn
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange, TraceLine
from rekindle.jsonvalue import as_object, as_str

_REWIND, _EDIT = "session/rewind", "session/edit_prompt"
_TURNS = 3
_NO_IDS = "messages have no ids"
_CANNOT_REPLAY = "the agent cannot replay a session"


async def check_rewind(runner: SessionRunner) -> None:
    """Check how a session is rewound, and how a prompt is edited."""
    if not _is_announced(runner.capabilities, "rewind"):
        raise ScenarioStopped("`session/rewind` is not announced", Verdict.NOT_OFFERED)
    params = {"sessionId": unknown_id(), "toMessageId": unknown_id()}
    unknown = await runner.probe(_REWIND, params)
    faults = responses.not_refused(unknown, RESOURCE_NOT_FOUND, "an unknown session")
    runner.results.check("rewind.unknown", faults)
    session = await runner.new_session(runner.make_folder())
    prompts = [f"{runner.settings.prompt} ({number})" for number in range(_TURNS)]
    ids = [await _run_turn(runner, session, prompt) for prompt in prompts]
    missing = await runner.probe(_REWIND, {"sessionId": session.id, "toMessageId": unknown_id()})
    faults = responses.not_refused(missing, what="a message that the session does not have")
    runner.results.check("rewind.message", faults)
    if not ids[1]:
        raise ScenarioStopped(_NO_IDS, Verdict.NOT_SEEN)
    opening = await _check_rewound(runner, session, ids[1], prompts)
    if _is_announced(runner.capabilities, "edit_prompt"):
        await _check_edit(runner, session, prompts, opening)
    else:
        runner.results.not_offered("rewind.edit", "`session/edit_prompt` is not announced")


def _is_announced(value: object, wanted: str) -> bool:
    for name, it in as_object(value).items():
        if name == wanted:
            return it not in (None, False)
        if _is_announced(it, wanted):
            return True
    return False


async def _run_turn(runner: SessionRunner, session: CheckedSession, prompt: str) -> str:
    """Run a turn; return the id of its first message, or an empty string."""
    turn = await runner.prompt(session.id, prompt)
    if not turn.is_complete:
        raise ScenarioStopped(f"a turn could not be run: {turn.describe()}")
    session.items += digest.digest_turn(prompt, turn.updates)
    given = as_str(turn.exchange.result.get("messageId"))
    ids = [as_str(it.update.get("messageId")) for it in turn.updates]
    return given or next((it for it in ids if it), "")


async def _check_rewound(
    runner: SessionRunner, session: CheckedSession, message_id: str, prompts: list[str]
) -> OpeningTrace | None:
    """Rewind a session, and return its replay, if the agent can replay."""
    peer = await runner.processes.current()
    since = len(peer.lines)
    params = {"sessionId": session.id, "toMessageId": message_id}
    exchange = await runner.call(_REWIND, params)
    if not runner.results.check("rewind.works", responses.not_an_object(exchange)):
        raise ScenarioStopped("`session/rewind` does not work")
    lines = peer.lines[since:]
    runner.results.check("rewind.notified", _missing_notice(exchange, lines, session.id))
    turn = await runner.prompt(session.id, runner.settings.prompt)
    runner.results.check("rewind.goes-on", incomplete_turn(turn))
    if "replay" not in runner.offered:
        runner.results.not_offered("rewind.history", _CANNOT_REPLAY)
        return None
    opening = await _replay(runner, session)
    faults = _wrong_history(opening, prompts, runner.protocol)
    runner.results.check("rewind.history", faults)
    return opening


def _missing_notice(exchange: Exchange, lines: list[TraceLine], session_id: str) -> Iterator[Fault]:
    before = lines[: lines.index(exchange.response)] if exchange.response in lines else lines
    if not any(
        it.kind == vocabulary.HISTORY_TRUNCATED and it.session_id == session_id for it in before
    ):
        yield Fault("history_truncated was not sent before the answer", exchange.lines)


async def _replay(runner: SessionRunner, session: CheckedSession) -> OpeningTrace:
    await runner.processes.restart(kill=False)
    return await runner.reopen(session, replayed=True)


def _wrong_history(opening: OpeningTrace, prompts: list[str], protocol: int) -> Iterator[Fault]:
    """Find prompts that should be gone, or are lost. The second of them may be either.

    In version 2 the agent decides how much it keeps.
    """
    said = " ".join(it.text for it in replays.user_turns(opening))
    if prompts[-1] in said:
        yield Fault("a message after the point is still replayed", opening.exchange.lines)
    if protocol == 1 and prompts[0] not in said:
        yield Fault("a message before the point is lost", opening.exchange.lines)


# -- editing ----------------------------------------------------------------------------


async def _check_edit(
    runner: SessionRunner,
    session: CheckedSession,
    prompts: list[str],
    opening: OpeningTrace | None,
) -> None:
    message_id = _find_prompt(opening)
    if not message_id:
        runner.results.not_seen("rewind.edit", _NO_IDS)
        return
    edited = f"{runner.settings.prompt} (edited)"
    blocks = [{"type": "text", "text": edited}]
    peer = await runner.processes.current()
    params = {"sessionId": session.id, "messageId": message_id, "content": blocks}
    turn = await runner.finish_turn(peer, peer.request(_EDIT, params))
    runner.results.check("rewind.edit", _failed_edit(turn))
    if turn.is_complete and "replay" in runner.offered:
        opening = await _replay(runner, session)
        said = " ".join(it.text for it in replays.user_turns(opening))
        is_lost = runner.protocol == 1 and edited not in said
        if is_lost or prompts[0] in said:
            fault = Fault("the edited prompt has not replaced the old one", opening.exchange.lines)
            runner.results.check("rewind.edit", [fault])


def _find_prompt(opening: OpeningTrace | None) -> str:
    """Return the id of the first message of the user in a replay, or an empty string."""
    history = opening.history if opening is not None else []
    ids = [
        as_str(it.update.get("messageId")) for it in history if it.kind in vocabulary.USER_MESSAGES
    ]
    return next((it for it in ids if it), "")


def _failed_edit(turn: TurnTrace) -> Iterator[Fault]:
    if not turn.is_complete:
        yield Fault(f"session/edit_prompt does not work: {turn.describe()}", turn.exchange.lines)
