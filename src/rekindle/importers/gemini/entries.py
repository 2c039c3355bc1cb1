"""The messages of one conversation told as what a client would have heard, one after the other.

Each is told by what stood before it alone, so that a file that has grown begins with what was told
of it before: of a message that is written once more, what is new in it. A call is told once, when
it is done: later versions may have its output cut. A turn ends where the next one begins. The last
one is ended at the end of the file, for the time being, if the agent's last words were said; else
it was cut off.
"""

from collections.abc import Callable
from hashlib import blake2b

from msgspec import Raw, Struct

from rekindle.importers.base import Notes
from rekindle.importers.entry_builder import Clock, Teller
from rekindle.importers.gemini.records import Call, Message, Part, parts_of
from rekindle.importers.gemini.tool_calls import (
    PLAN,
    call_fields,
    is_done,
    result_fields,
    thoughts_of,
    todo_steps,
    words_of,
)
from rekindle.importers.gemini.user_text import CANCELLED, THANKS, Heard, What, decoded, hear
from rekindle.importers.uuids import Uuids

_COMPACTED = "[The conversation was compacted here: the agent went on with a summary of it.]"
_NOTICES = frozenset({"info", "warning", "error"})
_MESSAGES_REMEMBERED = 256
_MOST_OPEN_CALLS = 10_000
_SILENCE = b'""'


class _Told(Struct):
    """What was told of a message: it may come again with more."""

    size: int = 0
    checksum: str = ""
    versions: int = 0
    thoughts: int = 0


class _Prompt(Struct, frozen=True):
    """A prompt that may be none: the tool writes old ones down again."""

    id: str
    at_us: int
    heard: Heard


