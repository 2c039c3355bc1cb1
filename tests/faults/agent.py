"""An agent that obeys commands in the prompt, and numbers all of its messages.

It is started thousands of times, so it imports almost nothing, and searches lines without decoding
them. Its messages in a session are `<a1234567-1.1>`, `<a1234567-1.2>` and so on: the name of the
process, the number of the session, and the number of the message. With `--resumes`, it claims to
know every session. With `--v2`, it speaks version 2 of the protocol. It approves nothing itself:
after `ask`, it exits with a failure if it receives an answer that no client gives.
"""

import os
import sys
import time
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, signal


def name() -> str:
    """Return a unique name: the number of the editor, and of the agent process of that editor.

    The same seed gives the same names again.
    """
    mark = os.environ["REKINDLE_EPISODE"]
    number = 0
    while True:
        try:
            os.close(os.open(f"{mark}.agent-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            number += 1
        else:
            return f"a{int(mark.rpartition('-')[2]):04x}{number:03x}"


ME = name()
SPEAKS_2 = "--v2" in sys.argv
RESUMES_ALL = "--resumes" in sys.argv
MESSAGES_SENT: dict[bytes, int] = {}
"""The number of messages in each session."""
SESSION_NUMBERS: dict[bytes, int] = {}
"""The number of each session, in the order of their first messages."""
OPEN: dict[bytes, bytes] = {}
"""The request ids of turns that do not end by themselves, by session."""
WAITING: dict[bytes, tuple[bytes, bytes, tuple[int, ...]]] = {}
"""The turns that wait for permission, by the id of the request: session, prompt, numbers."""
NEVER_EXITS: list[bool] = []
A_LONG_TIME = 3600
PAUSE = 0.002
"""The seconds between two messages of an agent that works slowly."""


def main() -> None:
    begun = b""
    while data := os.read(0, 65536):
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            receive(line)
    while NEVER_EXITS:
        time.sleep(A_LONG_TIME)


def receive(line: bytes) -> None:
    method, asked = field(line, b"method"), field(line, b"id")
    session = field(line, b"sessionId")
    match method:
        case b"initialize":
            answer(asked, initialize_result())
        case b"session/new":
            MESSAGES_SENT[b""] = MESSAGES_SENT.get(b"", 0) + 1
            answer(asked, b'{"sessionId":"s-%s-%d"}' % (ME.encode(), MESSAGES_SENT[b""]))
        case b"session/prompt":
            # The last text is the user's; a handover of Rekindle may come before it.
            _, verb, *numbers = line.rpartition(b'"text":"')[2].partition(b"<")[0].split()
            turn(verb.decode(), session, asked, *map(int, numbers))
        case b"session/cancel" if session in OPEN:
            end_turn(session, OPEN.pop(session), b"cancelled")
        case b"session/resume" if not RESUMES_ALL:
            write(b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"?"}}\n' % asked)
        case b"":
            receive_response(asked, line)
        case _ if asked:
            answer(asked, b"{}")


def initialize_result() -> bytes:
    info = b'{"name":"numbering","version":"1"}'
    if SPEAKS_2:
        return b'{"protocolVersion":2,"info":%s,"capabilities":{"session":{}}}' % info
    can = b'{"sessionCapabilities":{"resume":{}}}' if RESUMES_ALL else b"{}"
    return b'{"protocolVersion":1,"agentInfo":%s,"agentCapabilities":%s}' % (info, can)


def turn(verb: str, session: bytes, asked: bytes, *numbers: int) -> None:
    if SPEAKS_2:
        MESSAGES_SENT[b"?"] = MESSAGES_SENT.get(b"?", 0) + 1
        answer(asked, b'{"messageId":"asked-%s-%d"}' % (ME.encode(), MESSAGES_SENT[b"?"]))
        write(update_line(session, b'"state_update","state":"running"'))
    if verb == "ask":
        ask(session, asked, *numbers)
        return
    VERBS[verb](session, *numbers)
    if verb in UNANSWERED:
        OPEN[session] = asked
        return
    end_turn(session, asked, b"end_turn")
    if verb == "twice":
        end_turn(session, asked, b"refusal")


def receive_response(request: bytes, line: bytes) -> None:
    """Continue the turn that waited for permission."""
    if request not in WAITING:
        return
    session, asked, numbers = WAITING.pop(request)
    if b'"optionId":"yes"' in line:
        stream(session, *numbers)
        end_turn(session, asked, b"end_turn")
    elif b'"cancelled"' in line or b'"error"' in line:
        end_turn(session, asked, b"cancelled")
    else:
        sys.exit(5)


def end_turn(session: bytes, asked: bytes, reason: bytes) -> None:
    if SPEAKS_2:
        write(update_line(session, b'"state_update","state":"idle","stopReason":"%s"' % reason))
    else:
        answer(asked, b'{"stopReason":"%s"}' % reason)


def stream(session: bytes, count: int, at_once: int) -> None:
    """Send `count` updates, `at_once` of them in each write."""
    for begin in range(0, count, at_once):
        write(b"".join(update(session) for _ in range(min(at_once, count - begin))))


def drip(session: bytes, count: int, at_once: int) -> None:
    """Send `count` updates slowly."""
    for begin in range(0, count, at_once):
        stream(session, min(at_once, count - begin), at_once)
        time.sleep(PAUSE)


def ask(session: bytes, asked: bytes, *numbers: int) -> None:
    """Request permission; the turn continues with the answer."""
    write(update(session))
    request = b'"%s-asks-%d"' % (ME.encode(), MESSAGES_SENT[session])
    WAITING[request] = session, asked, numbers
    call = b'{"toolCallId":"call-%s-asks","title":"T"}' % ME.encode()
    subject = b'"toolCall":%s'
    if SPEAKS_2:
        subject = b'"title":"T","subject":{"type":"tool_call","toolCall":%s}'
    options = b'[{"optionId":"yes","name":"Yes","kind":"allow_once"}]'
    params = b'{"sessionId":"%s",%s,"options":%s}' % (session, subject % call, options)
    method = b"session/request_permission"
    write(b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}\n' % (request, method, params))


def strangers(session: bytes, count: int, at_once: int) -> None:
    """Send updates of unknown sessions too."""
    write(b"".join(update(b"nobody-%d" % number, ME + "-x") for number in range(5)))
    stream(session, count, at_once)


def unknown(session: bytes, count: int, at_once: int) -> None:
    """Send responses to requests that do not exist."""
    for asked in (b"987654", b'"never-asked"', b"null", b'"rekindle-77"'):
        answer(asked, b'{"stopReason":"end_turn"}')
    stream(session, count, at_once)


def garbage(session: bytes, count: int, at_once: int) -> None:
    """Write lines that are not messages between valid ones."""
    write(b'a plain line\n{"half": \n\n\xff\xfe\n[]\n{}\n' + b"x" * 70_000 + b"\n")
    stream(session, count, at_once)


def die(session: bytes, count: int, at_once: int) -> None:
    """Exit in the middle of a turn."""
    stream(session, count, at_once)
    os._exit(3)


def half(session: bytes, count: int, at_once: int) -> None:
    """Exit in the middle of a line."""
    stream(session, count, at_once)
    write(update(session)[:40])
    os._exit(4)


def deaf(session: bytes, count: int, at_once: int) -> None:
    """Ignore all signals that ask for an exit, and start a child that ignores them too."""
    for number in (SIGTERM, SIGINT, SIGHUP):
        signal(number, SIG_IGN)
    NEVER_EXITS.append(True)
    if os.fork() == 0:
        time.sleep(A_LONG_TIME)
    stream(session, count, at_once)


VERBS = {
    "stream": stream,
    "drip": drip,
    "twice": stream,
    "stall": stream,
    "strangers": strangers,
    "unknown": unknown,
    "garbage": garbage,
    "die": die,
    "half": half,
    "deaf": deaf,
}
UNANSWERED = {"stall"}


def update(session: bytes, me: str = ME) -> bytes:
    number = MESSAGES_SENT[session] = MESSAGES_SENT.get(session, 0) + 1
    which = SESSION_NUMBERS.setdefault(session, len(SESSION_NUMBERS))
    said = b"<%s-%d.%d>" % (me.encode(), which, number)
    group = b"%s-%d" % (me.encode(), number - number % 8)
    match number % 8:
        case 0:
            kind = b"tool_call_update" if SPEAKS_2 else b"tool_call"
            what = b'"%s","toolCallId":"call-%s","status":"pending","title":"%s"'
            return update_line(session, what % (kind, group, said))
        case 1 if number > 1:
            content = b'[{"type":"content","content":{"type":"text","text":"%s"}}]' % said
            what = b'"tool_call_update","toolCallId":"call-%s","status":"completed","content":%s'
            return update_line(session, what % (group, content))
        case 2:
            kind = b"agent_thought_chunk"
        case _:
            kind = b"agent_message_chunk"
    # Text before the first thought belongs to another message than text after it.
    named = b'"messageId":"%s-%s-%d",' % (kind, group, number == 1) if SPEAKS_2 else b""
    what = b'"%s",%s"content":{"type":"text","text":"%s"}' % (kind, named, said)
    return update_line(session, what)


def update_line(session: bytes, what: bytes) -> bytes:
    params = b'{"sessionId":"%s","update":{"sessionUpdate":%s}}' % (session, what)
    return b'{"jsonrpc":"2.0","method":"session/update","params":%s}\n' % params


def answer(asked: bytes, result: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (asked, result))


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def field(line: bytes, name: bytes) -> bytes:
    """Return the value of a field: a string without quotes, but an id unchanged."""
    rest = line.partition(b'"%s":' % name)[2]
    if rest[:1] != b'"':
        return rest.replace(b"}", b",").partition(b",")[0]
    value = rest[1:].partition(b'"')[0]
    return b'"%s"' % value if name == b"id" else value


try:
    main()
except BrokenPipeError:
    # Rekindle does not read any more.
    sys.exit(1)
