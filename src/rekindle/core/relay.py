"""What becomes of each line: passed on as it came, and recorded.

An answer that we give ourselves (the agent has died, or strictness forbids a line) is
recorded like the agent's own, because the client sees it all the same.
"""

from msgspec import UNSET, Raw, Struct

from rekindle.core.recording import Recording
from rekindle.core.requests import OpenRequests
from rekindle.core.step import Step
from rekindle.core.strict import Strictness
from rekindle.model import Side
from rekindle.wire import methods
from rekindle.wire.envelope import INTERNAL_ERROR, Message, error_response, peek, split_batch


class AgentEnded(Struct, frozen=True):
    """How the agent ended, and the last it said on stderr."""

    exit_code: int | None
    signal: str | None
    last_words: tuple[str, ...]

    def __str__(self) -> str:
        how = f"was killed by {self.signal}" if self.signal else f"exited with {self.exit_code}"
        return f"the agent {how}"


class Relay:
    """Decides what becomes of each line. One instance per connection."""

    def __init__(self, command: tuple[str, ...], *, is_strict: bool = False) -> None:
        self._requests = OpenRequests()
        self._recording = Recording(command, self._requests)
        self._strictness = Strictness() if is_strict else None
        self._ended: AgentEnded | None = None

    def receive(self, side: Side, lines: bytes, at_us: int) -> Step:
        """Decide on the lines, joined by newlines, that one read brought from `side`."""
        step = Step()
        self._recording.begin(step, at_us)
        forward = step.to(side.peer)
        if side is Side.AGENT and self._recording.goes_on(lines):
            forward.append(lines)
        else:
            for line in lines.split(b"\n"):
                if self._pass(side, line, step):
                    forward.append(line)
        self._recording.finish()
        return step

    def learn(self, session_id: str, *, is_recorded: bool) -> None:
        """Take the answer to a look-up of an earlier step."""
        self._recording.learn(session_id, is_recorded=is_recorded)

    def recover(self) -> None:
        """Forget what was begun, after a fault in the middle of it."""
        self._recording.begin(Step(), 0)
        self._recording.finish()
        self._recording.end_streak()

    def agent_ended(self, ended: AgentEnded, at_us: int) -> Step:
        """Answer every request that the agent left open."""
        self._ended = ended
        step = Step()
        self._recording.begin(step, at_us)
        self._answer_for_agent(ended, step)
        self._recording.finish()
        return step

    def _pass(self, side: Side, line: bytes, step: Step) -> bool:
        """See one line; tell whether it may be passed on."""
        if side is Side.AGENT:
            if self._recording.goes_on(line):
                return True
            message = peek(line)
            if message is not None and message.is_update:
                self._recording.update(message, line)
                return True
        else:
            message = peek(line)
        return self._admit(side, line, message, step)

    def _admit(self, side: Side, line: bytes, message: Message | None, step: Step) -> bool:
        """See a line that is no update; tell whether it may be passed on."""
        self._recording.end_streak()
        if self._strictness:
            objection = self._strictness.objection(side, line, message)
            if objection:
                if objection.answer:
                    step.to(side).append(objection.answer)
                step.complaints.append(objection.complaint)
                return False
        if message is not None:
            self._see(side, line, message)
        else:
            batch = split_batch(line)
            if not batch:
                self._recording.unreadable(side, line)
            for member in batch:
                inner = peek(member)
                if inner is not None:
                    self._see(side, member, inner)
        if self._ended and side is Side.CLIENT:
            self._answer_for_agent(self._ended, step)
            return False
        return True

    def _see(self, side: Side, line: bytes, message: Message) -> None:
        if isinstance(message.id, Raw):
            if message.method is not UNSET:
                self._recording.request(side, message.id, message, line)
            elif message.is_response:
                self._recording.response(side, message.id, message, line)
        elif message.is_update and side is Side.AGENT:
            self._recording.update(message, line)
        elif message.method is not UNSET:
            self._recording.notification(side, message.method, message, line)

    def _answer_for_agent(self, ended: AgentEnded, step: Step) -> None:
        for asked in self._requests.take_all(Side.CLIENT):
            answer = error_response(
                Raw(asked.id),
                INTERNAL_ERROR,
                f"{ended} before it answered {asked.method}",
                {
                    "exitCode": ended.exit_code,
                    "signal": ended.signal,
                    "stderr": list(ended.last_words),
                },
            )
            if asked.method == methods.PROMPT and asked.session_id is not None:
                self._recording.end_turn(asked.session_id, answer)
            step.to_client.append(answer)
