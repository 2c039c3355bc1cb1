"""The steps, and their outcomes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from interop.comparison import Difference
from rekindle.client import NotOffered, RekindleError

ScenarioName = Literal["life", "acpx", "neovim", "import", "memory", "sharing"]
Form = Literal["bare", "v1", "v2"]

SCENARIOS: tuple[ScenarioName, ...] = ("life", "acpx", "neovim", "import", "memory", "sharing")
FORMS: tuple[Form, ...] = ("bare", "v1", "v2")
STEPS = {
    "turn": "turn with a tool call",
    "list": "listed after `kill -9`",
    "load": "load replays all of it",
    "load memory": "remembers after load",
    "agent killed": "remembers, the agent alone killed",
    "resume": "resume replays nothing",
    "resume memory": "remembers after resume",
    "cut off": "knows the interrupted prompt",
    "fork": "fork",
    "fork memory": "the fork remembers",
    "close": "close, and load again",
    "title": "set a title",
    "archive": "archive, and unarchive",
    "rewind": "rewind",
    "rewind memory": "remembers the rest only",
    "delete": "delete",
}
ACPX_STEPS = {
    "new": "`sessions new`",
    "prompt": "`prompt`, with a tool call",
    "killed": "`kill -9`, `prompt`: remembers",
    "killed again": "the same again",
    "one session": "all of it in one session",
}
NEOVIM_STEPS = {
    "new": "a chat, and a prompt",
    "killed": "`kill -9`, `/resume`, a prompt: shows all, remembers",
    "killed again": "the same again",
    "one session": "all of it in one session",
}
IMPORT_STEPS = {
    "live": "a session by the tool alone",
    "import": "imported: one found, one new",
    "again": "imported again: unchanged",
    "list": "listed by its folder, with the tool's name",
    "load v1": "load replays the live session, v1 client",
    "load v2": "the same, v2 client",
    "stranger": "an agent without sessions knows it",
    "other": "the agent of another tool continues it",
    "own": "the tool's own agent continues it",
    "after own": "imported after that: nothing new",
}
"""Only the last two steps change the tool's own files."""

SHARING_STEPS = {
    "joined": "a second client loads a running turn, and receives the rest",
    "permission": "the second client answers a permission request of the first one's turn",
    "detached": "the editor killed in mid-turn: the turn ends whole",
    "loaded": "the next editor loads all of it; the model is shown all",
}

MOMENTS = {
    "turn": "in a fifth turn",
    "answer": "at the fourth answer",
    "0.1": "0.1 s after it",
    "1": "1 s after it",
    "10": "10 s after it",
}
"""The moments at which everything is killed, after four turns and one clean restart."""
Method = Literal["load", "resume"]
METHODS: tuple[Method, ...] = ("load", "resume")


class StepFailed(Exception):
    """A step did not have the expected result."""


class Outcome(Struct, frozen=True):
    """The outcome of a step. The remark has the reason, or the means of restoring."""

    status: Literal["ok", "not offered", "failed", "not reached"]
    remark: str = ""


class MemoryOutcome(Struct, frozen=True, kw_only=True):
    """The turns that the model was shown after a kill and a restore."""

    moment: str
    method: Method
    missing: tuple[str, ...] = ()
    """The completed turns whose prompt or answer the model was not shown."""
    doubled: tuple[str, ...] = ()
    """The completed turns whose prompt or answer the model was shown more than once."""
    interrupted: int | None = None
    """How many times the model was shown the prompt of an interrupted turn, if there was one."""
    restored: str = ""
    """The value of `_meta.rekindle.restored`."""
    missing_turns: int = 0
    """The value of `_meta.rekindle.missingTurns`."""
    error: str = ""
    """The reason why nothing could be judged."""

    @property
    def is_ok(self) -> bool:
        """Whether the model was shown every completed turn once."""
        return not (self.missing or self.doubled or self.error)


class ExplainedDifference(Struct, frozen=True):
    """A difference between a live session and its import, with its reason."""

    difference: Difference
    reason: str


class Result(Struct, frozen=True, kw_only=True):
    """The outcomes of one agent in all forms, or the reason why it was not run."""

    agent: str
    releases: tuple[str, ...]
    says: str = ""
    """The name and version that the agent reports."""
    not_run: str = ""
    forms: dict[Form, dict[str, Outcome]] = {}
    acpx: dict[str, Outcome] = {}
    neovim: dict[str, Outcome] = {}
    """Empty if Neovim is not installed."""
    imports: dict[str, Outcome] = {}
    """Empty if the agent's own sessions cannot be imported."""
    differences: tuple[ExplainedDifference, ...] = ()
    memory: tuple[MemoryOutcome, ...] = ()
    sharing: dict[str, Outcome] = {}

    @property
    def is_as_expected(self) -> bool:
        """Whether all steps behind Rekindle passed, with all turns. Bare agents may fail."""
        behind = [self.forms.get(form, {}) for form in FORMS if form != "bare"]
        outcomes = [
            outcome.status
            for steps in (*behind, self.acpx, self.neovim, self.imports)
            for outcome in steps.values()
        ]
        is_ok = [status == "ok" for status in outcomes] + [it.is_ok for it in self.memory]
        # Some agents ask for no permission.
        is_ok += [it.status in {"ok", "not offered"} for it in self.sharing.values()]
        return not self.not_run and bool(is_ok) and all(is_ok)


async def outcome_of(attempt: Callable[[], Awaitable[object]], seconds: float) -> Outcome:
    """Try a step, and return its outcome. A text that the attempt returns is the remark."""
    try:
        async with asyncio.timeout(seconds):
            remark = await attempt()
    except NotOffered:
        return Outcome("not offered")
    except TimeoutError:
        return Outcome("failed", f"no answer within {seconds:g} s")
    except (RekindleError, StepFailed) as error:
        return Outcome("failed", error_text(error))
    return Outcome("ok", remark if isinstance(remark, str) else "")


def error_text(error: BaseException) -> str:
    """Return the text of an error in one line."""
    return " ".join((str(error) or type(error).__name__).split())[:300]
