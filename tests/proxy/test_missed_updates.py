"""The updates for a client after the end of its host."""

import json

from msgspec import Raw

from rekindle.acp.recorded_fields import recorded_request
from rekindle.jsonvalue import Json
from rekindle.model import Entry, Kind, Side
from rekindle.proxy.host_connections import HostRequest
from rekindle.proxy.missed_updates import missed_lines, responses_to
from rekindle.transcript.reducer import fold

PROMPT = b'{"id":4,"params":{"sessionId":"s","prompt":[{"type":"text","text":"Mine"}]}}'


def entry(seq: int, kind: Kind, message: object, protocol: int = 1) -> Entry:
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return Entry(seq=seq, side=side, kind=kind, at_us=seq, line=line, protocol=protocol)


def update(seq: int, protocol: int = 1, **fields: object) -> Entry:
    params = {"sessionId": "s", "update": fields}
    return entry(seq, Kind.UPDATE, {"method": "session/update", "params": params}, protocol)


def missed(protocol: int, entries: list[Entry], after: int, *own: HostRequest) -> list[object]:
    later = [it for it in entries if it.seq > after]
    lines = missed_lines(protocol, "s", fold(iter(entries)), later, list(own))
    return [json.loads(line)["params"]["update"] for line in lines]


def test_a_version_1_client_receives_the_missed_chunks_and_prompts_of_others() -> None:
    others = PROMPT.replace(b"Mine", b"Theirs")
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}}
    entries = [
        entry(1, Kind.PROMPT, PROMPT),
        update(2, **chunk),
        update(3, **chunk),
        entry(4, Kind.PROMPT, others),
    ]
    request = HostRequest(Raw(b"4"), "session/prompt", "s", PROMPT)
    assert missed(1, entries, 0, request)[:2] == [chunk, chunk]
    (again, prompt) = missed(1, entries, 2)
    assert again == chunk
    assert prompt == {
        "sessionUpdate": "user_message_chunk",
        "messageId": "rekindle-4",
        "content": {"type": "text", "text": "Theirs"},
    }


def test_a_version_1_client_receives_a_missed_notice_of_a_handover() -> None:
    handover = {"type": "text", "text": "The history"}
    (notice,) = missed(1, [entry(1, Kind.PROMPT, PROMPT), entry(2, Kind.HANDOVER, handover)], 1)
    assert "sent it the history" in json.dumps(notice)


def test_updates_of_a_version_2_agent_are_translated_for_a_version_1_client() -> None:
    first = update(2, 2, sessionUpdate="tool_call_update", toolCallId="t", title="T")
    entries = [
        entry(1, Kind.PROMPT, PROMPT, 2),
        first,
        update(3, 2, sessionUpdate="tool_call_update", toolCallId="t", status="completed"),
    ]
    (known,) = missed(1, entries, 2)
    assert known["sessionUpdate"] == "tool_call_update"  # type: ignore[index]
    new, _ = missed(1, entries, 1)
    assert new["sessionUpdate"] == "tool_call"  # type: ignore[index]


def test_a_version_2_client_receives_whole_messages_again() -> None:
    def chunk(text: str) -> dict[str, object]:
        content = {"type": "text", "text": text}
        return {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}

    entries = [entry(1, Kind.PROMPT, PROMPT), update(2, **chunk("a")), update(3, **chunk("b"))]
    shown = [it for it in missed(2, entries, 2) if it["messageId"] == "m"]  # type: ignore[index]
    assert shown[0]["content"] == [{"type": "text", "text": "ab"}]  # type: ignore[index]


def prompt(number: int, text: str) -> bytes:
    blocks = [{"type": "text", "text": text}]
    params = {"sessionId": "s", "prompt": blocks}
    return json.dumps({"id": number, "method": "session/prompt", "params": params}).encode()


def recorded(seq: int, number: int, text: str, protocol: int = 1) -> Entry:
    line = recorded_request("session/prompt", prompt(number, text))
    return entry(seq, Kind.PROMPT, line, protocol)


def open_prompt(number: int, text: str) -> HostRequest:
    line = prompt(number, text)
    return HostRequest(Raw(b"%d" % number), "session/prompt", "s", line)


def responses(entries: list[Entry], *prompts: HostRequest) -> list[Json]:
    lines = responses_to(1, list(prompts), entries, fold(iter(entries)))
    return [json.loads(line) for line in lines]


def test_a_prompt_has_the_response_in_the_record_or_an_error() -> None:
    answer = {"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn"}}
    entries = [
        recorded(1, 4, "Mine"),
        entry(2, Kind.ANSWER, b"not JSON"),
        entry(3, Kind.ANSWER, {"result": {}}),
        entry(4, Kind.ANSWER, answer),
    ]
    first, second = responses(entries, open_prompt(4, "Mine"), open_prompt(5, "Unanswered"))
    assert first == answer
    assert second["id"] == 5
    assert second["error"]["data"] == {"agentEnded": True}


def test_the_response_to_another_client_with_the_same_id_is_not_taken() -> None:
    entries = [
        recorded(1, 4, "Theirs"),
        entry(2, Kind.ANSWER, {"id": 4, "result": {"stopReason": "max_tokens"}}),
        recorded(3, 4, "Mine"),
    ]
    (answer,) = responses(entries, open_prompt(4, "Mine"))
    assert answer["error"]["data"] == {"agentEnded": True}


def test_a_version_2_agent_ends_the_turn_of_a_version_1_client_with_a_state() -> None:
    ended = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "max_tokens"}
    entries = [
        recorded(1, 4, "Mine"),
        entry(2, Kind.ANSWER, {"id": "rekindle-prompt-1", "result": {"messageId": "u1"}}, 2),
        update(3, 2, sessionUpdate="state_update", state="running"),
        update(4, 2, **ended),
    ]
    (answer,) = responses(entries, open_prompt(4, "Mine"))
    assert answer == {"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "max_tokens"}}


def test_the_response_to_an_earlier_prompt_of_the_same_text_is_not_taken() -> None:
    entries = [
        recorded(1, 4, "Go on"),
        entry(2, Kind.ANSWER, {"id": 4, "result": {"stopReason": "end_turn"}}),
        recorded(3, 4, "Go on"),
    ]
    mine = open_prompt(4, "Go on")
    mine.after_seq = 2
    (answer,) = responses(entries, mine)
    assert answer["error"]["data"] == {"agentEnded": True}
