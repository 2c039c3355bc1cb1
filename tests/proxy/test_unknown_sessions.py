"""An agent that sends updates of more and more sessions that no client has opened."""

import sys
from collections.abc import Iterator

from playbook import Playbook

OPENED = """\
agent Fake load
c> {"id":1,"method":"session/new","params":{"cwd":"/p","mcpServers":[]}}
a> {"id":1,"result":{"sessionId":"mine"}}
c> {"id":2,"method":"session/prompt","params":{"sessionId":"mine","prompt":[]}}
"""


def update(session_id: str, text: str) -> str:
    content = f'{{"type":"text","text":"{text}"}}'
    inner = f'{{"sessionUpdate":"agent_message_chunk","content":{content}}}'
    return (
        f'a> {{"method":"session/update","params":{{"sessionId":"{session_id}","update":{inner}}}}}'
    )


def remembered(book: Playbook) -> Iterator[object]:
    seen: set[int] = set()
    held: list[object] = [book.engine]
    while held:
        it = held.pop()
        if id(it) in seen or isinstance(it, type) or callable(it):
            continue
        seen.add(id(it))
        yield it
        if isinstance(it, dict):
            held += [*it, *it.values()]
        elif isinstance(it, (list, tuple, set, frozenset)):
            held += it
        else:
            held += list(getattr(it, "__dict__", {}).values())
            held += [getattr(it, name, None) for name in getattr(it, "__struct_fields__", ())]


def size(book: Playbook) -> int:
    return sum(map(sys.getsizeof, remembered(book)))


def test_memory_does_not_grow_with_unknown_sessions() -> None:
    book = Playbook()
    book.play(OPENED + "\n".join(update(f"stray-{n}", "x") for n in range(3000)))
    before = size(book)
    book.play("\n".join(update(f"another-{n}", "x") for n in range(3000)))
    assert size(book) < before * 1.5


def test_opened_sessions_stay_known() -> None:
    book = Playbook()
    script = [update("mine", "Hi"), *(update(f"stray-{n}", "x") for n in range(3000))]
    book.play(OPENED + "\n".join([*script, update("mine", " there")]))
    ended = book.play('a> {"id":2,"result":{"stopReason":"end_turn"}}')
    assert "stray" not in ended.splitlines()[-1]
    session = book.record.store.session("mine")
    assert (session.turns, session.messages) == (1, 2)
