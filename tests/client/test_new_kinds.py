"""Updates and items without a class of their own are reported as `OtherUpdate`."""

from collections.abc import Iterator

import pytest

from rekindle.acp.update_kinds import KINDS, STATE_UPDATE, Category, UpdateKind, is_state
from rekindle.client import OtherUpdate
from rekindle.client.events import SESSION_FIELDS, EventBuilder
from rekindle.client.models import as_items
from rekindle.transcript.model import ReplayContext, TranscriptItem, TranscriptTurn, Update
from rekindle.transcript.reducer import Transcript

CHECKPOINT: Update = {"sessionUpdate": "checkpoint_update", "label": "before"}


class CheckpointItem(TranscriptItem, kw_only=True):
    """An item of a class that the client does not know."""

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        del context
        yield CHECKPOINT


def test_a_new_class_of_items_is_an_other_update() -> None:
    turn = TranscriptTurn(number=1, at_us=1, items=[CheckpointItem(seq=1, at_us=1)])
    assert list(as_items([turn])) == [OtherUpdate(CHECKPOINT)]


@pytest.mark.parametrize("category", [Category.OTHER, Category.NOTICE, Category.STATE])
def test_an_update_of_a_new_kind_is_an_other_update(
    monkeypatch: pytest.MonkeyPatch, category: Category
) -> None:
    kind = UpdateKind(name="checkpoint_update", versions=(2,), category=category)
    monkeypatch.setitem(KINDS, kind.name, kind)
    assert EventBuilder(Transcript(), CHECKPOINT).build(1) == OtherUpdate(CHECKPOINT)


def test_every_kind_of_state_changes_a_field_of_the_session() -> None:
    assert SESSION_FIELDS.keys() == set(filter(is_state, KINDS)) - {STATE_UPDATE}
