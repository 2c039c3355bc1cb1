"""What threads tell the picker."""

from rich.text import Text
from textual.message import Message

from rekindle.cli.picker.search import Found


class Named(Message):
    """Sessions were found by what they are called."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found


class Said(Message):
    """Sessions were found by what was said in them."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found


class Indexed(Message):
    """A part of what was said, from 0 to 1, can be searched."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part = part


class Drawn(Message):
    """The end of a session is ready to be shown."""

    def __init__(self, session_id: str, lines: Text) -> None:
        super().__init__()
        self.session_id = session_id
        self.lines = lines


class Told(Message):
    """Something was done, or could not be."""

    def __init__(self, words: str, *, is_done: bool = False) -> None:
        super().__init__()
        self.words = words
        self.is_done = is_done
