import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.handover import carries_history, handover_text, reminder_text
from rekindle.transcript.preface import (
    ADVICE,
    END,
    OPENINGS,
    UserWords,
    is_preface_title,
    user_blocks,
    user_words,
    without_end,
)
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.search_documents import search_documents
from rekindle.transcript.titles import title_from_agent, title_from_prompt

EARLIER_HANDOVER = """\
This conversation was continued in a new process, and you have no memory of it. Below is
the record of what was said and done before, for your information. Go on from there: the
user's next message follows after it. Do not answer the record itself.

User: Fix it
You: Fixed."""
"""A handover of release 0.1, which has no end."""
PARAGRAPH = EARLIER_HANDOVER.partition("\n\n")[0]


def interrupted(prompt: str = "Fix it") -> Transcript:
    line = b'{"params":{"prompt":[{"type":"text","text":"%b"}]}}' % prompt.encode()
    return fold([Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)])


HANDOVER = handover_text(interrupted())
REMINDER = reminder_text(interrupted(), interrupted().turns)
PREFACES = st.sampled_from([HANDOVER, REMINDER])
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@pytest.mark.parametrize("preface", [HANDOVER, REMINDER])
def test_a_preface_has_a_known_beginning_and_end(preface: str) -> None:
    assert preface.startswith(OPENINGS)
    assert preface.endswith(END)
    assert " ".join(ADVICE.split()) in " ".join(preface.split())


# -- the user's words -----------------------------------------------------------------------


@given(PREFACES, WORDS, st.sampled_from(["", "\n", "\n\n", " "]))
def test_the_words_behind_a_preface_are_the_users(preface: str, words: str, between: str) -> None:
    assert user_words(f"{preface}{between}{words}") == user_words(words).lstrip()


@given(PREFACES, WORDS)
def test_white_space_in_a_preface_may_have_changed(preface: str, words: str) -> None:
    assert user_words(f"{' '.join(preface.split())} {words}") == user_words(words).lstrip()


@given(PREFACES, st.data())
def test_a_preface_may_come_in_pieces(preface: str, data: st.DataObject) -> None:
    # The opening and the end are not cut apart.
    cut = data.draw(st.integers(min_value=70, max_value=len(preface) - len(END)))
    words = UserWords()
    pieces = [preface[:cut], preface[cut:], "Go on"]
    assert "".join(words.add(piece) for piece in pieces) == "Go on"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("", ""),
        ("Go on", "Go on"),
        (EARLIER_HANDOVER, ""),
        (f"{EARLIER_HANDOVER}\n\nGo on", ""),
        (f"<context>\n{EARLIER_HANDOVER}\n\nGo on", "<context>\n"),
        (f'"{OPENINGS[0]}, and', f'"{OPENINGS[0]}, and'),
        (f"{OPENINGS[1]}. Please write it again.", f"{OPENINGS[1]}. Please write it again."),
        (f"{OPENINGS[1]}. {'So ' * 200}{ADVICE}", f"{OPENINGS[1]}. {'So ' * 200}{ADVICE}"),
        (f"{OPENINGS[1]}. {ADVICE} Why?", f"{OPENINGS[1]}. {ADVICE} Why?"),
        (f"{PARAGRAPH} What is this?", f"{PARAGRAPH} What is this?"),
        (f"Why “{OPENINGS[1]}”? {HANDOVER}Go on", f"Why “{OPENINGS[1]}”? Go on"),
        (f"{HANDOVER}\n\nWhat is “{PARAGRAPH}”?", f"What is “{PARAGRAPH}”?"),
        (f"{PARAGRAPH}\n\nYou used a tool: Read (completed)", ""),
        (f"<context>{HANDOVER}</context>Go on", "<context></context>Go on"),
        (f"{HANDOVER}{REMINDER}Go on", "Go on"),
        (f"Why is the title “{OPENINGS[0]}”?", f"Why is the title “{OPENINGS[0]}”?"),
        (f"{HANDOVER}\nWhy “{OPENINGS[1]}”?", f"Why “{OPENINGS[1]}”?"),
        (f"Cite {END} to me", f"Cite {END} to me"),
    ],
)
def test_only_prefaces_are_removed(text: str, own: str) -> None:
    assert user_words(text) == own


