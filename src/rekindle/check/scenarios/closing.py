"""`session/close`: of a session at rest, and of one at work."""

from collections.abc import Iterator

from rekindle.check.examiner import Examiner, Stopped, Talk
from rekindle.check.judges import shapes
from rekindle.check.peer import Peer
from rekindle.check.scenarios.talking import TOO_SOON, begin_long, judge_cancelled, unknown_id
from rekindle.check.traffic import Answer, Line, updates
from rekindle.check.verdicts import Fault, Verdict
from rekindle.wire import methods


async def close(it: Examiner) -> None:
    """Judge closing."""
    await it.agent()
    if "close" not in it.offers:
        raise Stopped("`sessionCapabilities.close` is not offered", Verdict.NOT_OFFERED)
    unknown = await it.probe(methods.CLOSE, {"sessionId": unknown_id()})
    it.ledger.judge("close.unknown", shapes.not_an_object(unknown))
    idle = await it.new(it.folder())
    closed = await it.call(methods.CLOSE, {"sessionId": idle.id})
    if not it.ledger.judge("close.works", shapes.not_an_object(closed)):
        raise Stopped("`session/close` does not work")
    await _at_rest(it)
    await _at_work(it)


async def _at_rest(it: Examiner) -> None:
    talk = await it.talk()
    await it.call(methods.CLOSE, {"sessionId": talk.id})
    prompt = [{"type": "text", "text": it.settings.prompt}]
    refused = await it.probe(methods.PROMPT, {"sessionId": talk.id, "prompt": prompt})
    it.ledger.judge("close.frees", shapes.not_refused(refused, what="a prompt after the close"))
    if not {"replay", "resume"} & it.offers:
        it.ledger.skip("close.keeps", "the agent offers no way to open it again")
        return
    opening = await it.open(talk, replayed="replay" in it.offers)
    it.ledger.judge("close.keeps", shapes.not_an_object(opening.answer, or_null=True))


async def _at_work(it: Examiner) -> None:
    talk = await it.new(it.folder())
    peer, request = await begin_long(it, talk)
    asked = peer.request(methods.CLOSE, {"sessionId": talk.id})
    answer = await peer.answer(asked, it.settings.patience)
    it.asked.append((peer, answer))
    had = await it.finish(peer, request, is_cancelled=True)
    if not judge_cancelled(it, "close.cancels", had, asked.at):
        raise Stopped(TOO_SOON)
    await peer.settle(it.settings.settling)
    if it.protocol > 1 and answer.line is not None:
        it.ledger.judge("close.cancels", _ended_late(peer, had.end, answer))
        it.ledger.judge("close.silent", _told_late(peer, talk, answer))


def _ended_late(peer: Peer, end: Line | None, answer: Answer) -> Iterator[Fault]:
    if end is None or answer.line is None:
        return
    if peer.lines.index(end) > peer.lines.index(answer.line):
        words = "the turn was still running when `session/close` was answered"
        yield Fault(words, (*answer.lines, end))


def _told_late(peer: Peer, talk: Talk, answer: Answer) -> Iterator[Fault]:
    if answer.line is None:
        return
    after = peer.lines[peer.lines.index(answer.line) + 1 :]
    for line in updates(after, talk.id):
        if not line.is_sent:
            yield Fault(f"{line.kind} came after the session was closed", (*answer.lines, line))
