"""`initialize`, and what an agent makes of what it does not know."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, UNSUPPORTED_VERSION
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import responses
from rekindle.conformance.session_runner import HIGHEST_VERSION, Examiner, hello
from rekindle.conformance.trace import Answer, Json
from rekindle.jsonvalue import as_array

_UNKNOWN = "_rekindle/check"
_NO_WAY = "rekindle-check-has-none"
_UNREADABLE = b'{"jsonrpc": "2.0", "id": '


async def greeting(it: Examiner) -> None:
    """Judge how an agent introduces itself."""
    try:
        await it.agent()
    finally:
        _judge_greeting(it)
    await _unknown_things(it)
    await _other_versions(it)


def _judge_greeting(it: Examiner) -> None:
    answer = it.greeting
    if answer is None or answer.line is None:
        return
    if answer.code != UNSUPPORTED_VERSION:  # else it speaks another one, and says so
        it.ledger.judge("greeting.version", _wrong_version(answer))
    if answer.is_result:
        it.ledger.judge("greeting.shape", responses.bad_greeting(answer, it.protocol))
        it.ledger.judge("greeting.auth", responses.bad_auth_methods(answer, it.protocol))


def _wrong_version(answer: Answer) -> Iterator[Fault]:
    if not answer.is_result:
        yield Fault(f"`initialize` fails: {answer.in_words()}", answer.lines)
    elif not _is_version(answer.result.get("protocolVersion")):
        yield Fault("the answer to `initialize` has no `protocolVersion`", answer.lines)


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


async def _unknown_things(it: Examiner) -> None:
    unknown = await it.probe(_UNKNOWN, {})
    faults = responses.not_refused(unknown, METHOD_NOT_FOUND, "an unknown method")
    it.ledger.judge("greeting.unknown-method", faults)
    peer = await it.agent()
    since = len(peer.lines)
    peer.notify(_UNKNOWN, {"about": "nothing"})
    # Whoever answers this has read the notification.
    await it.probe(_UNKNOWN, {})
    it.ledger.judge("greeting.unknown-notification", _not_ignored(peer, since))
    if it.protocol > 1:
        await _gone(it)
        await _sign_in(it)


def _not_ignored(peer: Peer, since: int) -> Iterator[Fault]:
    lines = peer.lines[since:]
    for line in lines:
        if not line.is_sent and line.is_answer and line.id is None:
            yield Fault("an unknown notification is answered", (lines[0], line))
    if how := peer.in_words():
        yield Fault(f"after an unknown notification {how}", (lines[0],))


async def _gone(it: Examiner) -> None:
    session: Json = {"sessionId": "nobody", "cwd": str(it.settings.folder), "mcpServers": []}
    asked: dict[str, Json] = {
        methods.LOAD: session,
        methods.SET_MODE: {"sessionId": "nobody", "modeId": "none"},
        methods.AUTHENTICATE: {"methodId": _NO_WAY},
    }
    for method, params in asked.items():
        answer = await it.probe(method, params)
        faults = responses.not_refused(answer, METHOD_NOT_FOUND, f"{method}, of version 1,")
        it.ledger.judge("greeting.gone", faults)


async def _sign_in(it: Examiner) -> None:
    """Try to sign in in a way that there is not: no other is harmless."""
    if it.greeting is None or not as_array(it.greeting.result.get("authMethods")):
        it.ledger.miss("greeting.login", "the agent names no way to sign in")
        return
    answer = await it.probe(methods.AUTH_LOGIN, {"methodId": _NO_WAY})
    it.ledger.judge("greeting.login", responses.not_there(answer))


async def _other_versions(it: Examiner) -> None:
    """Ask for odd versions, each in a process of its own: an agent may end for that."""
    peer = await it.start()
    request = peer.request(methods.INITIALIZE, hello(str(it.protocol)))
    odd = await peer.answer(request, it.settings.patience)
    it.ledger.judge("greeting.odd", _echoed(odd, str(it.protocol)))
    await peer.kill()
    peer = await it.start()
    higher = await it.ask(peer, methods.INITIALIZE, hello(HIGHEST_VERSION))
    it.ledger.judge("greeting.higher", _not_its_own(higher, it.protocol))
    own = peer if higher.is_result else await it.agent()
    await _unreadable(it, own)
    await peer.kill()
    if own is not peer:
        # Who has read what is no JSON may read nothing after it.
        await it.leave(kill=True)


def _echoed(answer: Answer, version: str) -> Iterator[Fault]:
    if answer.line is None:
        yield Fault(f"a version that is none: {answer.in_words()}", answer.lines)
    elif answer.is_result and not _is_version(answer.result.get("protocolVersion")):
        yield Fault(f"a version that is none, {version!r}, was agreed to", answer.lines)


def _not_its_own(answer: Answer, spoken: int) -> Iterator[Fault]:
    version = answer.result.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        yield Fault(f"a higher version gets none: {answer.in_words()}", answer.lines)
    elif version == HIGHEST_VERSION:
        yield Fault(f"the agent claims to speak version {version}", answer.lines)
    elif version < spoken:
        words = f"a higher version gets {version}, and the agent speaks {spoken}"
        yield Fault(words, answer.lines)


async def _unreadable(it: Examiner, peer: Peer) -> None:
    since = len(peer.lines)
    broken = peer.write(_UNREADABLE)
    # Whoever answers this has read what stands before it.
    await peer.answer(peer.request(_UNKNOWN, {}), it.settings.patience)
    heard = [line for line in peer.lines[since:] if not line.is_sent and line.is_answer]
    errors = [Answer(broken, line) for line in heard if line.id is None]
    it.ledger.judge("greeting.parse", _unread(peer, errors or [Answer(broken, None)]))


def _unread(peer: Peer, answers: list[Answer]) -> Iterator[Fault]:
    if how := peer.in_words():
        yield Fault(f"after a line that is no JSON {how}", answers[0].lines)
    elif answers[0].line is None:
        yield Fault("a line that is no JSON was not answered", answers[0].lines)
    else:
        yield from responses.not_refused(answers[0], PARSE_ERROR, "a line that is no JSON")
