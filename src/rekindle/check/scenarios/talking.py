"""Sessions that are made, and the turns in them."""

import os
from collections.abc import Iterator
from pathlib import Path

from rekindle.check.examiner import Examiner, Stopped, Talk
from rekindle.check.judges import shapes, turns
from rekindle.check.judges.names import CONVERSATION
from rekindle.check.judges.turns import Turn
from rekindle.check.peer import Peer
from rekindle.check.traffic import Answer, Json, Line
from rekindle.check.verdicts import Fault
from rekindle.wire import methods
from rekindle.wire.envelope import INVALID_PARAMS, REQUEST_CANCELLED, rows, table

_FIRST_SIGN = 2.0
# A turn that ends so soon after it was cancelled may have been at its end anyway.
_TOO_SOON = 1.0
TOO_SOON = "the turn was over too soon to be cancelled: give a longer one with --long-prompt"


def unknown_id() -> str:
    """Return the id of a session that there is not. It looks like one, so that it is looked for."""
    return f"00000000-0000-4000-8000-{os.urandom(6).hex()}"


async def session(it: Examiner) -> None:
    """Judge how sessions are made."""
    talk = await it.new(it.folder())
    await it.new(talk.folder)
    await _options(it, it.opened[0], talk)
    await _withdrawn(it)
    params = {"sessionId": unknown_id(), "prompt": [{"type": "text", "text": it.settings.prompt}]}
    refused = await it.probe(methods.PROMPT, params)
    it.ledger.judge("session.unknown", shapes.not_refused(refused, what="an unknown session"))
    it.unknown.append(refused)
    # Last, because an agent may die of them.
    relative = await it.probe(methods.NEW, it.fresh(Path("some/folder")))
    it.named(relative)
    it.ledger.judge("session.relative", shapes.not_refused(relative, what="a relative folder"))
    empty = await it.probe(methods.NEW, {})
    it.named(empty)
    faults = shapes.not_refused(empty, INVALID_PARAMS, "session/new without a folder")
    it.ledger.judge("session.params", faults)
    if not {"replay", "resume"} & it.offers:
        # Otherwise others do that.
        await it.restart(kill=True)
        await it.new(it.folder())


async def _options(it: Examiner, made: Answer, talk: Talk) -> None:
    options = [table(option) for option in rows(made.result.get("configOptions"))]
    if not options:
        it.ledger.miss("session.options", "the session has no options")
        return
    if not it.ledger.judge("session.options", shapes.bad_options(options, made, it.protocol)):
        return
    first = next((option for option in options if option.get("type") == "select"), None)
    if first is not None:
        named = first["id" if it.protocol == 1 else "configId"]
        value: Json = {"value": first["currentValue"]}
        params = {"sessionId": talk.id, "configId": named, **value}
        if it.protocol > 1:
            params["type"] = "id"
        answer = await it.call(methods.SET_CONFIG_OPTION, params)
        faults = shapes.incomplete_options(options, answer, it.protocol)
        it.ledger.judge("session.options", faults)


async def _withdrawn(it: Examiner) -> None:
    peer = await it.agent()
    request = peer.request(methods.NEW, it.fresh(it.folder()))
    peer.notify(methods.CANCEL_REQUEST, {"requestId": request.id})
    answer = await peer.answer(request, it.settings.patience)
    it.asked.append((peer, answer))
    it.named(answer)
    if answer.line is None:
        await it.leave(kill=True)
        raise Stopped(f"{request.method} was not answered")
    it.ledger.judge("session.withdrawn", _wrongly_withdrawn(answer))


def _wrongly_withdrawn(answer: Answer) -> Iterator[Fault]:
    if answer.is_refused and answer.code != REQUEST_CANCELLED:
        yield Fault(f"a request that was withdrawn: {answer.in_words()}", answer.lines)


# -- turns ------------------------------------------------------------------------------


async def turn(it: Examiner) -> None:
    """Judge a turn, and one that links to a file."""
    talk = await it.new(it.folder())
    had = await it.prompt(talk.id, it.settings.prompt)
    it.ledger.judge("turn.works", _endless(had))
    if had.end is None:
        raise Stopped("the turn did not end in time")
    await _nothing_after(it, had)
    path = talk.folder / "notes.txt"
    path.write_text("Remember the milk.\n", encoding="utf-8")
    link = {"type": "resource_link", "uri": path.as_uri(), "name": path.name}
    linked = await it.prompt(talk.id, it.settings.prompt, link)
    it.ledger.judge("turn.link", _refused_link(linked))


def _endless(had: Turn) -> Iterator[Fault]:
    if had.answer.is_refused or had.end is None:
        words = f"the turn did not come to its end: {had.answer.in_words()}"
        yield Fault(words, (had.answer.request, *had.lines[-3:]))


def _refused_link(had: Turn) -> Iterator[Fault]:
    if had.end is None or had.answer.is_refused:
        words = f"a prompt with a `resource_link` does not work: {had.answer.in_words()}"
        yield Fault(words, had.answer.lines)


async def _nothing_after(it: Examiner, had: Turn) -> None:
    peer = await it.agent()
    await peer.settle(it.settings.settling)
    if had.end is not None:
        after = peer.lines[peer.lines.index(had.end) + 1 :]
        late = turns.late_updates(after, had.session_id, "the turn's end")
        it.ledger.judge("turn.over", late)


async def begin_long(it: Examiner, talk: Talk) -> tuple[Peer, Line]:
    """Begin a turn that lasts, and return when it has begun."""
    peer, request = await it.begin(talk.id, it.settings.long_prompt)
    since = peer.lines.index(request)

    def is_sign(line: Line) -> bool:
        is_update = line.session_id == talk.id and line.kind in CONVERSATION
        return is_update or (line.is_answer and it.protocol == 1 and line.id == request.id)

    await peer.first(is_sign, since, min(_FIRST_SIGN, it.settings.patience))
    return peer, request


def judge_cancelled(it: Examiner, name: str, had: Turn, cancelled_at: float) -> bool:
    """Judge a turn that was cancelled; tell whether that could be judged."""
    faults = turns.not_cancelled(had, cancelled_at, _TOO_SOON)
    if faults is None:
        it.ledger.skip(name, TOO_SOON)
        return False
    it.ledger.judge(name, faults)
    return True


async def cancel(it: Examiner) -> None:
    """Judge a turn that is cancelled, and the session after it."""
    talk = await it.new(it.folder())
    peer, request = await begin_long(it, talk)
    cancelled = peer.notify(methods.CANCEL, {"sessionId": talk.id})
    had = await it.finish(peer, request, is_cancelled=True)
    if not judge_cancelled(it, "cancel.ends", had, cancelled.at):
        raise Stopped(TOO_SOON)
    if had.end is None:
        raise Stopped("the cancelled turn did not end")
    following = await it.prompt(talk.id, it.settings.prompt)
    it.ledger.judge("cancel.next", _refused_next(following))


def _refused_next(had: Turn) -> Iterator[Fault]:
    if had.end is None or had.answer.is_refused or had.stop_reason == "cancelled":
        words = f"the prompt after a cancelled one does not work: {had.answer.in_words()}"
        yield Fault(words, had.answer.lines)