@pytest.mark.parametrize("opening", OPENINGS)
def test_own_words_that_begin_like_a_preface_are_kept(opening: str) -> None:
    text = f"{opening}. Please write it again, with all tests."
    line = json.dumps({"params": {"prompt": [{"type": "text", "text": text}]}}).encode()
    turn = fold([Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)]).turns[0]
    assert [document.text for document in search_documents(turn)] == [text]
    assert (title_from_prompt([{"type": "text", "text": text}]) or "").startswith(opening)
    assert not carries_history(text)


@given(WORDS, st.data())
def test_own_words_in_pieces_are_kept(words: str, data: st.DataObject) -> None:
    opening = data.draw(st.sampled_from(OPENINGS))
    text = f"{words}{opening}. {words}"
    cut = data.draw(st.integers(min_value=len(words) + len(opening), max_value=len(text)))
    found = UserWords()
    assert found.add(text[:cut]) + found.add(text[cut:]) + found.rest() == text


def test_a_preface_that_cites_another_ends_at_its_own_end() -> None:
    text = handover_text(interrupted(f"{OPENINGS[0]} {END} Go on"))
    assert user_words(f"{text}\n\nThanks") == "Thanks"
    assert END not in without_end(f"a {END} b")


def test_blocks_without_own_words_are_left_out() -> None:
    image = {"type": "image", "data": "x"}
    blocks: list[Any] = [{"type": "text", "text": HANDOVER}, image, "odd"]
    assert user_blocks(blocks) == [image, {}]
    joined = {"type": "text", "text": f"{HANDOVER}\nGo on", "annotations": {}}
    assert user_blocks([joined]) == [{"type": "text", "text": "Go on", "annotations": {}}]
    earlier = [{"type": "text", "text": text} for text in (EARLIER_HANDOVER, "Go on")]
    assert user_blocks(earlier) == earlier[1:]


# -- titles ---------------------------------------------------------------------------------


@st.composite
def titles_of_prefaces(draw: st.DrawFn) -> str:
    """Return the beginning of a preface as an agent may use it for a title."""
    text = draw(st.sampled_from([HANDOVER, REMINDER, EARLIER_HANDOVER]))
    text = text[: draw(st.integers(min_value=16, max_value=300))]
    change = draw(st.sampled_from([str, str.lower, str.upper, str.title]))
    text = draw(st.sampled_from([" ", "\n", "-", "_"])).join(change(text).split())
    quoted = draw(st.sampled_from(["{}", '"{}"', "“{}”", "'{}", "# {}", "**{}**", "  {} "]))
    return quoted.format(text + draw(st.sampled_from(["", "…", "...", " …"])))


@given(titles_of_prefaces())
def test_a_title_made_from_a_preface_is_recognised(title: str) -> None:
    assert is_preface_title(title)
    assert title_from_agent(title) is None


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_title_may_have_words_before_the_opening(opening: str) -> None:
    assert is_preface_title(f"User: {opening[:40]}…")


@pytest.mark.parametrize(
    "title",
    ["", "The last", "This", "Fix the parser", "The last turnip of the year", "Your copy"],
)
def test_other_titles_are_not(title: str) -> None:
    assert not is_preface_title(title)


# -- nothing shown as the user's words -------------------------------------------------------


def shows_opening(text: str | None) -> bool:
    words = " ".join((text or "").split())
    return any(opening in words for opening in OPENINGS)


@given(
    prefaces=st.lists(PREFACES, min_size=1, max_size=2),
    words=WORDS.filter(lambda words: not shows_opening(words)),
    between=st.sampled_from(["\n", "\n\n", " "]),
    is_joined=st.booleans(),
)
def test_no_title_and_no_search_hit_shows_a_preface(
    prefaces: list[str], words: str, between: str, *, is_joined: bool
) -> None:
    texts = [*prefaces, words]
    parts = [between.join(texts)] if is_joined else texts
    blocks = [{"type": "text", "text": part} for part in parts]
    title = title_from_prompt(blocks)
    assert not shows_opening(title)
    line = json.dumps({"params": {"prompt": blocks}}).encode()
    turn = fold([Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)]).turns[0]
    found = [document.text for document in search_documents(turn)]
    assert not any(map(shows_opening, found))
    own = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", words).strip()
    assert own in "".join(found)
