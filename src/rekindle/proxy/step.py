"""What the core tells the runner to do."""

from msgspec import Struct

from rekindle.model import Change, Side
from rekindle.proxy.flow import ToRunner


class Complaint(Struct, frozen=True):
    """Something to tell the user, outside the protocol. `quote` was said in the conversation."""

    text: str
    quote: str = ""


class Posed(Struct, frozen=True):
    """A question, and the number of the flow that waits for its answer."""

    flow: int
    question: ToRunner


class Step(Struct):
    """What becomes of what one read brought, in the order of the fields.

    That everything is recorded before anything is sent is not a rule the runner has to
    remember: it is the shape of this value.
    """

    changes: list[Change] = []
    """What to record."""
    sync: bool = False
    """Whether it must be on the disk: a turn begins or ends here."""
    to_agent: list[bytes] = []
    to_client: list[bytes] = []
    complaints: list[Complaint] = []
    questions: list[Posed] = []
    """What must be answered at once; each answer leads to another step."""
    wake_us: int | None = None
    """When the relay wants to be called again, if nothing happens until then."""

    def to(self, side: Side) -> list[bytes]:
        """Return the lines that this side will get."""
        return self.to_agent if side is Side.AGENT else self.to_client
