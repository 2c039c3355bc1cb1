"""Replay of the present state of a session."""

import pytest

from rekindle.acp.update_kinds import KINDS, is_state
from rekindle.jsonvalue import Json
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import current_options, mark_replayed, replay_state

MODES = [{"id": "code", "name": "Code"}, {"id": "plan", "name": "Plan"}]


def transcript_with(**state: Json) -> Transcript:
    transcript = Transcript()
    transcript.state.update(state)
    return transcript


@pytest.mark.parametrize("version", [1, 2])
def test_the_state_is_replayed_in_the_order_of_the_registry(version: int) -> None:
    names = [name for name in KINDS if is_state(name)]
    option = {"id": "o", "type": "select"}
    transcript = transcript_with(**{name: {"configOptions": [option]} for name in reversed(names)})
    kinds = [update["sessionUpdate"] for update in replay_state(transcript, version)]
    left_out = {"state_update", *([] if version == 1 else ["current_mode_update"])}
    assert kinds == [name for name in names if name not in left_out]


@pytest.mark.parametrize("version", [1, 2])
def test_a_given_title_replaces_only_the_title(version: int) -> None:
    transcript = transcript_with(session_info_update={"title": "old", "updatedAt": "now"})
    (update,) = replay_state(transcript, version, title="new")
    assert (update["title"], update["updatedAt"]) == ("new", "now")
    (update,) = replay_state(Transcript(), version, title="new")
    assert (update["sessionUpdate"], update["title"]) == ("session_info_update", "new")


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_state_nothing_is_replayed(version: int) -> None:
    assert list(replay_state(Transcript(), version)) == []


def test_the_current_options_have_the_current_mode() -> None:
    transcript = Transcript()
    transcript.offered["modes"] = {"currentModeId": "code", "availableModes": MODES}
    assert [option["currentValue"] for option in current_options(transcript)] == ["code"]
    transcript.state["current_mode_update"] = {"currentModeId": "plan"}
    assert [option["currentValue"] for option in current_options(transcript)] == ["plan"]
    assert transcript.offered["modes"]["currentModeId"] == "code"


def test_a_mark_keeps_other_metadata() -> None:
    update = {"sessionUpdate": "x", "_meta": {"a": 1, "rekindle": {"b": 2}}}
    marked = mark_replayed(update, interrupted=True)
    assert marked["_meta"] == {
        "a": 1,
        "rekindle": {"b": 2, "replayed": True, "interrupted": True},
    }
    assert update["_meta"] == {"a": 1, "rekindle": {"b": 2}}
