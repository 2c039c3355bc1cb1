"""The tables of update kinds, reducers and views agree, and a new kind needs one row in each."""

import json
from collections.abc import Iterable, Iterator

import pytest

from engine_pair import EnginePair
from full_session import KEY
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2
from rekindle.acp.translate.session_state import SessionState
from rekindle.acp.update_kinds import KINDS, STATE_UPDATE, Category, UpdateKind
from rekindle.cli.follow import Follower
from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.printer import PlainPrinter
from rekindle.cli.render.transcript import plain_lines, turn_pieces
from rekindle.export.html import as_html
from rekindle.export.json import as_json
from rekindle.export.labels import CARRIED, ChecklistStep
from rekindle.export.markdown import as_markdown
from rekindle.export.redact_transcript import redact_turn
from rekindle.export.views import (
    VIEWS,
    Block,
    Checklist,
    ItemView,
    Mask,
    Remark,
    Speech,
    blocks_of,
    view_of,
)
from rekindle.jsonvalue import Json, without
from rekindle.model import DocumentKind, Entry
from rekindle.transcript.handover import handover_text
from rekindle.transcript.model import (
    HandoverItem,
    HandoverReason,
    ReplayContext,
    Role,
    SearchText,
    Terminals,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
    Update,
)
from rekindle.transcript.reducer import REDUCERS, Reducer, Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2
from rekindle.transcript.search_documents import search_documents


def item_classes(base: type[TranscriptItem] = TranscriptItem) -> Iterator[type[TranscriptItem]]:
    for item_class in base.__subclasses__():
        if item_class.__module__.startswith("rekindle."):
            yield item_class
            yield from item_classes(item_class)


def test_every_kind_has_a_reducer() -> None:
    assert REDUCERS.keys() == KINDS.keys()


def test_every_item_class_has_a_view() -> None:
    assert VIEWS.keys() == set(item_classes())


def test_every_item_that_a_reducer_adds_has_a_view() -> None:
    assert {it.item for it in REDUCERS.values() if it.item is not None} <= VIEWS.keys()


def test_only_kinds_of_the_history_add_items() -> None:
    no_items = {Category.STATE, Category.NOTICE, Category.TERMINAL, Category.TRUNCATION}
    for name, kind in KINDS.items():
        assert (REDUCERS[name].item is None) == (kind.category in no_items), name


STATE_FIELDS: Json = {
    "availableCommands": [],
    "configOptions": [{"id": "model", "type": "select", "currentValue": "a", "options": []}],
    "currentModeId": "code",
    "used": 1,
}
"""Fields of every kind that reports the state."""


def replayed_states(name: str) -> dict[int, list[str]]:
    """Return the kinds that each version replays after one update of a kind."""
    transcript = Transcript()
    transcript.state[name] = {"sessionUpdate": name, **STATE_FIELDS}
    replays = {1: replay_v1(transcript), 2: replay_v2([], transcript)}
    return {
        version: [it["sessionUpdate"] for it in updates] for version, updates in replays.items()
    }


def test_every_kind_of_state_is_replayed_in_the_versions_that_define_it() -> None:
    for kind in KINDS.values():
        # The engine itself reports whether the agent is working.
        if kind.category is Category.STATE and kind.name != STATE_UPDATE:
            replayed = replayed_states(kind.name)
            assert replayed == {it: [kind.name] * (it in kind.versions) for it in (1, 2)}, kind.name
    assert replayed_states(STATE_UPDATE) == {1: [], 2: []}


# -- a made-up kind ---------------------------------------------------------------------------
# Everything that the kind needs: an item class, a translation, a reducer, a view, and three rows.


class CheckpointItem(TranscriptItem, kw_only=True):
    """A state of the project that the agent has saved."""

    id: str
    label: str
    files: list[str]

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        del context
        yield checkpoint_message(self.label)

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        del context
        fields = {"checkpointId": self.id, "label": self.label, "files": self.files}
        yield {"sessionUpdate": "checkpoint_update", **fields}

    def search_text(self) -> SearchText:
        return SearchText(DocumentKind.PLAN, self.id, self.label)

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        del terminals
        yield f"You saved a checkpoint: {self.label}"


def checkpoint_message(label: str) -> Update:
    content = {"type": "text", "text": f"[checkpoint: {label}]"}
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def checkpoint_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    del live
    return [checkpoint_message(update["label"])]


def fold_checkpoint(transcript: Transcript, entry: Entry, update: Json) -> None:
    items = transcript.turn_for(entry).items
    item = CheckpointItem(
        seq=entry.seq,
        at_us=entry.at_us,
        id=update["checkpointId"],
        label=update["label"],
        files=update["files"],
    )
    items.append(item)


def checkpoint_blocks(item: CheckpointItem) -> Iterator[Block]:
    yield Remark(f"checkpoint: {item.label}")
    yield Checklist(tuple(ChecklistStep(path, "completed") for path in item.files))


def describe_checkpoint(item: CheckpointItem) -> Json:
    return {"type": "checkpoint", "label": item.label, "files": item.files}


