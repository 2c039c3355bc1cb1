"""Bytes are forwarded unchanged, whatever they are."""

import sys
from pathlib import Path

import pytest

import warm_start
from stdio_client import REKINDLE, TIMEOUT

PLAYER = Path(__file__).parents[1] / "agents" / "agent_plays_file.py"


def update(text: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
        + text
        + b'"}}}}\n'
    )


HOSTILE = {
    "lone surrogate": update(rb"\ud83d"),
    "invalid UTF-8": update(b"\xff\xfe\xc0\x80"),
    "line separators": update("\u2028\u2029\x85".encode()),
    "NUL and control characters": update(b"\x00\x1b[31m\x7f"),
    "carriage returns": update(b"a").replace(b"\n", b"\r\n"),
    "spaces kept": b'  { "jsonrpc" : "2.0" , "id" : 1 , "result" : 1.0e0 }  \n',
    "not JSON": b"Welcome to the agent!\n\n\n{{{\n",
    "not an object": b'17\n"x"\nnull\n',
    "deep": b'{"method":"x","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n",
    "huge number": b'{"method":"x","params":' + b"9" * 10_000 + b"}\n",
    "duplicate keys": b'{"method":"a","method":"session/update","params":{"sessionId":"s"}}\n',
    "no newline at the end": update(b"a") + b'{"half":',
    "a line of 100 MB": update(b"x" * 100_000_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bytes_are_forwarded_unchanged(name: str, tmp_path: Path) -> None:
    data = HOSTILE[name]
    say, heard = tmp_path / "say", tmp_path / "heard"
    say.write_bytes(data)
    done = warm_start.run(
        [*REKINDLE, "run", "--store", tmp_path / "s.db", "--", sys.executable, PLAYER, say, heard],
        input=data,
        capture_output=True,
        timeout=TIMEOUT * 3,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data
    assert heard.read_bytes() == data
