import time

import pytest

from rekindle.cli.formatting import format_age, one_line, printable
from rekindle.cli.store_access import short_id
from rekindle.model import Opened
from rekindle.store.memory import MemoryStore


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7200, "2 h"),
        (86400 * 3, "3 d"),
        (86400 * 21, "3 w"),
        (86400 * 800, "2 y"),
        (-50, "0 s"),
    ],
)
def test_age_has_one_unit(seconds: int, text: str) -> None:
    assert format_age(int((time.time() - seconds - 0.5) * 1e6)) == text


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[31m\tb\r\nc\x07\x9b\u202e") == "a\\x1b[31m\tb\nc\\x07\\x9b\ufffd"
    assert one_line(" a\n b\t\x1b ") == "a b \\x1b"


def test_short_ids_are_unique_in_the_whole_store() -> None:
    ids = ["ses_e1edc8d3fffe1EdV", "ses_e1edc8d3aaaaaaaa", "example-aa060f10d7a3", "x", "ab", "abc"]
    with MemoryStore() as store:
        store.write([Opened(session_id=id_, at_us=1) for id_ in ids])
        short = {id_: short_id(store, id_) for id_ in ids}
        assert [store.find(prefix).id for prefix in short.values()] == ids
    assert short["ses_e1edc8d3fffe1EdV"] == "ses_e1edc8d3fff"
    assert short["example-aa060f10d7a3"] == "example-aa060f10"
