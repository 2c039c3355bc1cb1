import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.handover import (
    carries_history,
    handover_text,
    missing_turns_text,
    reminder_text,
)
from rekindle.transcript.preface import (
    ADVICE,
    ADVICE_TEXTS,
    END,
    ENDS,
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

EARLIER_PARAGRAPHS = {
    "handover": """\
This conversation was continued in a new process, and you have no memory of it. Below is
the record of what was said and done before, for your information. Go on from there: the
user's next message follows after it. Do not answer the record itself.""",
    "interrupted": """\
The last turn of this conversation was cut off before it ended, and you may not remember it.
Below is the record of it, for your information. The user's next message follows after it. Do
not answer the record itself.""",
    "unsaved": """\
The last turns of this conversation may not have been saved, and you may not remember them.
Below is the record of them, for your information. The user's next message follows after it. Do
not answer the record itself.""",
    "missing": """\
Your copy of this conversation lacks the turns below, which took place before you were restarted.
This is the record of them, for your information. The user's next message follows after it. Do
not answer the record itself.""",
}
EARLIER_END = "[End of the record. The user's message follows.]"
EARLIER_RECORDS = {
    "turns": "User: Fix it\nYou: Fixed.\nYou used a tool: Edit /a (completed)\nchange of /a:\n- x",
    "cut off": "User: Fix it\n[this turn was cut off]",
    "tool call": "You used a tool: Read (not finished)",
    "omission": "[12 turns are left out here]\n\nUser: Thanks\n[this turn failed: no credit]",
    "plan": "The plan, as it stands:\n- one (pending)",
}
"""The beginnings that earlier records have."""
RELEASE_0_1 = {
    f"release 0.1: {name}, {record}": f"{EARLIER_PARAGRAPHS[name]}\n\n{EARLIER_RECORDS[record]}"
    for name in ("handover", "interrupted")
    for record in EARLIER_RECORDS
}
"""The texts of release 0.1, which have no end."""
WITHOUT_END = RELEASE_0_1 | {
    f"without end: {name}": f"{EARLIER_PARAGRAPHS[name]}\n\n{EARLIER_RECORDS['turns']}"
    for name in ("unsaved", "missing")
}
"""Texts that were never released have no end, too. Stores of developers have them."""
WITH_END = {
    f"with end: {name}, {record}": f"{paragraph}\n\n{EARLIER_RECORDS[record]}\n\n{EARLIER_END}"
    for name, paragraph in EARLIER_PARAGRAPHS.items()
    for record in EARLIER_RECORDS
}
"""The texts before they were rewritten for release 0.2. Stores of developers have them."""
EARLIER_FORMS = WITHOUT_END | WITH_END
EARLIER_HANDOVER = RELEASE_0_1["release 0.1: handover, turns"]
PARAGRAPH = EARLIER_PARAGRAPHS["handover"]


def interrupted(prompt: str = "Fix it") -> Transcript:
    line = b'{"params":{"prompt":[{"type":"text","text":"%b"}]}}' % prompt.encode()
    return fold([Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)])


def ended() -> Transcript:
    transcript = interrupted()
    line = b'{"result":{"stopReason":"end_turn"}}'
    transcript.add(Entry(seq=2, side=Side.AGENT, kind=Kind.ANSWER, at_us=2, line=line))
    return transcript


HANDOVER = handover_text(interrupted())
REMINDER = reminder_text(interrupted(), interrupted().turns)
UNSAVED = reminder_text(ended(), ended().turns)
MISSING = missing_turns_text(ended(), {1})
PRESENT_FORMS = [HANDOVER, REMINDER, UNSAVED, MISSING]
PREFACES = st.sampled_from([*PRESENT_FORMS, *WITH_END.values()])
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@pytest.mark.parametrize("preface", PRESENT_FORMS)
def test_a_preface_has_a_known_beginning_and_end(preface: str) -> None:
    assert preface.startswith(OPENINGS)
    assert preface.endswith(END)
    assert " ".join(ADVICE.split()) in " ".join(preface.split())


def test_each_present_form_has_an_opening_of_its_own() -> None:
    written = {next(it for it in OPENINGS if text.startswith(it)) for text in PRESENT_FORMS}
    assert len(written) == len(PRESENT_FORMS)


# -- earlier forms --------------------------------------------------------------------------


def recorded(*blocks: str) -> Transcript:
    """Return a session whose only prompt has these texts."""
    prompt = [{"type": "text", "text": text} for text in blocks]
    line = json.dumps({"params": {"prompt": prompt}}).encode()
    return fold([Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)])


@pytest.mark.parametrize("name", EARLIER_FORMS)
def test_an_earlier_form_is_never_the_users_words(name: str) -> None:
    text = EARLIER_FORMS[name]
    assert user_words(text) == ""
    assert user_words(" ".join(text.split())) == ""
    assert carries_history(f"{text}\n\nGo on")
    assert user_blocks([{"type": "text", "text": text}]) == []


@pytest.mark.parametrize("name", EARLIER_FORMS)
def test_an_earlier_form_is_never_a_title_or_a_search_hit(name: str) -> None:
    text = EARLIER_FORMS[name]
    for length in (20, 40, 80, len(text)):
        assert is_preface_title(text[:length])
        assert title_from_agent(f"“{text[:length].lower()}…”") is None
    assert title_from_prompt([{"type": "text", "text": it} for it in (text, "Go on")]) == "Go on"
    (turn,) = recorded(text).turns
    assert list(search_documents(turn)) == []


@pytest.mark.parametrize("name", WITH_END)
def test_the_words_behind_an_earlier_end_are_the_users(name: str) -> None:
    text = f"{WITH_END[name]}\n\nGo on"
    assert user_words(text) == "Go on"
    assert title_from_prompt([{"type": "text", "text": text}]) == "Go on"
    (turn,) = recorded(text).turns
    assert [document.text for document in search_documents(turn)] == ["Go on"]


@pytest.mark.parametrize("name", EARLIER_FORMS)
def test_an_earlier_form_may_be_part_of_a_history(name: str) -> None:
    text = handover_text(recorded(f"{EARLIER_FORMS[name]}\n\nGo on"))
    assert user_words(f"{text}\n\nThanks") == "Thanks"


def test_every_opening_advice_and_end_has_been_written() -> None:
    texts = [" ".join(text.split()) for text in (*PRESENT_FORMS, *EARLIER_FORMS.values())]
    for part in (*OPENINGS, *ADVICE_TEXTS, *ENDS):
        assert any(part in text for text in texts)


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
    last = max(map(len, ENDS))
    cut = data.draw(st.integers(min_value=70, max_value=len(preface) - last))
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
    text = handover_text(interrupted(f"{OPENINGS[0]} {END} {EARLIER_END} Go on"))
    assert user_words(f"{text}\n\nThanks") == "Thanks"
    for end in ENDS:
        assert end not in without_end(f"a {end} b")


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
    text = draw(st.sampled_from([*PRESENT_FORMS, *EARLIER_FORMS.values()]))
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
