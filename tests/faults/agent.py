"""An agent that does as the prompt says, and numbers everything that it says.

It is started thousands of times, so it imports next to nothing, and finds what it needs in a line
without decoding it. What it says in a session is `<a1234567-1.1>`, `<a1234567-1.2>` and so on: its
own name and which of its sessions it is, and how much it has said there. With `--resumes`, it
claims to know every session. With `--v2`, it speaks version 2 of the protocol.
"""

import os
import sys
import time
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, signal


def name() -> str:
    """Return a name that no other has: which editor it is of, and how many were there before.

    So a seed that is run again has the same names again.
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
KNOWS_ALL = "--resumes" in sys.argv
HOW_OFTEN: dict[bytes, int] = {}
"""How much was said in each session."""
WHICH: dict[bytes, int] = {}
"""The sessions, in the order in which it said something there."""
OPEN: dict[bytes, bytes] = {}
"""The requests of turns that do not end by themselves, by session."""
DEAF: list[bool] = []
A_LONG_TIME = 3600


def main() -> None:
    begun = b""
    while data := os.read(0, 65536):
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            hear(line)
    while DEAF:
        time.sleep(A_LONG_TIME)


def hear(line: bytes) -> None:
    method, asked = field(line, b"method"), field(line, b"id")
    session = field(line, b"sessionId")
    match method:
        case b"initialize":
            answer(asked, greeting())
        case b"session/new":
            HOW_OFTEN[b""] = HOW_OFTEN.get(b"", 0) + 1
            answer(asked, b'{"sessionId":"s-%s-%d"}' % (ME.encode(), HOW_OFTEN[b""]))
        case b"session/prompt":
            # The last text is the user's: before it may stand what Rekindle tells.
            _, verb, *numbers = line.rpartition(b'"text":"')[2].partition(b"<")[0].split()
            turn(verb.decode(), session, asked, *map(int, numbers))
        case b"session/cancel" if session in OPEN:
            end_turn(session, OPEN.pop(session), b"cancelled")
        case b"session/resume" if not KNOWS_ALL:
            write(b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"?"}}\n' % asked)
        case b"":
            pass
        case _ if asked:
            answer(asked, b"{}")


def greeting() -> bytes:
    info = b'{"name":"numbering","version":"1"}'
    if SPEAKS_2:
        return b'{"protocolVersion":2,"info":%s,"capabilities":{"session":{}}}' % info
    can = b'{"sessionCapabilities":{"resume":{}}}' if KNOWS_ALL else b"{}"
    return b'{"protocolVersion":1,"agentInfo":%s,"agentCapabilities":%s}' % (info, can)


def turn(verb: str, session: bytes, asked: bytes, *numbers: int) -> None:
    if SPEAKS_2:
        HOW_OFTEN[b"?"] = HOW_OFTEN.get(b"?", 0) + 1
        answer(asked, b'{"messageId":"asked-%s-%d"}' % (ME.encode(), HOW_OFTEN[b"?"]))
        write(told(session, b'"state_update","state":"running"'))
    VERBS[verb](session, *numbers)
    if verb in UNANSWERED:
        OPEN[session] = asked
        return
    end_turn(session, asked, b"end_turn")
    if verb == "twice":
        end_turn(session, asked, b"refusal")


def end_turn(session: bytes, asked: bytes, reason: bytes) -> None:
    if SPEAKS_2:
        write(told(session, b'"state_update","state":"idle","stopReason":"%s"' % reason))
    else:
        answer(asked, b'{"stopReason":"%s"}' % reason)


def stream(session: bytes, count: int, at_once: int) -> None:
    """Say so much, so many lines in a write."""
    for begin in range(0, count, at_once):
        write(b"".join(update(session) for _ in range(min(at_once, count - begin))))


def strangers(session: bytes, count: int, at_once: int) -> None:
    """Speak also of sessions that nobody knows."""
    write(b"".join(update(b"nobody-%d" % number, ME + "-x") for number in range(5)))
    stream(session, count, at_once)


def unknown(session: bytes, count: int, at_once: int) -> None:
    """Answer what nobody asked."""
    for asked in (b"987654", b'"never-asked"', b"null", b'"rekindle-77"'):
        answer(asked, b'{"stopReason":"end_turn"}')
    stream(session, count, at_once)


def garbage(session: bytes, count: int, at_once: int) -> None:
    """Write what is no message between what is one."""
    write(b'a plain line\n{"half": \n\n\xff\xfe\n[]\n{}\n' + b"x" * 70_000 + b"\n")
    stream(session, count, at_once)


def die(session: bytes, count: int, at_once: int) -> None:
    """End in the middle of a turn."""
    stream(session, count, at_once)
    os._exit(3)


def half(session: bytes, count: int, at_once: int) -> None:
    """End in the middle of a line."""
    stream(session, count, at_once)
    write(update(session)[:40])
    os._exit(4)


def deaf(session: bytes, count: int, at_once: int) -> None:
    """Never exit from now on, nor let a child do so, whatever is said."""
    for number in (SIGTERM, SIGINT, SIGHUP):
        signal(number, SIG_IGN)
    DEAF.append(True)
    if os.fork() == 0:
        time.sleep(A_LONG_TIME)
    stream(session, count, at_once)


VERBS = {
    "stream": stream,
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
    number = HOW_OFTEN[session] = HOW_OFTEN.get(session, 0) + 1
    which = WHICH.setdefault(session, len(WHICH))
    said = b"<%s-%d.%d>" % (me.encode(), which, number)
    group = b"%s-%d" % (me.encode(), number - number % 8)
    match number % 8:
        case 0:
            kind = b"tool_call_update" if SPEAKS_2 else b"tool_call"
            what = b'"%s","toolCallId":"call-%s","status":"pending","title":"%s"'
            return told(session, what % (kind, group, said))
        case 1 if number > 1:
            content = b'[{"type":"content","content":{"type":"text","text":"%s"}}]' % said
            what = b'"tool_call_update","toolCallId":"call-%s","status":"completed","content":%s'
            return told(session, what % (group, content))
        case 2:
            kind = b"agent_thought_chunk"
        case _:
            kind = b"agent_message_chunk"
    # What is said before the first thought is another message than what comes after it.
    named = b'"messageId":"%s-%s-%d",' % (kind, group, number == 1) if SPEAKS_2 else b""
    what = b'"%s",%s"content":{"type":"text","text":"%s"}' % (kind, named, said)
    return told(session, what)


def told(session: bytes, what: bytes) -> bytes:
    params = b'{"sessionId":"%s","update":{"sessionUpdate":%s}}' % (session, what)
    return b'{"jsonrpc":"2.0","method":"session/update","params":%s}\n' % params


def answer(asked: bytes, result: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (asked, result))


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def field(line: bytes, name: bytes) -> bytes:
    """Return a field's value: a text without its quotes, but an id as it came."""
    rest = line.partition(b'"%s":' % name)[2]
    if rest[:1] != b'"':
        return rest.replace(b"}", b",").partition(b",")[0]
    value = rest[1:].partition(b'"')[0]
    return b'"%s"' % value if name == b"id" else value


try:
    main()
except BrokenPipeError:
    # Nobody hears it any more.
    sys.exit(1)