def mask_checkpoint(item: CheckpointItem, mask: Mask) -> CheckpointItem:
    item.label = mask(item.label)
    return item


@pytest.fixture
def _checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "checkpoint_update"
    kind = UpdateKind(name=name, versions=(2,), category=Category.OTHER, to_v1=checkpoint_to_v1)
    view = ItemView(describe=describe_checkpoint, blocks=checkpoint_blocks, mask=mask_checkpoint)
    monkeypatch.setitem(KINDS, name, kind)
    monkeypatch.setitem(REDUCERS, name, Reducer(fold_checkpoint, CheckpointItem))
    monkeypatch.setitem(VIEWS, CheckpointItem, view)


FIELDS: Json = {"checkpointId": "c1", "label": "before <b>", "files": ["a.py"]}


def send_update(client: int, agent: int, kind: str, fields: Json) -> tuple[EnginePair, Json]:
    """Let an agent send an update; return the engine, and the update that the client got."""
    pair = EnginePair()
    pair.do_speaks(f"{client} {agent}")
    pair.do_agent("Fake")
    pair.exchange("session/new", {"cwd": "/p", "mcpServers": []}, {"sessionId": "s1"})
    prompt = [{"type": "text", "text": "Go"}]
    pair.request(5, "session/prompt", sessionId="s1", prompt=prompt)
    sent = pair.update("s1", kind, **fields)
    return pair, sent.response["params"]["update"]


def send_checkpoint(client: int, agent: int) -> tuple[EnginePair, Json]:
    return send_update(client, agent, "checkpoint_update", FIELDS)


def recorded(pair: EnginePair) -> Transcript:
    return fold(pair.record.store.read("s1"))


@pytest.mark.usefixtures("_checkpoints")
def test_a_new_kind_is_recorded_and_folded() -> None:
    pair, update = send_checkpoint(2, 2)
    assert update == {"sessionUpdate": "checkpoint_update", **FIELDS}
    _, item = recorded(pair).turns[0].items
    assert isinstance(item, CheckpointItem)
    assert item.label == "before <b>"


@pytest.mark.usefixtures("_checkpoints")
def test_a_new_kind_is_translated_and_replayed_like_live() -> None:
    pair, live_v1 = send_checkpoint(1, 2)
    _, live_v2 = send_checkpoint(2, 2)
    transcript = recorded(pair)
    _, replayed_v1 = list(replay_v1(transcript))
    replayed_v2 = list(replay_v2(transcript.turns, transcript))[1]
    for live, replayed in ((live_v1, replayed_v1), (live_v2, replayed_v2)):
        assert {**replayed, "_meta": None} == {**live, "_meta": None}
    assert live_v1 == checkpoint_message("before <b>")


@pytest.mark.usefixtures("_checkpoints")
def test_a_new_kind_is_in_every_document_and_on_the_terminal() -> None:
    pair, _ = send_checkpoint(2, 2)
    session, transcript = pair.record.store.session("s1"), recorded(pair)
    turns = transcript.turns
    markdown = "".join(as_markdown(session, transcript, turns))
    assert r"*(checkpoint: before \<b\>)*" in markdown
    assert "- [x] a.py" in markdown
    page = "".join(as_html(session, transcript, turns))
    assert '<p class="note">checkpoint: before &lt;b&gt;</p>' in page
    (turn,) = json.loads("".join(as_json(session, transcript, turns)))["conversation"]
    assert turn["items"][1]["label"] == "before <b>"
    pieces = turn_pieces(turns[0], FOLDED, transcript.terminals)
    lines = [line for piece in pieces for line in plain_lines(piece)]
    assert "(checkpoint: before <b>)" in lines
    assert "  [x] a.py" in lines


@pytest.mark.usefixtures("_checkpoints")
def test_a_new_kind_is_printed_while_a_session_is_followed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair, _ = send_checkpoint(2, 2)
    transcript = Transcript()
    live = LiveRenderer(PlainPrinter(), FOLDED, lambda: transcript.terminals)
    follower = Follower(transcript, live)
    for entry in pair.record.store.read("s1"):
        follower.add(entry)
    assert "(checkpoint: before <b>)\n  [x] a.py\n" in capsys.readouterr().out


@pytest.mark.usefixtures("_checkpoints")
def test_a_new_kind_is_searched_handed_over_and_masked() -> None:
    pair, _ = send_checkpoint(2, 2)
    transcript = recorded(pair)
    (turn,) = transcript.turns
    assert "before <b>" in [document.text for document in search_documents(turn)]
    assert "You saved a checkpoint: before <b>" in handover_text(transcript)
    _, item = turn.items
    assert isinstance(item, CheckpointItem)
    item.label = f"token {KEY}"
    redact_turn(turn)
    assert KEY not in str(turn.items[1])


# -- a made-up kind of state ------------------------------------------------------------------
# Everything that the kind needs: its translations, and two rows.


def branch_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    del live
    return [{"sessionUpdate": "branch_update", "branch": update["name"]}]


