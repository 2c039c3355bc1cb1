"""What came of each step, and which steps there are."""

from typing import Literal

from msgspec import Struct

from interop.comparison import Difference

Form = Literal["bare", "v1", "v2"]

FORMS: tuple[Form, ...] = ("bare", "v1", "v2")
STEPS = {
    "turn": "turn with a tool call",
    "list": "listed after `kill -9`",
    "load": "load tells all of it",
    "load memory": "remembers after load",
    "agent killed": "remembers, the agent alone killed",
    "resume": "resume tells nothing",
    "resume memory": "remembers after resume",
    "cut off": "knows the prompt that was cut off",
    "fork": "fork",
    "fork memory": "the fork remembers",
    "close": "close, and load again",
    "delete": "delete",
}
ACPX_STEPS = {
    "new": "`sessions new`",
    "prompt": "`prompt`, with a tool call",
    "killed": "`kill -9`, `prompt`: remembers",
    "killed again": "the same once more",
    "one session": "all of it in one session",
}
IMPORT_STEPS = {
    "live": "a session by the tool alone",
    "import": "imported: one found, one new",
    "again": "once more: unchanged",
    "list": "listed by its folder, with the tool's name",
    "load v1": "load tells what was seen live, v1 client",
    "load v2": "the same, v2 client",
    "stranger": "an agent without sessions knows of it",
    "other": "the agent of another tool goes on with it",
    "own": "the tool's own agent goes on with it",
    "after own": "imported after that: nothing new",
}
"""In an order in which the tool's own files do not change before the last two."""


class StepFailed(Exception):
    """What a step brought about is not what it should."""


class Outcome(Struct, frozen=True):
    """How a step went; the remark says why, or by which means."""

    status: Literal["ok", "not offered", "failed", "not reached"]
    remark: str = ""


class ExplainedDifference(Struct, frozen=True):
    """A difference between what was seen live and what was imported, and why there is one."""

    difference: Difference
    reason: str


class Result(Struct, frozen=True, kw_only=True):
    """What one agent did in all forms; or why it was not run."""

    agent: str
    releases: tuple[str, ...]
    says: str = ""
    """Its name and version, in its own words."""
    not_run: str = ""
    forms: dict[Form, dict[str, Outcome]] = {}
    acpx: dict[str, Outcome] = {}
    imports: dict[str, Outcome] = {}
    """If the sessions of that tool can be imported."""
    differences: tuple[ExplainedDifference, ...] = ()

    @property
    def is_as_expected(self) -> bool:
        """Whether all went well behind Rekindle; of bare agents, nothing is expected."""
        behind = [self.forms.get(form, {}) for form in FORMS if form != "bare"]
        outcomes = [
            it.status for steps in (*behind, self.acpx, self.imports) for it in steps.values()
        ]
        return not self.not_run and bool(outcomes) and set(outcomes) == {"ok"}


def error_text(error: BaseException) -> str:
    """Return what an error says, in a line."""
    return " ".join((str(error) or type(error).__name__).split())[:300]