class Conversation:
    """Tells one conversation. `child_id` is what a sub-agent's session is called."""

    def __init__(
        self, teller: Teller, notes: Notes, cwd: str | None, child_id: Callable[[str], str]
    ) -> None:
        self._teller = teller
        self._notes = notes
        self._cwd = cwd
        self._child_id = child_id
        self._clock = Clock()
        self._known = Uuids()
        self._recent: dict[str, _Told] = {}
        self._said = Uuids()
        self._calls = Uuids()
        self._open: dict[str, str] = {}
        """The names of the calls that are not done."""
        self._held: _Prompt | None = None
        self._has_begun = False
        self._is_finished = False
        self._finished_us = 0
        self._at_us = 0
        """When it was what was told last; 0 if nobody knows."""
        self._count = 0
        """Of the messages: one without an id is called by it."""

    def take(self, message: Message, *, is_listed: bool) -> None:
        """Tell one more message. Of a list that replaces all others, most were told before."""
        self._count += 1
        at_us = self._clock.read(message.timestamp)
        parts = parts_of(message.content)
        self._let_go(message, parts)
        self._at_us = self._at_us if at_us is None else max(at_us, self._at_us)
        self._teller.at(self._at_us or None)
        match message.type:
            case "user":
                self._user(message, parts, is_listed=is_listed)
            case "gemini":
                self._answer(message, parts, is_listed=is_listed)
            case it if it in _NOTICES:
                self._notice(message, parts)
            case it:
                self._notes.skip(f"a message of unknown type: {it}" if it else "no type")
        if message.id is not None:
            _note(self._known, message.id)

    def finish(self) -> None:
        """Tell what is so as long as the file does not go on."""
        self._teller.is_provisional = True
        if self._held is not None:
            self._prompt(self._held)
        if self._is_finished:
            self._end_turn()

    # -- the user -----------------------------------------------------------------------

    def _user(self, message: Message, parts: list[Part], *, is_listed: bool) -> None:
        self._results(parts)
        heard = _as_typed(hear(parts), hear(parts_of(message.display_content)))
        if heard.what is What.NOTHING:
            return
        is_said = _note(self._said, _key("user", heard.words.encode("utf-8", "surrogatepass")))
        message_id = message.id or f"prompt-{self._count}"
        if self._is_known(message):
            if is_said:
                return
            # Written anew with other words; nobody else has this id.
            message_id = f"{message_id}.{self._at_us}"
        match heard.what:
            case What.SUMMARY if not is_said:
                self._teller.agent(_COMPACTED, message_id)
                self._teller.thought(heard.words, message_id)
                self._finished_us = self._at_us
            case What.SUMMARY:
                pass
            case What.STEERING if self._teller.is_in_turn:
                for block in heard.blocks:
                    self._teller.user(block, message_id)
            case _ if is_said and heard.words and is_listed:
                pass
            case _ if is_said and heard.words:
                self._held = _Prompt(message_id, self._at_us, heard)
            case _:
                self._prompt(_Prompt(message_id, self._at_us, heard))

    def _prompt(self, prompt: _Prompt) -> None:
        self._held = None
        self._end_turn()
        self._has_begun = True
        self._teller.at(prompt.at_us or None)
        self._teller.prompt(prompt.id, prompt.heard.blocks)
        self._is_finished = False
        if prompt.heard.what is What.SHELL:
            if prompt.heard.words.strip():
                self._teller.agent(prompt.heard.words, prompt.id)
            self._finish_now()

    def _let_go(self, message: Message, parts: list[Part]) -> None:
        """Tell a prompt that was asked before, unless an old answer shows that it is an old one."""
        if self._held is None:
            return
        is_old = message.type == "gemini" and _is_synthetic(message)
        if is_old and self._said.find(_key("gemini", words_of(parts))) is not None:
            self._held = None
        else:
            self._prompt(self._held)

    def _end_turn(self) -> None:
        if self._is_finished:
            self._teller.end("end_turn", self._finished_us or None)
        else:
            self._teller.leave()

    def _finish_now(self) -> None:
        self._is_finished, self._finished_us = True, self._at_us

    # -- the model ----------------------------------------------------------------------

    def _answer(self, message: Message, parts: list[Part], *, is_listed: bool) -> None:
        message_id = message.id or f"answer-{self._count}"
        self._speak(message, message_id, parts, is_listed=is_listed)
        for number, part in enumerate(parts):
            if (made := part.function_call) is not None:
                call_id = made.id or f"{message_id}-{number}"
                self._call(Call(id=call_id, name=made.name, args=made.args))
        for number, call in enumerate(message.tool_calls or []):
            call.id = call.id or f"{message_id}-{number}"
            self._call(call)

    def _speak(
        self, message: Message, message_id: str, parts: list[Part], *, is_listed: bool
    ) -> None:
        """Tell what of a message was not told yet."""
        words = words_of(parts)
        is_said = words == _SILENCE or _note(self._said, _key("gemini", words))
        is_known = self._is_known(message)
        is_from_before = not is_known and (is_listed or _is_synthetic(message))
        if is_from_before and (is_said or words in THANKS):
            return
        told = self._recent.pop(message_id, None)
        if told is None and is_known:
            return
        self._recent[message_id] = told = told or _Told()
        if len(self._recent) > _MESSAGES_REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._think(message, message_id, parts, told)
        if words != _SILENCE and (news := _news(words, told)) is not None:
            version = f".{told.versions}" if told.versions > 1 else ""
            self._teller.agent(Raw(news), message_id + version)
            self._has_begun = True
            self._finish_now()

    def _think(self, message: Message, message_id: str, parts: list[Part], told: _Told) -> None:
        thoughts = [
            f"**{it.subject}**\n{it.description}" if it.subject else it.description
            for it in message.thoughts or []
        ] or thoughts_of(parts)
        for number, words in enumerate(thoughts):
            if number >= told.thoughts and words:
                # Each has a heading of its own, which must not stand at the end of the one before.
                self._teller.thought(words, f"{message_id}-{number}" if number else message_id)
                self._has_begun = True
                self._is_finished = False
        told.thoughts = max(told.thoughts, len(thoughts))

    # -- tools --------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        is_open = call.id in self._open
        is_known = _note(self._calls, call.id)
        if is_known and not (is_open and is_done(call)):
            return
        self._is_finished = False
        self._has_begun = True
        self._at_us = max(self._at_us, self._clock.read(call.timestamp) or 0)
        self._teller.at(self._at_us or None)
        self._open.pop(call.id, None)
        if not is_done(call):
            self._open[call.id] = call.name
            if len(self._open) > _MOST_OPEN_CALLS:
                del self._open[next(iter(self._open))]
        if call.name == PLAN:
            self._teller.plan(todo_steps(call))
            return
        fields = call_fields(call, self._cwd)
        if call.agent_id:
            fields["_meta"]["rekindle"] = {"childSessionId": self._child_id(call.agent_id)}
        tell = self._teller.called if is_known else self._teller.call
        tell(call.id, **fields)

    def _results(self, parts: list[Part]) -> None:
        """Tell what became of calls that are not known to be done."""
        for part in parts:
            response = part.function_response
            if response is None:
                continue
            call_id = response.id or self._open_call(response.name)
            is_known = call_id is not None and self._calls.find(call_id) is not None
            if call_id is None or (is_known and call_id not in self._open):
                continue
            self._open.pop(call_id, None)
            _note(self._calls, call_id)
            if response.name != PLAN:
                tell = self._teller.called if is_known else self._teller.call
                tell(call_id, **result_fields(response, is_known=is_known))

    def _open_call(self, name: str) -> str | None:
        """Return the call that a result without an id is of: the first of that name."""
        return next((it for it, called in self._open.items() if called == name), None)

    # -- the tool itself ----------------------------------------------------------------

    def _notice(self, message: Message, parts: list[Part]) -> None:
        """Tell what the tool has said to the user."""
        words = decoded(Raw(words_of(parts))).strip()
        if not words or not self._has_begun or self._is_known(message):
            return
        if words in CANCELLED:
            self._teller.end("cancelled", self._at_us)
            self._is_finished = False
            return
        self._teller.agent(f"[{message.type}] {words}", message.id)
        self._is_finished = self._is_finished and message.type != "error"
        self._finished_us = self._at_us

    # -- what was told ------------------------------------------------------------------

    def _is_known(self, message: Message) -> bool:
        return message.id is not None and self._known.find(message.id) is not None


def _as_typed(told: Heard, seen: Heard) -> Heard:
    """Return what was said as it was typed, and what was attached, as the model was told."""
    attached = [it for it in told.blocks if it["type"] != "text"]
    return Heard(seen.what, [*seen.blocks, *attached], seen.words) if seen.words else told


def _is_synthetic(message: Message) -> bool:
    """Tell whether it was not the model who said it just then, but the tool, or in its name."""
    return message.model is None and bytes(message.content)[:1] == b"["


def _note(names: Uuids, name: str) -> bool:
    """Remember a name; tell whether it was known."""
    if names.find(name) is not None:
        return True
    names.add(name, 1)
    return False


def _key(by: str, words: bytes | memoryview) -> str:
    return f"{by} {blake2b(words, digest_size=16).hexdigest()}"


def _news(words: bytes, told: _Told) -> bytes | None:
    """Return what of a text was not told yet. One that is another is told as one more."""
    # It may be long: no copy is made of it in vain.
    inside = memoryview(words)[1:-1]
    is_same = told.versions and _key("", inside[: told.size]) == told.checksum
    begin = told.size if is_same else 0
    told.versions += not is_same
    told.size, told.checksum = len(inside), _key("", inside)
    if begin == 0:
        return words if inside else None
    return b'"%b"' % inside[begin:] if len(inside) > begin else None