def branch_to_v2(live: LiveToV2, update: Json) -> Json:
    del live
    return {"sessionUpdate": "branch_update", "name": update["branch"]}


def branch_state_to_v1(state: SessionState, name: str) -> Json | None:
    fields = state.updates.get(name)
    return fields and {"branch": fields.get("name") or fields.get("branch")}


def branch_state_to_v2(state: SessionState, name: str) -> Json | None:
    fields = state.updates.get(name)
    return fields and {"name": fields.get("name") or fields.get("branch")}


@pytest.fixture
def _branches(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "branch_update"
    kind = UpdateKind(
        name=name,
        versions=(1, 2),
        category=Category.STATE,
        to_v1=branch_to_v1,
        to_v2=branch_to_v2,
        state_to_v1=branch_state_to_v1,
        state_to_v2=branch_state_to_v2,
    )
    monkeypatch.setitem(KINDS, name, kind)
    monkeypatch.setitem(REDUCERS, name, Reducer(Transcript.replace_state))


@pytest.mark.usefixtures("_branches")
@pytest.mark.parametrize("agent", [1, 2])
def test_a_new_kind_of_state_is_recorded_and_replayed_like_live(agent: int) -> None:
    fields = {"branch": "main"} if agent == 1 else {"name": "main"}
    pairs = {client: send_update(client, agent, "branch_update", fields) for client in (1, 2)}
    assert pairs[1][1] == {"sessionUpdate": "branch_update", "branch": "main"}
    assert pairs[2][1] == {"sessionUpdate": "branch_update", "name": "main"}
    for pair, _ in pairs.values():
        transcript = recorded(pair)
        assert [len(turn.items) for turn in transcript.turns] == [1]
        replays = {1: replay_v1(transcript), 2: replay_v2(transcript.turns, transcript)}
        for version, updates in replays.items():
            *_, last = updates
            assert without(last, "_meta") == pairs[version][1]


@pytest.mark.parametrize("versions", [(1,), (2,), (1, 2)])
def test_a_new_kind_of_state_is_replayed_unchanged_by_default(
    monkeypatch: pytest.MonkeyPatch, versions: tuple[int, ...]
) -> None:
    name = "branch_update"
    kind = UpdateKind(name=name, versions=versions, category=Category.STATE)
    monkeypatch.setitem(KINDS, name, kind)
    assert replayed_states(name) == {it: [name] * (it in versions) for it in (1, 2)}


def test_a_handover_notice_in_a_message_is_described_as_a_handover() -> None:
    notice = TranscriptMessage(role=Role.AGENT, seq=1, at_us=1, meta={"rekindle": {}})
    assert view_of(notice).describe(notice) == {"type": "handover"}


def test_a_handover_is_shown_with_its_reason() -> None:
    item = HandoverItem(seq=1, at_us=1, reason=HandoverReason.REWOUND)
    meta = {"rekindle": {"restored": "handover", "reason": "rewound"}}
    notice = TranscriptMessage(role=Role.AGENT, seq=1, at_us=1, meta=meta)
    for shown in (item, notice):
        assert view_of(shown).describe(shown) == {"type": "handover", "reason": "rewound"}
    assert list(blocks_of(item)) == [
        Remark("this session was rewound; Rekindle sent the agent the rest of the history")
    ]


def test_a_redacted_message_keeps_its_metadata_masked() -> None:
    meta = {"rekindle": {"restored": "handover"}, "note": f"token {KEY}"}
    notice = TranscriptMessage(role=Role.AGENT, seq=1, at_us=1, protocol=2, meta=meta)
    turn = TranscriptTurn(number=1, at_us=1, items=[notice])
    redact_turn(turn)
    (masked,) = turn.items
    assert isinstance(masked, TranscriptMessage)
    assert view_of(masked).describe(masked) == {"type": "handover"}
    assert masked.protocol == 2
    assert masked.meta["rekindle"] == meta["rekindle"]
    assert KEY not in str(masked.meta)


def test_history_in_front_of_a_prompt_is_not_shown_as_the_users_words() -> None:
    history = handover_text(fold([]))

    def message(*texts: str) -> TranscriptMessage:
        made = TranscriptMessage(role=Role.USER, seq=1, at_us=1)
        made.replace([{"type": "text", "text": text, "annotations": {}} for text in texts])
        return made

    for texts in ((history, "Go on"), (f"{history}\nGo on",)):
        view = view_of(message(*texts))
        described = view.describe(message(*texts))
        assert [block["text"] for block in described["content"]] == ["Go on"]
        assert described["carriesHistory"] is True
        speech, remark = view.blocks(message(*texts))
        assert isinstance(speech, Speech)
        assert [block["text"] for block in speech.blocks] == ["Go on"]
        assert remark == Remark(CARRIED)
    assert list(view_of(message()).blocks(message(history))) == [Remark(CARRIED)]
    assert "carriesHistory" not in view_of(message()).describe(message("Go on"))
    assert [type(block) for block in view_of(message()).blocks(message())] == [Speech]
