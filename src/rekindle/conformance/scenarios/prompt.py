"""Sessions that are made, and the turns in them."""

import os
from collections.abc import Iterator
from pathlib import Path

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, REQUEST_CANCELLED
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import responses, turns
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Answer, Json
from rekindle.jsonvalue import as_array, as_object


def unknown_id() -> str:
    """Return the id of a session that there is not. It looks like one, so that it is looked for."""
    return f"00000000-0000-4000-8000-{os.urandom(6).hex()}"


async def session(it: Examiner) -> None:
    """Judge how sessions are made."""
    talk = await it.new(it.folder())
    made = it.opened[-1]
    await it.new(talk.folder)
    await _options(it, made, talk)
    await _withdrawn(it)
    params = {"sessionId": unknown_id(), "prompt": [{"type": "text", "text": it.settings.prompt}]}
    refused = await it.probe(methods.PROMPT, params)
    it.ledger.judge("session.unknown", responses.not_refused(refused, what="an unknown session"))
    it.unknown.append(refused)
    await it.let_end(refused)
    # Last, because an agent may die of them.
    relative = await it.probe(methods.NEW, it.fresh(Path("some/folder")))
    it.named(relative)
    it.ledger.judge("session.relative", responses.not_refused(relative, what="a relative folder"))
    empty = await it.probe(methods.NEW, {})
    it.named(empty)
    faults = responses.not_refused(empty, INVALID_PARAMS, "session/new without a folder")
    it.ledger.judge("session.params", faults)
    if not it.reopens:
        # Otherwise others do that.
        await it.restart(kill=True)
        await it.new(it.folder())


async def _options(it: Examiner, made: Answer, talk: Talk) -> None:
    options = [as_object(option) for option in as_array(made.result.get("configOptions"))]
    if not options:
        it.ledger.miss("session.options", "the session has no options")
        return
    if not it.ledger.judge("session.options", responses.bad_options(options, made, it.protocol)):
        return
    first = next((option for option in options if option.get("type") == "select"), None)
    if first is not None:
        named = first["id" if it.protocol == 1 else "configId"]
        value: Json = {"value": first["currentValue"]}
        params = {"sessionId": talk.id, "configId": named, **value}
        if it.protocol > 1:
            params["type"] = "id"
        answer = await it.call(methods.SET_CONFIG_OPTION, params)
        faults = responses.incomplete_options(options, answer, it.protocol)
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
    if had.obstacle:
        raise Stopped(it.no_turns or f"a turn could not be had: {had.in_words()}")
    it.ledger.judge("turn.works", _not_had(had, "a prompt of text"))
    if not had.is_had:
        raise Stopped(f"a turn could not be had: {had.in_words()}")
    await _nothing_after(it, had)
    path = talk.folder / "notes.txt"
    path.write_text("Remember the milk.\n", encoding="utf-8")
    link = {"type": "resource_link", "uri": path.as_uri(), "name": path.name}
    linked = await it.prompt(talk.id, it.settings.prompt, link)
    it.ledger.judge("turn.link", _not_had(linked, "a prompt with a `resource_link`"))


def _not_had(had: Turn, what: str) -> Iterator[Fault]:
    if not had.is_had:
        words = f"{what} does not work: {had.in_words()}"
        yield Fault(words, (had.answer.request, *had.lines[-3:]))


async def _nothing_after(it: Examiner, had: Turn) -> None:
    peer = await it.agent()
    await peer.settle(had.session_id, it.settings.settling)
    if had.end is not None:
        after = peer.lines[peer.lines.index(had.end) + 1 :]
        late = turns.late_updates(after, had.session_id, "the turn's end")
        it.ledger.judge("turn.over", late)
